"""The words of the image: plan, render, build, push, verify, run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bake.cli.group import MODEL, bake, open_workspace, print_result
from bake.cli.words import RateType, registry_profile, settings
from bake.errors import CheckFailed, UsageError
from bake.units import count_text

if TYPE_CHECKING:
    from bake.api import Output, Workspace
    from bake.cli.words import Settings
    from bake.lock import ModelId

_TO_FORM = "REF|oci:PATH|docker[:NAME:TAG]"
_TO = (
    "Where the image goes: a reference with its registry's host, such as ghcr.io/org/llama3-8b:v1.0.0 (registry:REF "
    "for one without), a folder, or the Docker daemon.  "
    "[default: docker if a daemon answers, else oci:dist/NAME-VERSION]"
)


@bake.command()
@click.argument("model", type=MODEL, metavar="NAME@VERSION")
@click.option("--to", metavar=_TO_FORM, envvar="BAKE_TO", help=_TO)
@click.option("--rate", type=RateType(), metavar="RATE", help="The line to the registry: 100MB/s, 1Gbit/s, 300Mbps.")
@registry_profile
@click.pass_context
def plan(context: click.Context, model: ModelId, to: str | None, rate: float | None) -> None:
    """Show what a build would make, and what it would fetch, read and write. Does nothing.

    With --to REF it asks the registry what it has, and tells what would be sent, how long that takes at a RATE, and the
    digest that the image will have, as soon as every layer's is known. The exit code is 1 if the registry would refuse
    it. Otherwise no network is asked.

    \b
      bake plan llama3-8b@v1.0.0
      bake plan llama3-8b@v1.0.0 --to ghcr.io/org/llama3-8b:v1.0.0 --rate 1Gbit/s
    """
    from bake import api, views

    said = settings(context)
    workspace = open_workspace(said)
    output = api.choose_output(workspace, model, to)
    if rate is not None and output.kind != "registry":
        raise UsageError("--rate is that of the line to a registry", hint="add --to REF")
    forecast = api.forecast(workspace, model, output=output, rate=rate)
    print_result(said, views.plan_document(forecast), views.plan_lines(forecast))
    if forecast.faults:
        raise CheckFailed(f"{output.shown} would refuse it: {count_text(len(forecast.faults), 'fault')}")


@bake.command()
@click.argument("models", nargs=-1, type=MODEL, metavar="[NAME@VERSION]...")
@click.option("-o", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Write a build context.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["dockerfile", "bake"]),
    default="dockerfile",
    show_default=True,
    help="bake: a docker-bake.json of the models named, or of the whole lock, for `docker buildx bake`.",
)
@click.pass_context
def render(context: click.Context, models: tuple[ModelId, ...], folder: Path | None, form: str) -> None:
    """Render the Dockerfile of a model, to read, review and commit. Needs no network.

    It builds with `docker build` on a machine without bake, and gives the same layers as `bake build`. With -o, DIR
    becomes a complete build context: the Dockerfile, the entrypoint and the record.

    \b
      bake render llama3-8b@v1.0.0
      bake render llama3-8b@v1.0.0 -o llama && docker build --secret … llama
      bake render --format bake -o images && cd images && docker buildx bake
    """
    from bake import api

    said = settings(context)
    workspace = open_workspace(said)
    wanted = models or tuple(model.id for model in workspace.load().models)
    if form == "dockerfile" and len(models) != 1:
        raise UsageError("expected one NAME@VERSION", hint="bake render NAME@VERSION, or --format bake for several")
    rendered = [api.render_model(workspace, model) for model in wanted]
    text = api.write_renderings(rendered, folder, form=form)
    shown = [str(folder)] if folder else [text.rstrip("\n")]
    print_result(
        said, {"models": [str(model) for model in wanted], "folder": folder and str(folder), "text": text}, shown
    )


@bake.command()
@click.argument("model", type=MODEL, metavar="NAME@VERSION")
@click.option("--to", metavar=_TO_FORM, envvar="BAKE_TO", help=_TO)
@click.option(
    "--builder",
    type=click.Choice(["direct", "docker"]),
    default="direct",
    show_default=True,
    help="direct: bake writes the layers. docker: BuildKit builds what `bake render` gives.",
)
@click.option("--buildx-builder", metavar="NAME", help="A builder of `docker buildx ls`, for --builder docker.")
@click.option("--frozen", is_flag=True, help="Do not write layer digests that were learned into the lock.")
@registry_profile
@click.pass_context
def build(
    context: click.Context, model: ModelId, to: str | None, builder: str, buildx_builder: str | None, *, frozen: bool
) -> None:
    """Build the image of a model, and print its reference with its digest.

    The image goes into the Docker daemon, which is sent only the layers that it lacks, into an OCI layout, a folder
    that skopeo, umoci and other tools read, or into a registry, as `bake push` puts it there. The same lock gives the
    same layers on any machine. Every byte is proven against the lock on its way in; layers that are there already are
    not read. It ends with a search for tokens.

    \b
      bake build tiny-llama@v1.0.0
      bake build tiny-llama@v1.0.0 --to docker:registry.example/tiny-llama:v1.0.0
      bake build tiny-llama@v1.0.0 --to oci:dist/tiny-llama
      bake build tiny-llama@v1.0.0 --to ghcr.io/org/tiny-llama:v1.0.0
    """
    from bake import api, views

    said = settings(context)
    workspace = open_workspace(said)
    if buildx_builder and builder != "docker":
        raise UsageError("--buildx-builder names a builder for --builder docker", hint="add --builder docker")
    output = api.choose_output(workspace, model, to)
    if output.kind == "registry":
        if builder == "docker":
            raise UsageError(
                "--builder docker builds into Docker or a layout, and not into a registry",
                hint="leave out --builder docker: both builders make the same layers",
            )
        _push(said, workspace, model, output, frozen=frozen)
        return
    if builder == "docker":
        built = api.build_with_buildkit(workspace, model, output=output, builder=buildx_builder, quiet=said.quiet)
    else:
        built = api.build(workspace, model, output=output, frozen=frozen)
    print_result(said, views.build_document(built), [built.reference])
    for line in views.build_notes(built, lock=workspace.path.name):
        workspace.progress.note(line)


@bake.command()
@click.argument("model", type=MODEL, metavar="NAME@VERSION")
@click.argument("reference", metavar="REF")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Another tag for the image; may be repeated.")
@click.option("--frozen", is_flag=True, help="Do not write layer digests that were learned into the lock.")
@registry_profile
@click.pass_context
def push(context: click.Context, model: ModelId, reference: str, tags: tuple[str, ...], *, frozen: bool) -> None:
    """Build an image straight into a registry, and print its reference.

    It is the image that `bake build` makes, and need not be built before. Layers are made while they are sent, from the
    store, a folder or the Hub: no disk is needed for them, and every byte is proven on its way. What the registry has
    is neither read nor sent, a base from the same registry is mounted, and what broke goes on. Tags come last.

    REF is HOST/REPOSITORY[:TAG]; its tag is the model's version unless it has one. One more tag, VERSION-DIGEST, is put
    that never moves. The login is that of `docker login`. BAKE_PLAIN_HTTP=HOST,… names registries without TLS.

    \b
      bake push llama3-8b@v1.0.0 ghcr.io/org/llama3-8b
      bake push llama3-8b@v1.0.0 registry.example:5000/llama3-8b:v1.0.0 --tag latest
    """
    from bake import api

    said = settings(context)
    workspace = open_workspace(said)
    _push(said, workspace, model, api.registry_output(model, reference), tags=tags, frozen=frozen)


def _push(
    said: Settings,
    workspace: Workspace,
    model: ModelId,
    output: Output,
    *,
    tags: tuple[str, ...] = (),
    frozen: bool,
) -> None:
    from bake import api

    pushed = api.push(workspace, model, output=output, tags=tags, frozen=frozen)
    print_result(said, pushed.document(), [pushed.reference])
    for line in pushed.notes(lock=workspace.path.name):
        workspace.progress.note(line)


@bake.command()
@click.argument("target", metavar="TARGET")
@click.option(
    "--level",
    type=click.Choice(["quick", "full"]),
    default="quick",
    show_default=True,
    help="quick: names, sizes, modes, JSON, safetensors headers, index against shards. full: every byte's sha256 too.",
)
@click.option("--against", type=MODEL, help="Compare with this model of the lock.")
@click.pass_context
def verify(context: click.Context, target: str, level: str, against: ModelId | None) -> None:
    """Verify an image or a folder. Every fault is listed; the exit code is 1 if there is one.

    TARGET is NAME@VERSION (its image in dist/), a reference with its registry's host, oci:PATH, or a folder: a model's
    source, an unpacked image, or any model's files. An image is compared with the record inside it; a folder with the
    record beside it or with the lock. A folder of which nothing is known has its structure checked.

    Of an image in a registry, quick reads a few MB: the record, configuration and tokenizer, and the weights' headers.
    full streams every layer. Neither needs Docker, nor writes anything.

    \b
      bake verify llama3-8b@v1.0.0
      bake verify ghcr.io/org/llama3-8b:v1.0.0 --level full
    """
    from bake import api, views

    said = settings(context)
    workspace = open_workspace(said)
    verified = api.verify_target(workspace, target, level=level, against=against)  # type: ignore[arg-type]
    print_result(said, views.verify_document(verified), views.verify_lines(verified))
    if verified.fault_count:
        raise CheckFailed(f"{verified.target}: {count_text(verified.fault_count, 'fault')}")


@bake.command("run")
@click.argument("target", metavar="NAME@VERSION|IMAGE")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- WORDS...]")
@click.option(
    "--gpus", metavar="GPUS", default="all", show_default=True, help="As docker run takes it; none for no GPU."
)
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="Mount a folder at /data, read-only.")
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Mount a folder at /outputs.")
@click.option("--shm-size", metavar="SIZE", default="10g", show_default=True, help="How large /dev/shm is.")
@click.option("--name", metavar="NAME", help="The container's name.")
@click.option("--print", "show", is_flag=True, help="Print the docker command, and run nothing.")
@click.pass_context
def run_image(context: click.Context, /, target: str, words: tuple[str, ...], *, show: bool, **options: Any) -> None:
    """Run an image with docker, and with all that verl needs.

    That is GPUs, shared memory, limits, an init process and mounts.

    WORDS go to the image's entrypoint: training overrides, or verify, or exec and a command.

    \b
      bake run llama3-8b@v1.0.0 --data data --output runs -- data.train_files=/data/train.parquet
      bake run llama3-8b@v1.0.0 --gpus none -- verify --level full
    """
    from bake import api

    said = settings(context)
    typed_to = sys.stdin.isatty() and sys.stdout.isatty() and not show
    image = api.image_name(open_workspace(said), target)
    container = api.Run(image=image, words=words, interactive=typed_to, **options)
    if show:
        command = api.run_command(container)
        print_result(said, {"command": command}, [shlex.join(command)])
        return
    context.exit(api.run(container))

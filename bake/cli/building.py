"""The words that make images, or tell what making them would take: plan, build, push."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bake.cli import several
from bake.cli.group import MODEL, bake, open_workspace, print_result
from bake.cli.selecting import select, selection_options, to_option
from bake.cli.words import RateType, registry_profile, settings
from bake.errors import CheckFailed, UsageError
from bake.units import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bake.api import Output, Workspace
    from bake.cli.words import Settings
    from bake.lock import ModelId


@bake.command()
@selection_options
@to_option
@click.option("--rate", type=RateType(), metavar="RATE", help="The line to the registry: 100MB/s, 1Gbit/s, 300Mbps.")
@registry_profile
@click.pass_context
def plan(
    context: click.Context,
    /,
    models: tuple[ModelId, ...],
    to: str | None,
    rate: float | None,
    *,
    max_size: int | None,
    summary: Path | None,
    **selection: Any,
) -> None:
    """Show what a build would make, and what it would fetch, read and write. Does nothing.

    With --to REF it asks the registry what it has, and tells what would be sent, how long that takes at a RATE, and the
    digest that the image will have, as soon as every layer's is known. The exit code is 1 if the registry would refuse
    it. Otherwise no network is asked. Who may only read there is told so, and is told the rest.

    For several models, what each would take is followed by what all take together; what they share is counted once.

    \b
      bake plan llama3-8b@v1.0.0
      bake plan llama3-8b@v1.0.0 --to ghcr.io/org/llama3-8b:v1.0.0 --rate 1Gbit/s
      bake plan --changed-since origin/main --to 'ghcr.io/org/{name}' --summary "$GITHUB_STEP_SUMMARY"
    """
    from bake import api, views

    said = settings(context)
    chosen = select("plan", models, **selection)
    workspace = open_workspace(said)
    if len(models) != 1 or max_size is not None or summary:
        images = several.choose(workspace, chosen, to=to, summary=summary)
        _check_rate(rate, [image.output for image in images])
        several.plan_several(context, workspace, images, rate=rate, max_size=max_size, summary=summary)
        return
    output = api.choose_output(workspace, models[0], to)
    _check_rate(rate, [output])
    forecast = api.forecast(workspace, models[0], output=output, rate=rate)
    print_result(said, views.plan_document(forecast), views.plan_lines(forecast))
    if forecast.faults:
        raise CheckFailed(
            f"{output.shown} would refuse it: {count_text(len(forecast.faults), 'fault')}",
            hint=api.smaller_shards(forecast.plan) if forecast.push and forecast.push.is_too_large else None,
        )


@bake.command()
@selection_options
@to_option
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="So many images at once, of those that share no weights. Docker takes one.  [default: 2]",
)
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
    context: click.Context,
    /,
    models: tuple[ModelId, ...],
    to: str | None,
    *,
    jobs: int | None,
    builder: str,
    buildx_builder: str | None,
    frozen: bool,
    max_size: int | None,
    summary: Path | None,
    **selection: Any,
) -> None:
    """Build the image of a model, and print its reference with its digest.

    The image goes into the Docker daemon, which is sent only the layers that it lacks, into an OCI layout, a folder
    that skopeo, umoci and other tools read, or into a registry, as `bake push` puts it there. The same lock gives the
    same layers on any machine. Every byte is proven against the lock on its way in; layers that are there already are
    not read. It ends with a search for tokens.

    Of several, one that fails stops no other, and a layer that they share is read and sent once. The exit code is that
    of the failures, or 1 where they have several. --json gives one document for a model that is named alone, and a list
    otherwise.

    \b
      bake build tiny-llama@v1.0.0
      bake build tiny-llama@v1.0.0 --to docker:registry.example/tiny-llama:v1.0.0
      bake build tiny-llama@v1.0.0 --to oci:dist/tiny-llama
      bake build tiny-llama@v1.0.0 --to ghcr.io/org/tiny-llama:v1.0.0
      bake build --all --to 'ghcr.io/org/{name}'
      bake build --changed-since origin/main --max-size 4GB --to 'oci:dist/{name}/{version}'
    """
    from bake import api, views

    said = settings(context)
    chosen = select("build", models, **selection)
    workspace = open_workspace(said)
    if buildx_builder and builder != "docker":
        raise UsageError("--buildx-builder names a builder for --builder docker", hint="add --builder docker")
    if len(models) != 1 or jobs or max_size is not None or summary:
        images = several.choose(workspace, chosen, to=to, summary=summary)
        _check_builder(builder, [image.output for image in images])
        way = api.Way(kind=builder, builder=buildx_builder, frozen=frozen, quiet=said.quiet)  # type: ignore[arg-type]
        several.build_several(
            context, workspace, images, way, jobs=jobs or api.JOBS, max_size=max_size, summary=summary
        )
        return
    output = api.choose_output(workspace, models[0], to)
    _check_builder(builder, [output])
    if output.kind == "registry":
        _push(said, workspace, models[0], output, frozen=frozen)
        return
    if builder == "docker":
        built = api.build_with_buildkit(workspace, models[0], output=output, builder=buildx_builder, quiet=said.quiet)
    else:
        built = api.build(workspace, models[0], output=output, frozen=frozen)
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


def _check_builder(builder: str, outputs: Iterable[Output]) -> None:
    if builder == "docker" and any(output.kind == "registry" for output in outputs):
        raise UsageError(
            "--builder docker builds into Docker or a layout, and not into a registry",
            hint="leave out --builder docker: both builders make the same layers",
        )


def _check_rate(rate: float | None, outputs: Sequence[Output]) -> None:
    if rate is not None and any(output.kind != "registry" for output in outputs):
        raise UsageError("--rate is that of the line to a registry", hint="add --to REF")

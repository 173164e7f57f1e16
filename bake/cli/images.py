"""The words of the image that say what it is, or start it: render, verify, run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bake.cli.group import MODEL, bake, open_workspace, print_result
from bake.cli.words import settings
from bake.errors import CheckFailed, UsageError
from bake.units import count_text

if TYPE_CHECKING:
    from bake.lock import ModelId


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

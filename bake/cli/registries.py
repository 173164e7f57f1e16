"""The words of registries: pull, rebase."""

from __future__ import annotations

from pathlib import Path

import click

from bake.cli.group import bake, open_workspace, print_result
from bake.cli.words import registry_profile, settings


@bake.command()
@click.argument("reference", metavar="REF")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--role",
    type=click.Choice(["actor", "critic", "reward_model"]),
    default="actor",
    show_default=True,
    help="Which of the image's models.",
)
@click.pass_context
def pull(context: click.Context, reference: str, folder: Path, role: str) -> None:
    """Write a model's files out of an image in a registry, and print the folder. Needs no Docker.

    REF is an image that bake built, with its registry's host. DIR is a folder that is empty or does not exist yet; or
    one that a pull which broke off has left: what is there and right is not fetched again. Every file is proven by the
    sha256 in the image's record, and appears when it is whole.

    \b
      bake pull ghcr.io/org/llama3-8b:v1.0.0 models/llama3-8b
      bake pull ghcr.io/org/llama3-8b:v1.0.0 models/critic --role critic
    """
    from bake import api, views

    said = settings(context)
    workspace = open_workspace(said)
    pulled = api.pull(workspace, api.reference_of(reference), folder, role=role)
    print_result(said, views.pull_document(pulled), [str(pulled.folder)])
    for line in views.pull_notes(pulled):
        workspace.progress.note(line)


@bake.command()
@click.argument("reference", metavar="REF")
@click.option("--base", metavar="NAME", help="A base of the lock.  [default: the one that the lock has for the model]")
@click.option("--to", metavar="REF", help="Where the new image goes.  [default: the tag of the old one]")
@registry_profile
@click.pass_context
def rebase(context: click.Context, reference: str, base: str | None, to: str | None) -> None:
    """Put the weights of an image on another base, or below a newer entrypoint. Moves no weights.

    REF says what has the weights, and the lock what the image should be: its model's base, wheels and overrides. What
    comes out is what `bake push` would make of the lock, to the byte, but no weight is read, sent or needed here. The
    old image is verified first, and stays under its digest.

    \b
      bake rebase ghcr.io/org/llama3-8b:v1.0.0    # once [base.NAME] was changed and locked
      bake rebase ghcr.io/org/llama3-8b:v1.0.0 --base sglang --to ghcr.io/org/llama3-8b:v1.0.0-sglang
    """
    from bake import api

    said = settings(context)
    workspace = open_workspace(said)
    rebased = api.rebase(workspace, api.reference_of(reference), base=base, to=to)
    print_result(said, rebased.document(), [rebased.reference])
    for line in rebased.notes(lock=workspace.path.name):
        workspace.progress.note(line)

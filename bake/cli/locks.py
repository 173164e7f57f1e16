"""The words of the lock: init, add, lock, list, show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bake.cli.group import MODEL, bake, here, open_workspace, print_result
from bake.cli.words import settings
from bake.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from bake.api.ci_files import System
    from bake.lock import ModelId


@bake.command()
@click.option(
    "--ci", "system", type=click.Choice(["github", "gitlab"]), help="Write what lets CI build the images too."
)
@click.option(
    "--install",
    metavar="REQUIREMENT",
    help="How CI installs bake, as pip takes it; . for a checkout of bake.  [default: as this bake was installed]",
)
@click.pass_context
def init(context: click.Context, system: System | None, install: str | None) -> None:
    """Write a new models.lock here.

    It knows one base image, that of verl 0.9 with vLLM, pinned by digest.

    With --ci it writes a workflow as well, for the lock that is there or the new one. A pull request is then told what
    it would push; the default branch pushes each image that is another one; what failed is made up for by the next run.
    Nothing that is there is written over. The files are yours from then on: read them, and change what you like.

    \b
      bake init
      bake init --ci github
      bake init --ci gitlab --install 'bake @ git+https://HOST/ORG/bake@COMMIT'
    """
    from bake import api
    from bake.api import ci_files
    from bake.api.workspace import shown_path

    said = settings(context)
    if system is not None:
        workspace = open_workspace(said)
        written = ci_files.init_ci(workspace, system, install=install)
        print_result(said, written.document(), [shown_path(path) for path in written.files])
        notes = written.notes()
    elif install is not None:
        raise UsageError("--install is how CI installs bake", hint="add --ci github or --ci gitlab")
    else:
        workspace = open_workspace(said, path=said.lock or here() / "models.lock")
        api.init(workspace)
        print_result(said, {"lock": str(workspace.path)}, [shown_path(workspace.path)])
        notes = ["next: bake add NAME@VERSION hf://ORG/NAME"]
    for note in notes:
        workspace.progress.note(note)


@bake.command()
@click.argument("model", type=MODEL, metavar="NAME@VERSION")
@click.argument("source", metavar="SOURCE")
@click.option("--revision", metavar="REV", help="Branch, tag or commit of the Hub repository.  [default: main]")
@click.option("--base", metavar="BASE", help="A base of the lock, or scratch.  [default: the lock's only one]")
@click.option(
    "--include", multiple=True, metavar="GLOB", help="Bring back files that bake leaves out. May be repeated."
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave files out. May be repeated.")
@click.option(
    "--max-shard-size",
    metavar="SIZE",
    help="Divide larger safetensors files, tensor by tensor: 5GB, 4GiB. For registries that limit layers.",
)
@click.option("--critic", type=MODEL, help="Bake this model of the lock in too, as the critic.")
@click.option("--reward-model", type=MODEL, help="Bake this model of the lock in too, as the reward model.")
@click.option("--trust-remote-code", is_flag=True, help="Say that the model's own Python code may run.")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Train with this override of verl's configuration, unless the command line says another. May be repeated.",
)
@click.pass_context
def add(context: click.Context, /, model: ModelId, source: str, **asked: Any) -> None:
    """Find a model and pin it in the lock as NAME@VERSION.

    SOURCE is hf://ORG/NAME, a repository of the Hugging Face Hub (HF_TOKEN, `hf auth login` and HF_ENDPOINT are
    honoured), or dir://PATH, a folder on this machine, relative to the lock.

    Every file is pinned by its sha256. Second copies of the weights (original/, *.bin beside safetensors) and formats
    that verl cannot load are left out; `bake show` says which and why. Nothing is written where anything fails.

    With --max-shard-size no tensor changes: files larger than SIZE become several that load like any sharded model.
    They are read for it once, so those of the Hub are fetched now, into the store, and not again by the build.

    \b
      bake add qwen2.5-0.5b@v1.0.0 hf://Qwen/Qwen2.5-0.5B-Instruct
      bake add mine@v3 dir://runs/step-400 --base scratch
      bake add big@v1.0.0 hf://ORG/BIG --max-shard-size 5GB
    """
    from bake import api

    said = settings(context)
    workspace = open_workspace(said)
    added = api.add(workspace, api.asked_model(workspace, model, source, **asked))
    print_result(
        said, {"model": str(added.id), "set_digest": str(added.set_digest)}, [f"{added.id} {added.set_digest}"]
    )
    workspace.progress.note(f"next: bake build {added.id}")


@bake.command()
@click.argument("models", nargs=-1, type=MODEL, metavar="[NAME@VERSION]...")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if there is anything to do.")
@click.option("--upgrade", is_flag=True, help="Resolve the named models anew, although they are pinned.")
@click.pass_context
def lock(context: click.Context, models: tuple[ModelId, ...], *, check: bool, upgrade: bool) -> None:
    """Resolve what the lock asks for: revisions to commits, files to sha256s.

    Models that are resolved stay as they are. Name some to compare them with their sources, and to be told of every
    file that differs. A version is immutable: only --upgrade resolves one anew.
    """
    from bake import api

    said = settings(context)
    workspace = open_workspace(said)
    if upgrade and not models:
        raise UsageError("--upgrade needs the models to resolve anew", hint="bake lock --upgrade NAME@VERSION")
    if check:
        faults = api.check_lock(workspace, models)
        print_result(said, {"ok": not faults, "faults": list(faults)}, faults)
        if faults:
            raise CheckFailed(f"{workspace.path.name} is not complete", hint="bake lock")
        return
    changed = api.lock_models(workspace, models, upgrade=upgrade)
    print_result(said, {"changed": list(changed)}, changed)
    if not changed:
        workspace.progress.note(f"{workspace.path.name} is complete, nothing changed")


@bake.command("list")
@click.pass_context
def list_models(context: click.Context) -> None:
    """List the models of the lock."""
    from bake import views

    said = settings(context)
    found = open_workspace(said).load()
    print_result(said, views.list_document(found), views.list_lines(found))


@bake.command()
@click.argument("model", type=MODEL, metavar="NAME@VERSION")
@click.pass_context
def show(context: click.Context, model: ModelId) -> None:
    """Show one model: files, sizes, digests, layers; what was left out and why."""
    from bake import api, views

    said = settings(context)
    workspace = open_workspace(said)
    found = workspace.load().find(model)
    output = api.Output(kind="oci", place=str(workspace.default_output(model)))
    forecast = api.forecast(workspace, model, output=output) if found.is_locked and not found.is_stale else None
    print_result(said, views.show_document(found, forecast), views.show_lines(found, forecast))

"""The words: each command parses what was typed, calls one verb of `bake.api`, and prints what comes back.

stdout is the result, made to be piped; progress, notes and errors go to stderr. docs/exit-codes.md lists the codes.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem, get_completion_class

from bake import __version__
from bake.errors import BakeError, CheckFailed, OutputError, UsageError
from bake.words import Group, Settings, completed_settings, settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bake.api import Workspace
    from bake.lock import ModelId

BUG = 70
"""The exit code of a fault in bake itself (EX_SOFTWARE of sysexits.h)."""

INTERRUPTED = 130
"""The exit code of Ctrl-C: 128 + SIGINT."""

_THEMES = {
    "The lock": ("init", "add", "lock", "list", "show"),
    "The image": ("plan", "render", "build", "verify", "run"),
    "Housekeeping": ("cache", "completion"),
}


_TO = "Where the image goes.  [default: docker if a daemon answers, else oci:dist/NAME-VERSION]"


class _ModelType(click.ParamType):  # type: ignore[type-arg] # not generic before click 8.3
    """NAME@VERSION, completed from the lock."""

    name = "NAME@VERSION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ModelId:
        from bake.lock import ModelId

        if isinstance(value, ModelId):
            return value
        try:
            return ModelId.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            models = _workspace(completed_settings(ctx)).load().models
        except BakeError:
            return []
        return [CompletionItem(str(model.id)) for model in models if str(model.id).startswith(incomplete)]


_MODEL = _ModelType()


@click.group(
    cls=Group,
    themes=_THEMES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="bake %(version)s")
def bake() -> None:
    """Bake language models into container images that prove themselves before they train.

    models.lock says which models, at which commit, with which bytes. bake makes an image of an entry: the weights in
    /opt/models, VERL_MODEL_PATH set, and an entrypoint that verifies the model and then starts verl PPO training.

    \b
      bake add tiny@v1 hf://ORG/NAME    find the model, pin every file of it
      bake build tiny@v1                make the image
      bake verify tiny@v1               prove it
    """


@bake.command()
@click.pass_context
def init(context: click.Context) -> None:
    """Write a new models.lock here.

    It knows one base image, that of verl 0.9 with vLLM, pinned by digest.
    """
    from bake import api

    said = settings(context)
    workspace = _workspace(said, path=said.lock or Path("models.lock").absolute())
    api.init(workspace)
    _print(said, {"lock": str(workspace.path)}, [workspace.shown(workspace.path)])
    workspace.progress.note("next: bake add NAME@VERSION hf://ORG/NAME")


@bake.command()
@click.argument("model", type=_MODEL, metavar="NAME@VERSION")
@click.argument("source", metavar="SOURCE")
@click.option("--revision", metavar="REV", help="Branch, tag or commit of the Hub repository.  [default: main]")
@click.option("--base", metavar="BASE", help="A base of the lock, or scratch.  [default: the lock's only one]")
@click.option(
    "--include", multiple=True, metavar="GLOB", help="Bring back files that bake leaves out. May be repeated."
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave files out. May be repeated.")
@click.option("--critic", type=_MODEL, help="Bake this model of the lock in too, as the critic.")
@click.option("--reward-model", type=_MODEL, help="Bake this model of the lock in too, as the reward model.")
@click.option("--trust-remote-code", is_flag=True, help="Say that the model's own Python code may run.")
@click.pass_context
def add(context: click.Context, /, model: ModelId, source: str, **asked: Any) -> None:
    """Find a model and pin it in the lock as NAME@VERSION.

    SOURCE is hf://ORG/NAME, a repository of the Hugging Face Hub (HF_TOKEN, `hf auth login` and HF_ENDPOINT are
    honoured), or dir://PATH, a folder on this machine, relative to the lock.

    Every file is pinned by its sha256. Second copies of the weights (original/, *.bin beside safetensors) and formats
    that verl cannot load are left out; `bake show` says which and why. Nothing is written where anything fails.

    \b
      bake add qwen2.5-0.5b@v1.0.0 hf://Qwen/Qwen2.5-0.5B-Instruct
      bake add mine@v3 dir://runs/step-400 --base scratch
    """
    from bake import api

    said = settings(context)
    workspace = _workspace(said)
    added = api.add(workspace, api.asked_model(workspace, model, source, **asked))
    _print(said, {"model": str(added.id), "set_digest": str(added.set_digest)}, [f"{added.id} {added.set_digest}"])
    workspace.progress.note(f"next: bake build {added.id}")


@bake.command()
@click.argument("models", nargs=-1, type=_MODEL, metavar="[NAME@VERSION]...")
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
    workspace = _workspace(said)
    if upgrade and not models:
        raise UsageError("--upgrade needs the models to resolve anew", hint="bake lock --upgrade NAME@VERSION")
    if check:
        faults = api.check_lock(workspace, models)
        _print(said, {"ok": not faults, "faults": list(faults)}, faults)
        if faults:
            raise CheckFailed(f"{workspace.path.name} is not complete", hint="bake lock")
        return
    changed = api.lock_models(workspace, models, upgrade=upgrade)
    _print(said, {"changed": list(changed)}, changed)
    if not changed:
        workspace.progress.note(f"{workspace.path.name} is complete, nothing changed")


@bake.command("list")
@click.pass_context
def list_models(context: click.Context) -> None:
    """List the models of the lock."""
    from bake import views

    said = settings(context)
    found = _workspace(said).load()
    _print(said, views.list_document(found), views.list_lines(found))


@bake.command()
@click.argument("model", type=_MODEL, metavar="NAME@VERSION")
@click.pass_context
def show(context: click.Context, model: ModelId) -> None:
    """Show one model: files, sizes, digests, layers; what was left out and why."""
    from bake import api, views

    said = settings(context)
    workspace = _workspace(said)
    found = workspace.load().find(model)
    forecast = api.forecast(workspace, model) if found.is_locked and not found.is_stale else None
    _print(said, views.show_document(found, forecast), views.show_lines(found, forecast))


@bake.command()
@click.argument("model", type=_MODEL, metavar="NAME@VERSION")
@click.option("--to", metavar="oci:PATH", help="Where the image would go.  [default: oci:dist/NAME-VERSION]")
@click.pass_context
def plan(context: click.Context, model: ModelId, to: str | None) -> None:
    """Show what a build would make, and what it would fetch, read and write. Does nothing, asks no network."""
    from bake import api, views

    said = settings(context)
    workspace = _workspace(said)
    forecast = api.forecast(workspace, model, output=_output(to))
    output = f"oci:{workspace.shown(forecast.output)}"
    _print(said, views.plan_document(forecast, output=output), views.plan_lines(forecast, output=output))


@bake.command()
@click.argument("models", nargs=-1, type=_MODEL, metavar="[NAME@VERSION]...")
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
    workspace = _workspace(said)
    wanted = models or tuple(model.id for model in workspace.load().models)
    if form == "dockerfile" and len(models) != 1:
        raise UsageError("expected one NAME@VERSION", hint="bake render NAME@VERSION, or --format bake for several")
    rendered = [api.render_model(workspace, model) for model in wanted]
    text = api.write_renderings(rendered, folder, form=form)
    _print(said, {"models": [str(model) for model in wanted], "text": text}, [text.rstrip("\n")])


@bake.command()
@click.argument("model", type=_MODEL, metavar="NAME@VERSION")
@click.option("--to", metavar="oci:PATH|docker[:NAME:TAG]", envvar="BAKE_TO", help=_TO)
@click.option(
    "--builder",
    type=click.Choice(["direct", "docker"]),
    default="direct",
    show_default=True,
    help="direct: bake writes the layers. docker: BuildKit builds what `bake render` gives.",
)
@click.option("--buildx-builder", metavar="NAME", help="A builder of `docker buildx ls`, for --builder docker.")
@click.option("--frozen", is_flag=True, help="Do not write layer digests that were learned into the lock.")
@click.pass_context
def build(
    context: click.Context, model: ModelId, to: str | None, builder: str, buildx_builder: str | None, *, frozen: bool
) -> None:
    """Build the image of a model, and print its reference with its digest.

    The image goes into the Docker daemon, which is sent only the layers that it lacks, or into an OCI layout, a folder
    that skopeo, umoci and other tools read. The same lock gives the same layers on any machine. Every byte is proven
    against the lock on its way in; layers that are there already are not read. It ends with a search for tokens.

    \b
      bake build tiny-llama@v1.0.0
      bake build tiny-llama@v1.0.0 --to docker:registry.example/tiny-llama:v1.0.0
      bake build tiny-llama@v1.0.0 --to oci:dist/tiny-llama
    """
    from bake import api, views

    said = settings(context)
    workspace = _workspace(said)
    if buildx_builder and builder != "docker":
        raise UsageError("--buildx-builder names a builder for --builder docker", hint="add --builder docker")
    output = api.choose_output(workspace, model, to)
    if builder == "docker":
        built = api.build_with_buildkit(workspace, model, output=output, builder=buildx_builder, quiet=said.quiet)
    else:
        built = api.build(workspace, model, output=output, frozen=frozen)
    _print(said, views.build_document(built), [built.reference])
    for line in views.build_notes(built, lock=workspace.path.name):
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
@click.option("--against", type=_MODEL, help="Compare with this model of the lock.")
@click.pass_context
def verify(context: click.Context, target: str, level: str, against: ModelId | None) -> None:
    """Verify an image or a folder. Every fault is listed; the exit code is 1 if there is one.

    TARGET is NAME@VERSION (its image in dist/), oci:PATH, or a folder: a model's source, an unpacked image, or any
    model's files. An image is compared with the record inside it; a folder with the record beside it or with the lock.
    A folder of which nothing is known has its structure checked.
    """
    from bake import api, views
    from bake.units import count_text

    said = settings(context)
    workspace = _workspace(said)
    verified = api.verify_target(workspace, target, level=level, against=against)  # type: ignore[arg-type]
    _print(said, views.verify_document(verified), views.verify_lines(verified))
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
    container = api.Run(image=api.image_name(_workspace(said), target), words=words, **options)
    if show:
        command = api.run_command(container)
        _print(said, {"command": command}, [shlex.join(command)])
        return
    context.exit(api.run(container))


@bake.group(invoke_without_command=True, cls=Group)
@click.pass_context
def cache(context: click.Context) -> None:
    """Show what the store holds; `bake cache prune` frees it.

    The store keeps fetched files and packed layers, shared by all locks of a user. It is in BAKE_CACHE, or in bake
    below XDG_CACHE_HOME or ~/.cache. Losing it costs time, nothing else.
    """
    from bake import views

    if context.invoked_subcommand is None:
        said = settings(context)
        store = _workspace(said).store
        usage = store.usage()
        _print(said, views.cache_document(usage, root=str(store.root)), views.cache_lines(usage, root=str(store.root)))


@cache.command()
@click.option(
    "--older-than", "days", metavar="DAYS", type=click.FloatRange(min=0), default=0, help="Keep what was used since."
)
@click.option("--all", "everything", is_flag=True, help="Forget layers that an image layout has too. Frees no space.")
@click.pass_context
def prune(context: click.Context, days: float, *, everything: bool) -> None:
    """Delete fetched files and packed layers from the store. Images in dist/ stay whole."""
    from bake.units import size_text

    said = settings(context)
    freed = _workspace(said).store.prune(keep_layers_in_use=not everything, older_than_days=days)
    _print(said, {"freed": freed}, [f"{size_text(freed)} freed"])


@bake.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for a shell.

    \b
      bash:  eval "$(bake completion bash)"      in ~/.bashrc
      zsh:   eval "$(bake completion zsh)"       in ~/.zshrc
      fish:  bake completion fish > ~/.config/fish/completions/bake.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise UsageError(f"no completion for {shell}")
    click.echo(found(bake, {}, "bake", "_BAKE_COMPLETE").source())


def main() -> NoReturn:
    """The `bake` command."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - it was closed by who started bake
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    code = run(sys.argv[1:])
    if code == INTERRUPTED:  # threads that wait for a silent host would keep the interpreter, and hold nothing of value
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code. Whatever goes wrong is told here, and only here."""
    said = _Said(arguments)
    try:
        bake.main(args=list(arguments), prog_name="bake", standalone_mode=False, obj=None)
    except BakeError as error:
        return said.tell(error, code=error.code, message=error.message, hint=error.hint)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        help_path = error.ctx.command_path if error.ctx else "bake"
        return said.tell(error, code=2, message=error.format_message(), hint=f"{help_path} --help")
    except click.ClickException as error:
        return said.tell(error, code=2, message=error.format_message(), hint=None)
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    except Exception:  # noqa: BLE001 - what nothing else knew of is a fault of bake's own
        traceback.print_exc()
        print("error: this is a fault in bake itself; please report the lines above", file=sys.stderr)  # noqa: T201
        return BUG
    return 0


def _nobody_listens() -> int:
    """The reader of stdout has gone, as `head` does: 128 + SIGPIPE. Python must not try to flush what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


class _Said:
    """How a failure is told, as far as the words alone say, since they may be what is wrong."""

    def __init__(self, arguments: Iterable[str]) -> None:
        words = list(arguments)
        self._as_json = "--json" in words
        self._debug = "--debug" in words

    def tell(self, error: Exception, *, code: int, message: str, hint: str | None) -> int:
        if self._debug:
            traceback.print_exception(error)
        lines = [f"error: {message}", *([f"hint: {hint}"] if hint else [])]
        print("\n".join(lines), file=sys.stderr)  # noqa: T201
        if self._as_json and not isinstance(error, CheckFailed):
            click.echo(json.dumps({"error": {"code": code, "message": message, "hint": hint}}, indent=2))
        return code


def _workspace(said: Settings, *, path: Path | None = None) -> Workspace:
    from bake.api import Workspace
    from bake.api.workspace import find_lock
    from bake.console import make_progress
    from bake.store import Store

    return Workspace(
        path=path or said.lock or find_lock(_here()),
        store=Store.default(),
        progress=make_progress(quiet=said.quiet, bars=not said.no_progress),
        offline=said.offline,
    )


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the working folder was deleted", hint="cd to one that exists") from error


def _output(to: str | None) -> Path | None:
    if to is None:
        return None
    kind, colon, path = to.partition(":")
    if kind != "oci" or not colon or not path:
        raise UsageError(f"--to: expected oci:PATH, found {to!r}", hint=f"--to oci:{path or to or 'dist/image'}")
    return Path(path)


def _print(said: Settings, document: Any, lines: Iterable[str]) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False) if said.as_json else "\n".join(lines)
    try:
        if text:
            click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise click.exceptions.Exit(_nobody_listens()) from error
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"cannot write the result to stdout: {error.strerror}") from error

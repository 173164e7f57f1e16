"""The words of housekeeping: cache, completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from bake.cli.group import bake, open_workspace, print_result
from bake.cli.words import Group, Settings, settings
from bake.errors import UsageError


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
        store = open_workspace(said).store
        usage = store.usage()
        print_result(
            said, views.cache_document(usage, root=str(store.root)), views.cache_lines(usage, root=str(store.root))
        )


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
    freed = open_workspace(said).store.prune(keep_layers_in_use=not everything, older_than_days=days)
    print_result(said, {"freed": freed}, [f"{size_text(freed)} freed"])


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
    script = found(bake, {}, "bake", "_BAKE_COMPLETE").source()
    print_result(Settings(), None, [script])

"""Compose: verl's configuration from its folder, with the user's own files and groups in it, and no verl imported.

It takes 0.3 s, so that it is done once. A wrong file or group is told, and verl's own stands in to check all else.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.entrypoint.launch.composed import Composed, plain
from bake.entrypoint.launch.flags import Flags
from bake.entrypoint.launch.given import TYPED, Given, leaves
from bake.entrypoint.launch.installed import CONFIG_NAME, MEGATRON_CONFIG_NAME
from bake.entrypoint.launch.refusal import Refusal
from bake.entrypoint.launch.shell import masked
from bake.entrypoint.settings import Settings
from bake.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.entrypoint.launch.installed import Installed


def compose(
    installed: Installed, flags: Flags, given: Sequence[Given]
) -> tuple[Composed, tuple[Given, ...], tuple[Refusal, ...]]:
    """The configuration with Hydra's own settings and the groups that were chosen (as `model_engine=megatron`), the
    overrides that are still to be put on it, and what Hydra would refuse of the files and groups.

    Raises ImageError where verl's own files do not fit together.
    """
    missing = tuple(_missing_folders(installed, flags))
    if missing:
        flags = Flags()
    hydras = [choice for choice in given if choice.key.partition(".")[0] == "hydra" and choice.package is None]
    search = [choice.text for choice in hydras if choice.key == "hydra.searchpath"]
    with _hydra(installed, flags) as loader:
        groups = [(choice, known) for choice in given if (known := _options(choice, loader, flags, search))]
        judged = [(choice, _wrong_group(choice, known, installed)) for choice, known in groups]
        chosen = [choice for choice, wrong in judged if wrong is None]
        config, refused = _load(flags, [choice.text for choice in (*hydras, *chosen)])
    if config is None:
        with _hydra(installed, Flags()):
            config, broken = _load(Flags(), [])
        if config is None:
            raise ImageError(f"{installed.configuration}: {broken[0].why}", hint="install verl again, whole")
    composed = Composed(config=config, stock=Settings(plain(config)), own=_own_keys(installed, flags, config))
    values = tuple(choice for choice in given if choice not in [*hydras, *(group for group, _ in groups)])
    return composed, values, (*missing, *(wrong for _, wrong in judged if wrong), *refused)


def _options(choice: Given, loader: Any, flags: Flags, search: list[str]) -> tuple[str, ...]:
    """What may be chosen where a key is a group's: as hydra/_internal/defaults_list.py Overrides tells groups.

    `search` are the overrides of hydra.searchpath, where groups of the user's own may lie.
    """
    from hydra.errors import HydraException

    if "." in choice.key or isinstance(choice.value, dict):
        return ()
    try:
        return tuple(loader.get_group_options(choice.key, config_name=flags.config_name, overrides=search))
    except HydraException:  # a configuration of that name is not there, which is told when it is loaded
        return tuple(loader.get_group_options(choice.key))


def _wrong_group(choice: Given, known: tuple[str, ...], installed: Installed) -> Refusal | None:
    """Why a group cannot be chosen so, or None."""
    if choice.how == "delete":
        if choice.key == "model_engine":
            why = "verl's configuration names its parts after it"
            return choice.refuse(why, f"leave it out, or choose another: {', '.join(known)}")
        if choice.key != "critic":
            return None
        why = "verl reads critic.* in every training, whether it has a critic or not"
        return choice.refuse(why, "leave it out; critic.enable=false (verl 0.6 and newer) trains without one")
    if str(choice.value) not in known:
        megatron = choice.key == "model_engine" and choice.value == "megatron"
        return choice.refuse(
            f"{installed} has no {choice.key} {choice.value}; it has {', '.join(known)}",
            f"write --config-name={MEGATRON_CONFIG_NAME} instead" if megatron else f"write {choice.key}={known[0]}",
        )
    if choice.how == "force" or (choice.how == "add" and choice.key == "model_engine"):
        why = f"{choice.key} is a group of which one is chosen, and + adds one more"
        return choice.refuse(why, f"write {choice.key}={choice.value}")
    return None


def _load(flags: Flags, overrides: list[str]) -> tuple[Any, tuple[Refusal, ...]]:
    """The configuration, or why Hydra makes none: it raises ValueError too, for a group that is set to a number."""
    from hydra import compose as hydra_compose
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        return hydra_compose(flags.config_name, overrides=overrides, return_hydra_config=True), ()
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
        said = " ".join(str(error).partition("Config search path")[0].split())
        text = " ".join([*flags.words, *map(masked, overrides)])
        todo = (
            f"verl has {CONFIG_NAME} and {MEGATRON_CONFIG_NAME}; mount a folder of your own and name it, --config-dir"
            if said.startswith("Cannot find primary config")
            else "mend or leave out what it names; `train --cfg hydra` shows what Hydra has by itself"
        )
        return None, (Refusal(text=text, source=TYPED, why=said, todo=todo),)


@contextmanager
def _hydra(installed: Installed, flags: Flags) -> Iterator[Any]:
    """Hydra as main_ppo starts it: @hydra.main(config_path="config", config_name="ppo_trainer", version_base=None)."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    primary = str(_primary(installed, flags))
    with initialize_config_dir(primary, job_name="main_ppo", version_base=None):
        if flags.config_dir is not None:
            _add_folder(primary, Path(flags.config_dir).absolute())
        yield GlobalHydra.instance().config_loader()


def _add_folder(primary: str, folder: Path) -> None:
    """What --config-dir does (hydra/_internal/utils.py _run_hydra); Hydra has no public word for it."""
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import create_config_search_path
    from hydra.core.config_search_path import SearchPathQuery
    from hydra.core.global_hydra import GlobalHydra

    GlobalHydra.instance().clear()
    path = create_config_search_path(primary)
    path.prepend(provider="command-line", path=f"file://{folder}", anchor=SearchPathQuery(provider="schema"))
    Hydra.create_main_hydra2(task_name="main_ppo", config_search_path=path)


def _primary(installed: Installed, flags: Flags) -> Path:
    """Where the configuration of that name is looked for first; relative to the folder of main_ppo.py."""
    return (installed.folder / "trainer" / (flags.config_path or "config")).absolute()


def _missing_folders(installed: Installed, flags: Flags) -> Iterator[Refusal]:
    asked = (
        ("--config-path", flags.config_path, _primary(installed, flags)),
        ("--config-dir", flags.config_dir, Path(flags.config_dir or "").absolute()),
    )
    for flag, word, folder in asked:
        if word is not None and not folder.is_dir():
            why = f"there is no folder {folder} in this container"
            todo = "mount the folder, and name it by its absolute path"
            yield Refusal(text=f"{flag} {word}", source=TYPED, why=why, todo=todo)


def _own_keys(installed: Installed, flags: Flags, config: Any) -> frozenset[str]:
    """What a configuration of the user's own says otherwise than verl's does."""
    if flags.config_path is None and (installed.configuration / f"{flags.config_name}.yaml").is_file():
        return frozenset()
    from omegaconf import OmegaConf

    megatron = OmegaConf.select(config, "actor_rollout_ref.actor.strategy") == "megatron"
    with _hydra(installed, Flags()):
        base, _ = _load(Flags(config_name=MEGATRON_CONFIG_NAME if megatron else CONFIG_NAME), [])
    verls, absent = dict(leaves(plain(base))), object()
    return frozenset(key for key, value in leaves(plain(config)) if verls.get(key, absent) != value)

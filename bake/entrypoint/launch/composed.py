"""Composed: verl's whole configuration, as Hydra makes it, on which overrides are put one by one.

So that all wrong overrides are told at once, where Hydra stops at the first.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bake.entrypoint.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bake.entrypoint.launch.given import Given
    from bake.entrypoint.override import Override


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """`config` is OmegaConf's, with Hydra's own node in it. `stock` are the values before any override, as written.

    `own` are the keys that a configuration file of the user's gives, so that they are not verl's.
    """

    config: Any
    stock: Settings
    own: frozenset[str] = frozenset()

    def settings(self, given: frozenset[str]) -> Settings:
        """What verl will see. The text of an interpolation that leads nowhere stays, since nothing may read it."""
        tree = {key: _resolved(self.config, key, value) for key, value in plain(self.config).items()}
        return Settings(tree=tree, given=given | self.own)

    def with_overrides(self, overrides: Sequence[Override]) -> Composed:
        """Raises OmegaConf's errors for a key that is not there and has no `+`."""
        from omegaconf import OmegaConf

        config = copy.deepcopy(self.config)
        for override in overrides:
            key = override.key.lstrip("+")
            OmegaConf.update(config, key, override.value, merge=True, force_add=key != override.key)
        return replace(self, config=config)

    def lost(self, key: str) -> str | None:
        """Why the interpolations at a key lead nowhere, in OmegaConf's words; None where none does.

        What only a running Hydra knows (`${hydra:…}`) counts as found.
        """
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        try:
            found = OmegaConf.select(self.config, key, throw_on_missing=False)
            if OmegaConf.is_config(found):
                OmegaConf.to_container(found, resolve=True)
        except OmegaConfBaseException as error:
            said = str(error).partition("\n")[0]
            return None if said == "Unsupported interpolation type hydra" or "HydraConfig" in said else said
        return None

    def holds(self, key: str) -> bool:
        """Whether there is a value at a key by now: Hydra's `+key=` is for where there is none."""
        from omegaconf import OmegaConf

        return OmegaConf.select(self.config, key, throw_on_missing=False) is not None

    def put(self, choice: Given) -> None:
        """Change `config` as hydra/_internal/config_loader_impl.py _apply_overrides_to_config does (hydra-core 1.3).

        Raises LookupError for a key to delete that is not there, OmegaConf's errors for all else.
        """
        from omegaconf import OmegaConf, open_dict

        if choice.how != "delete":
            OmegaConf.update(self.config, choice.key, choice.value, merge=True, force_add=choice.how != "change")
            return
        if not self.holds(choice.key):
            raise LookupError(choice.key)
        parent, _, name = choice.key.rpartition(".")
        with open_dict(self.config):
            del (OmegaConf.select(self.config, parent) if parent else self.config)[name]


def plain(config: Any) -> dict[str, Any]:
    """Values as they are written, interpolations too; Hydra's own node left out."""
    from omegaconf import OmegaConf

    tree = OmegaConf.to_container(config, resolve=False)
    return {str(key): value for key, value in tree.items() if key != "hydra"} if isinstance(tree, dict) else {}


def _resolved(node: Any, key: Any, value: Any) -> Any:
    """`value`, which is written at `key` of a node, with each of its interpolations replaced that can be."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if isinstance(value, dict):
        return {name: _resolved(node[key], name, below) for name, below in value.items()}
    if isinstance(value, list):
        return [_resolved(node[key], at, below) for at, below in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    try:
        found = node[key]
    except OmegaConfBaseException:
        return value
    return _resolved([found], 0, OmegaConf.to_container(found)) if OmegaConf.is_config(found) else found

"""Settings: verl's whole configuration as Hydra composed it, and which of its values a person gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MISSING = "???"
"""What OmegaConf writes for a value that must be given and was not."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Nested dicts and lists of plain values, read by dotted key, as `trainer.n_gpus_per_node`.

    `given` are the keys that the command line, a profile or the lock set, so that all others are verl's defaults or
    the entrypoint's.
    """

    tree: Mapping[str, Any]
    given: frozenset[str] = field(default=frozenset())

    def has(self, key: str) -> bool:
        """True where this verl's configuration knows the key, whatever its value."""
        found, _ = self._find(key)
        return found

    def get(self, key: str) -> Any:
        """The value; None where the key is absent, null or still to be given."""
        _, value = self._find(key)
        return None if value == MISSING else value

    def first(self, *keys: str) -> Any:
        """The value of the first of these keys that has one: for a key that a version of verl renamed."""
        return next((value for key in keys if (value := self.get(key)) is not None), None)

    def flag(self, key: str) -> bool:
        return self.get(key) is True

    def number(self, key: str) -> float | None:
        """The value where it is a number, and no boolean."""
        value = self.get(key)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def texts(self, key: str) -> tuple[str, ...]:
        """A string, or a list of strings, as a tuple: verl takes either for its data files."""
        value = self.get(key)
        values = value if isinstance(value, (list, tuple)) else [value]
        return tuple(item for item in values if isinstance(item, str))

    def _find(self, key: str) -> tuple[bool, Any]:
        node: Any = self.tree
        for part in key.split("."):
            if not isinstance(node, dict) or part not in node:
                return False, None
            node = node[part]
        return True, node

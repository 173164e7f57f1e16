"""Situation: all that a check may look at. A check takes it and returns findings; it starts and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.entrypoint.machine import Machine
    from bake.entrypoint.settings import Settings
    from bake.record import RecordedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`release` is the installed verl's, as (0, 9); None where it does not say. `is_head`: `ray-head`
    starts Ray on this node, which trains as every other does. `root` is where the models' absolute paths begin: `/` in
    an image.
    """

    settings: Settings
    models: tuple[RecordedModel, ...]
    machine: Machine
    environ: Mapping[str, str]
    release: tuple[int, int] | None
    is_head: bool = False
    root: Path = Path("/")

    def model(self, role: str) -> RecordedModel | None:
        """The model that was baked for a role; the critic is the actor's model where no other was baked."""
        found = next((model for model in self.models if role in model.roles), None)
        return found or (self.model("actor") if role == "critic" else None)

    def folder(self, model: RecordedModel) -> Path:
        return self.root / model.path.lstrip("/")

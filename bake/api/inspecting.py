"""What `plan` and `show` tell: what a build would read, write and fetch. Nothing is written.

No network is asked, unless the image is to go into a registry: then that is asked what it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bake import plan
from bake.api.bases import base_size
from bake.api.fetching import needs_fetching
from bake.api.foreseeing import Foreseen, foresee
from bake.api.packing import find_layer
from bake.errors import ImageError
from bake.layout import Layout

if TYPE_CHECKING:
    from bake.api.outputs import Output
    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.lock import ModelId
    from bake.plan import ImagePlan, LayerPlan

State = Literal["in the output", "in the store", "to pack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastLayer:
    """A planned layer: its digest where that is known, what a build would do for it, and bytes it would fetch first."""

    plan: LayerPlan
    diff_id: Digest | None
    state: State
    fetch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a build would do. All figures are bytes; `base` is None where the base cannot be seen from here.

    `push` is what a registry says, where the image is to go into one.
    """

    plan: ImagePlan
    layers: tuple[ForecastLayer, ...]
    base: int | None
    output: Output
    push: Foreseen | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """Why it cannot be done, as far as that is known beforehand."""
        return self.push.faults if self.push else ()

    @property
    def size(self) -> int:
        """Bytes of the weight layers."""
        return sum(item.plan.size for item in self.layers)

    @property
    def fetch(self) -> int:
        return sum(item.fetch for item in self.layers)

    @property
    def read(self) -> int:
        """Weight bytes that would be read from this machine's disk."""
        return sum(file.size for item in self.layers if item.state == "to pack" for file in item.plan.files)

    @property
    def write(self) -> int:
        """Layers, and fetched files, which stay in the store."""
        return self.fetch + sum(item.plan.size for item in self.layers if item.state == "to pack")


def forecast(workspace: Workspace, model: ModelId, *, output: Output, rate: float | None = None) -> Forecast:
    """Foretell a build; `rate` is that of the line to a registry, in bytes a second. Raises LockError.

    For one into a registry also UsageError, ImageError, SourceError, OutputError and NetworkError.
    """
    image_plan = plan.plan_image(workspace.load(), model)
    layout = Layout(Path(output.place) if output.kind == "oci" else workspace.store.work / "none")
    layers = tuple(_forecast_layer(workspace, image_plan, item, layout) for item in image_plan.layers)
    push = foresee(workspace, image_plan, output, rate=rate) if output.kind == "registry" else None
    base = _base_size(workspace, image_plan) if push is None else push.base
    return Forecast(plan=image_plan, layers=layers, base=base, output=output, push=push)


def _base_size(workspace: Workspace, image_plan: ImagePlan) -> int | None:
    """A base that is not there is no reason to tell nothing; a build will say what is wrong with it."""
    try:
        return base_size(workspace, image_plan.base)
    except ImageError:
        return None


def _forecast_layer(workspace: Workspace, image_plan: ImagePlan, item: LayerPlan, layout: Layout) -> ForecastLayer:
    (model,) = (planned.model for planned in image_plan.models if planned.model.id == item.model)
    found = find_layer(workspace, item, layout, read=False)
    known = found or item.diff_id or workspace.store.diff_id(item.key)
    if found is None:
        fetch = sum(file.size for file in item.files if needs_fetching(workspace, model, file))
        return ForecastLayer(plan=item, diff_id=known, state="to pack", fetch=fetch)
    state: State = "in the output" if layout.size(found) == item.size else "in the store"
    return ForecastLayer(plan=item, diff_id=known, state=state, fetch=0)

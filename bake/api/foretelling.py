"""Foretelling several images: what each would take, where a layer that they share is counted once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake.api.inspecting import Forecast, forecast
from bake.api.remote import reference_of
from bake.errors import BakeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.api.choosing import Wanted
    from bake.api.foreseeing import Foreseen, ForeseenLayer
    from bake.api.inspecting import ForecastLayer
    from bake.api.outputs import Output
    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.lock import ModelId


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """What is known of an image beforehand: a forecast; an `error`, where it cannot be told; neither: it is too large.

    `size` is in bytes, of its models.
    """

    id: ModelId
    output: Output
    size: int
    forecast: Forecast | None = None
    error: BakeError | None = None


def foretell(
    workspace: Workspace, images: Sequence[Wanted], *, rate: float | None = None, max_size: int | None = None
) -> tuple[Foretold, ...]:
    """Foretell what `build_several` would do, in the images' order; `rate` is in bytes a second."""
    shared = _Shared()
    return tuple(_foretell(workspace, image, shared, rate=rate, max_size=max_size) for image in images)


def _foretell(
    workspace: Workspace, image: Wanted, shared: _Shared, *, rate: float | None, max_size: int | None
) -> Foretold:
    told = Foretold(id=image.id, output=image.output, size=image.size)
    if max_size is not None and image.size > max_size:
        return told
    try:
        found = forecast(workspace, image.id, output=image.output, rate=rate)
    except BakeError as error:
        return replace(told, error=error)
    return replace(told, forecast=shared.without_earlier(found))


class _Shared:
    """What the images before have: layers that are packed by then, and in which repository they are."""

    def __init__(self) -> None:
        self._packed: set[Digest] = set()
        self._repositories: dict[tuple[str, object], str] = {}

    def without_earlier(self, found: Forecast) -> Forecast:
        """The forecast of an image, after those of the images before it."""
        layers = tuple(self._packed_once(layer) for layer in found.layers)
        push = replace(found.push, layers=tuple(self._sent_once(found.output, found.push))) if found.push else None
        return replace(found, layers=layers, push=push)

    def _packed_once(self, layer: ForecastLayer) -> ForecastLayer:
        if layer.state == "to pack" and layer.plan.key in self._packed:
            return replace(layer, state="in the store", fetch=0)
        self._packed.add(layer.plan.key)
        return layer

    def _sent_once(self, output: Output, push: Foreseen) -> Iterator[ForeseenLayer]:
        reference = reference_of(output.place)
        for layer in push.layers:
            key = (reference.host, layer.digest or (layer.what, layer.size))
            held = self._repositories.get(key)
            if layer.arrival == "upload" and held is not None:
                yield replace(layer, arrival="there" if held == reference.repository else "mount", fetch=0)
            else:
                self._repositories[key] = reference.repository
                yield layer

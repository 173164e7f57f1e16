"""Foreseeing a push: what a registry has of an image that is not built, what it lacks, and what digest will come out.

Asks the registry, and that of the base, for names and documents alone: no layer is read, and nothing is sent.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bake.api.asking import ask_registry
from bake.api.base_layers import open_readable
from bake.api.building import assemble
from bake.api.fetching import needs_fetching
from bake.api.layers import known_digest
from bake.api.packing import Packed
from bake.api.recognizing import program_layer, recognize, unread_words
from bake.api.remote import reference_of
from bake.api.small import SmallBlobs
from bake.api.streaming import layer_words
from bake.api.wheels import open_wheels_layer, wheels_step
from bake.api.workers import Workers
from bake.digest import Digest
from bake.image import LAYER, Descriptor
from bake.units import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.api.base_layers import ReadableBase
    from bake.api.outputs import Output
    from bake.api.workspace import Workspace
    from bake.image import AddedLayer, Image
    from bake.plan import ImagePlan, LayerPlan
    from bake.registry import Profile, Reference


Part = Literal["base", "weights", "wheels", "program"]
Arrival = Literal["there", "mount", "upload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenLayer:
    """A layer of the image to come: its digest where that is known, and how it would come to the registry.

    `fetch` are the bytes of it that would first come from elsewhere over the network. What has no size is not counted.
    """

    part: Part
    what: str
    size: int | None
    digest: Digest | None
    arrival: Arrival
    fetch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What a push would do. `digest` is the image's, where every layer's is known; `is_there`: REF names it already.

    `rate` is in bytes a second. `faults` are why it would be refused, and `notes` what the registry asks of the line.
    `is_too_large` says that it would be for layers of weights.
    """

    registry: str
    layers: tuple[ForeseenLayer, ...]
    digest: Digest | None
    is_there: bool
    rate: float | None
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    is_too_large: bool = False

    @property
    def base(self) -> int:
        """Bytes of the base's layers as they are stored."""
        return sum(layer.size or 0 for layer in self.layers if layer.part == "base")

    @property
    def upload(self) -> int:
        """Bytes to send; config and manifest, a few kB, are left out."""
        return sum(layer.size or 0 for layer in self.layers if layer.arrival == "upload")

    @property
    def fetch(self) -> int:
        return sum(layer.fetch for layer in self.layers)

    @property
    def seconds(self) -> float | None:
        """At least: what is fetched is sent on at once, so that the longer of the two counts."""
        return max(self.upload, self.fetch) / self.rate if self.rate else None


def foresee(workspace: Workspace, image_plan: ImagePlan, output: Output, *, rate: float | None) -> Foreseen:
    """Foretell a push. Raises LockError, ImageError, SourceError, OutputError where it may not push, NetworkError."""
    reference = reference_of(output.place)
    workers = Workers()
    with open_readable(workspace, image_plan.base, workers=workers) as base, workers:
        wheels = _wheels(workspace, image_plan)
        weights = {layer.key: known_digest(workspace, layer) for layer in image_plan.layers}
        image = _image(image_plan, base, weights=weights, wheels=wheels)
        layers = [
            *_base_layers(workspace, base, reference),
            *(_weights(workspace, image_plan, layer, weights[layer.key]) for layer in image_plan.layers),
            *_small_layers(image_plan, wheels),
        ]
    below = base.image if base else None
    found = ask_registry(
        workspace,
        reference,
        layers,
        recognize=lambda registry: recognize(workspace, registry, image_plan, base=below, wheels=lambda: wheels),
    )
    image = image or found.image
    return Foreseen(
        registry=found.profile.name,
        layers=found.layers,
        digest=image.descriptor.digest if image else None,
        is_there=image is not None and found.named is not None and found.named.digest == image.descriptor.digest,
        rate=rate,
        faults=refusals(found.profile, found.layers, rate=rate),
        notes=(*found.notes, *_unread(reference, found.image), *asked_for(found.profile, found.layers)),
        is_too_large=bool(refusals(found.profile, [one for one in found.layers if one.part == "weights"], rate=rate)),
    )


def _unread(reference: Reference, image: Image | None) -> Iterator[str]:
    if image is not None:
        yield unread_words(f"{reference.name}@{image.descriptor.digest}")


def _image(
    image_plan: ImagePlan,
    base: ReadableBase | None,
    *,
    weights: Mapping[Digest, Digest | None],
    wheels: AddedLayer | None,
) -> Image | None:
    """The image to come; None where a layer must be packed to be known."""
    packed = [
        Packed(plan=layer, digest=digest, is_new=False)
        for layer in image_plan.layers
        if (digest := weights[layer.key]) is not None
    ]
    if len(packed) < len(image_plan.layers) or (wheels is None and _has_wheels(image_plan)):
        return None
    return assemble(image_plan, base.image if base else None, SmallBlobs(), packed, wheels=wheels)


def _has_wheels(image_plan: ImagePlan) -> bool:
    return bool(image_plan.base and image_plan.base.wheels)


def _wheels(workspace: Workspace, image_plan: ImagePlan) -> AddedLayer | None:
    """The layer of the base's wheels; None where there is none, or a wheel would have to be fetched to know it."""
    wheels = image_plan.base.wheels if image_plan.base else ()
    if any(workspace.store.sound_file(wheel.digest) is None for wheel in wheels):
        return None
    with open_wheels_layer(workspace, image_plan) as chunks:
        if chunks is None:
            return None
        hasher, size = hashlib.sha256(), 0
        for chunk in chunks():
            hasher.update(chunk)
            size += len(chunk)
    descriptor = Descriptor(media_type=LAYER, digest=Digest(hasher.hexdigest()), size=size)
    return wheels_step(image_plan, descriptor)


def _base_layers(workspace: Workspace, base: ReadableBase | None, reference: Reference) -> Iterator[ForeseenLayer]:
    """A layer that another repository of the same registry has is mounted; any other is sent from where it lies."""
    if base is None:
        return
    near = base.reference is not None and base.reference.host == reference.host
    far = base.reference is not None and not near
    for layer in base.image.manifest.layers:
        is_here = workspace.store.file(layer.digest, size=layer.size) is not None
        yield ForeseenLayer(
            part="base",
            what="base",
            size=layer.size,
            digest=layer.digest,
            arrival="mount" if near else "upload",
            fetch=layer.size if far and not is_here else 0,
        )


def _weights(workspace: Workspace, image_plan: ImagePlan, layer: LayerPlan, digest: Digest | None) -> ForeseenLayer:
    (model,) = (planned.model for planned in image_plan.models if planned.model.id == layer.model)
    fetch = sum(file.size for file in layer.files if needs_fetching(workspace, model, file))
    return ForeseenLayer(
        part="weights", what=layer_words(layer), size=layer.size, digest=digest, arrival="upload", fetch=fetch
    )


def _small_layers(image_plan: ImagePlan, wheels: AddedLayer | None) -> Iterator[ForeseenLayer]:
    if _has_wheels(image_plan):
        found = wheels.descriptor if wheels else None
        yield ForeseenLayer(
            part="wheels",
            what="wheels",
            size=found.size if found else None,
            digest=found.digest if found else None,
            arrival="upload",
        )
    last = program_layer(image_plan)
    yield ForeseenLayer(
        part="program", what="record and entrypoint", size=last.size, digest=last.digest, arrival="upload"
    )


def refusals(profile: Profile, layers: Sequence[ForeseenLayer], *, rate: float | None) -> tuple[str, ...]:
    """Why a push would be refused: layers too large, or an upload that takes longer than the registry waits."""
    sizes = {layer.what: layer.size for layer in layers if layer.arrival == "upload" and layer.size is not None}
    refused = profile.refused(sizes)
    if rate is None or profile.upload_seconds is None:
        return refused
    slow = [what for what, size in sizes.items() if size / rate > profile.upload_seconds]
    return (
        *refused,
        *(f"{what}: {profile.too_slow(sizes[what])}, and the line has {size_text(rate)}/s" for what in slow),
    )


def asked_for(profile: Profile, layers: Sequence[ForeseenLayer]) -> tuple[str, ...]:
    """What the registry is known to ask of an upload."""
    sizes = [layer.size or 0 for layer in layers if layer.arrival == "upload"]
    limit = profile.max_layer_bytes
    largest = f"{profile.name} takes at most {size_text(limit)} a layer" if limit is not None else None
    slow = profile.too_slow(max(sizes)) if sizes else None
    absent = None if profile.creates else f"{profile.name} makes no repository by itself: create it first"
    return tuple(filter(None, (largest, slow, absent)))

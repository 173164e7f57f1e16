"""`rebase`: an image in a registry gets another base, or a newer bake's entrypoint, below and above the same weights.

The lock says what the image should be, and the image has the weights: what comes out is the image that a push of the
lock would make, to the byte, and no weight byte is read, sent or needed on this machine.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bake import plan
from bake.api.base_layers import open_readable
from bake.api.layers import Layers, known_digest
from bake.api.parts import RemoteBlobs
from bake.api.pushing import fixed_tag, put_tags, send_image
from bake.api.remote import baked_image, find_record, find_weights, open_registry, recorded_layers, reference_of
from bake.api.sending import Blob, Sender
from bake.api.streaming import layer_words
from bake.api.verified import base_layers
from bake.api.verifying import refuse
from bake.api.verifying_remote import verify_remote
from bake.api.wheels import open_wheels_layer
from bake.api.workers import Workers
from bake.errors import ImageError, LockError, UsageError
from bake.lock import SCRATCH, ModelId
from bake.units import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.image import Descriptor, Image
    from bake.lock import Lock
    from bake.plan import ImagePlan
    from bake.registry import Reference, Registry, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebased:
    """What a rebase made: an image that `digest` names, in place of one that `before` names.

    `sent` layers of `sent_bytes` were sent, and `mounted` came from other repositories. `weights` of `weights_bytes` in
    all are as they were; `weights_sent` of these bytes had to travel, as into another registry. `base` is its name in
    the lock, where the lock has another for this model.
    """

    id: ModelId
    before: Digest
    digest: Digest
    reference: str
    tags: tuple[str, ...]
    sent: int
    sent_bytes: int
    mounted: int
    weights: int
    weights_bytes: int
    weights_sent: int
    base: str | None

    def document(self) -> dict[str, Any]:
        return {
            "model": str(self.id),
            "reference": self.reference,
            "digest": str(self.digest),
            "before": str(self.before),
            "tags": list(self.tags),
            "sent_layers": self.sent,
            "sent_bytes": self.sent_bytes,
            "mounted_layers": self.mounted,
            "weight_layers": self.weights,
            "weight_bytes": self.weights_bytes,
            "sent_weight_bytes": self.weights_sent,
        }

    def notes(self, *, lock: str) -> Iterator[str]:
        """What a person is told: what became of the image, what it took, and what to do next."""
        if self.digest == self.before:
            yield f"{self.id}: {self.digest} is what {lock} says already"
        else:
            yield f"{self.id}: {self.digest}, before {self.before}"
        moved = size_text(self.weights_sent) if self.weights_sent else "nothing"
        yield f"weights: {size_text(self.weights_bytes)} in {count_text(self.weights, 'layer')}, {moved} of it sent"
        yield f"sent {count_text(self.sent, 'layer')} ({size_text(self.sent_bytes)}), mounted {self.mounted}"
        if self.base is not None:
            yield f"{lock} has another base for {self.id}: set base = {self.base!r} there, or the next push undoes this"


def rebase(workspace: Workspace, reference: Reference, *, base: str | None = None, to: str | None = None) -> Rebased:
    """Make the image of a reference anew, on the base that the lock has for its model, or another `base` of the lock.

    It goes to the reference's own tag, or `to` another place, there to the same tag unless told. The old image is
    verified first (quick), and stays under its digest. Raises LockError, ImageError where the image's weights are not
    those of the lock, UsageError, CheckFailed, and what a push raises.
    """
    target = _target(reference, to)
    tag = target.identifier
    refuse(verify_remote(workspace, reference, level="quick", expected=None))
    workers = Workers()
    with contextlib.ExitStack() as stack:
        source, registry = _open_both(workspace, reference, target, stack=stack, workers=workers)
        old = baked_image(source)
        image_plan, weights = _match(workspace, old, RemoteBlobs(source, old, workers=workers), source, base=base)
        below = stack.enter_context(open_readable(workspace, image_plan.base, workers=workers))
        wheels = stack.enter_context(open_wheels_layer(workspace, image_plan))
        stack.enter_context(workers)  # the first to end, so that nothing is on its way when the others are closed
        layers = _KeptLayers(workspace, image_plan, target, workers=workers, source=source, weights=weights)
        sender = Sender(workspace, registry, workers=workers)
        image, _ = send_image(layers, sender, below, wheels)
        tags = put_tags(workspace, registry, image, fixed=fixed_tag(image_plan, image), asked=[tag])
    own = {blob.digest for blob in weights}
    sent = [item for item in sender.arrived if item.how == "uploaded" and item.digest != image.manifest.config.digest]
    return Rebased(
        id=image_plan.id,
        before=old.descriptor.digest,
        digest=image.descriptor.digest,
        reference=f"{target}@{image.descriptor.digest}",
        tags=tags,
        sent=len(sent),
        sent_bytes=sum(item.blob.size for item in sent),
        mounted=sum(item.how == "mounted" for item in sender.arrived),
        weights=len(weights),
        weights_bytes=sum(blob.size for blob in weights),
        weights_sent=sum(item.blob.size for item in sent if item.digest in own),
        base=base if base != image_plan.models[0].model.base else None,
    )


def _target(reference: Reference, to: str | None) -> Reference:
    """Where the new image goes. Raises UsageError where that would be a digest."""
    target = reference_of(to) if to is not None else reference
    if to is not None and target.digest is None and not to.endswith(f":{target.tag}"):
        target = replace(target, tag=reference.tag, digest=reference.digest)
    if target.digest is not None:
        raise UsageError(
            f"{target}: a digest names one image for good", hint=f"say where the new one goes: --to {target.name}:TAG"
        )
    return target


def _open_both(
    workspace: Workspace,
    reference: Reference,
    target: Reference,
    *,
    stack: contextlib.ExitStack,
    workers: Workers,
) -> tuple[Registry, Registry]:
    """The repository to read from, and that to push to: one, opened once, where it goes to the same tag."""
    if target == reference:
        both = stack.enter_context(open_registry(workspace, reference, access="push", sleep=workers.sleep))
        return both, both
    source = stack.enter_context(open_registry(workspace, reference, sleep=workers.sleep))
    return source, stack.enter_context(open_registry(workspace, target, access="push", sleep=workers.sleep))


def _match(
    workspace: Workspace, image: Image, blobs: RemoteBlobs, registry: Registry, *, base: str | None
) -> tuple[ImagePlan, list[Descriptor]]:
    """The lock's plan of the image's model, and the layers of the image that hold what it plans. Raises ImageError."""
    below = base_layers(image)
    record, number = find_record(image, blobs, base=below)
    image_plan = _plan(workspace.load(), ModelId(record.models[0].name, record.models[0].version), base=base)
    again = f"make it anew: bake push {image_plan.id} {registry.reference}"
    if [layer.key for layer in recorded_layers(record)] != [layer.key for layer in image_plan.layers]:
        raise ImageError(
            f"{registry.reference} does not hold the files that {workspace.path.name} has for {image_plan.id}",
            hint=again,
        )
    found = find_weights(record, image, base=below, stop=number)
    if found is None:
        raise ImageError(
            f"{registry.reference}: its weights are in layers that are compressed, or not as bake packs them",
            hint=again,
        )
    layers = [layer for _, layer in found]
    for item, layer in zip(image_plan.layers, layers, strict=True):
        if (known := known_digest(workspace, item)) not in {None, layer.digest}:
            raise ImageError(
                f"{registry.reference}: layer {layer.digest} ({layer_words(item)}) should be {known}", hint=again
            )
    return image_plan, layers


def _plan(lock: Lock, model: ModelId, *, base: str | None) -> ImagePlan:
    """The plan of a model, on another base where one is named. Raises LockError where the lock lacks either."""
    image_plan = plan.plan_image(lock, model)
    if base is None:
        return image_plan
    found = lock.find_base(base)
    if found is None and base != SCRATCH:
        names = ", ".join(item.name for item in lock.bases) or "none"
        raise LockError(f"the lock has no base {base!r}: it has {names}", hint=f"add [base.{base}], then: bake lock")
    return replace(image_plan, base=found)


class _KeptLayers(Layers):
    """Layers of which the weights are those of an image that is there."""

    def __init__(
        self,
        workspace: Workspace,
        image_plan: ImagePlan,
        reference: Reference,
        *,
        workers: Workers,
        source: Registry,
        weights: Sequence[Descriptor],
    ) -> None:
        super().__init__(workspace, image_plan, reference, workers=workers)
        self._source = source
        self._weights = weights
        self._near = source.reference.repository if source.reference.host == reference.host else None

    def weights(self) -> list[Blob]:
        return [
            Blob(
                what=layer_words(item),
                size=layer.size,
                digest=layer.digest,
                open=functools.partial(self._from_source, layer),
                mount_from=self._near,
            )
            for item, layer in zip(self.plan.layers, self._weights, strict=True)
        ]

    def _from_source(self, layer: Descriptor) -> Source:
        return lambda offset: self._source.open_blob(layer, offset=offset)

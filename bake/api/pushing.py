"""`push`: a locked model becomes an image in a registry, in one pass: its layers are made while they are sent.

Nothing is written but the lock and what the store remembers. The manifest comes last, and names nothing that was not
proven: a tag leads to a whole image, or to the one before.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bake import plan
from bake.api.base_layers import open_readable
from bake.api.building import assemble, record_layers
from bake.api.layers import Layers
from bake.api.recognizing import lasting_tag, recognize, unread_words
from bake.api.remote import open_registry
from bake.api.scanning import refuse_tokens_in
from bake.api.sending import Sender
from bake.api.small import SmallBlobs
from bake.api.smaller import smaller_shards
from bake.api.streaming import layer_words
from bake.api.wheels import open_wheels_layer, wheels_step
from bake.api.workers import Workers
from bake.errors import CheckFailed
from bake.image import MANIFEST, validate
from bake.registry import Reference
from bake.units import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bake.api.base_layers import ReadableBase
    from bake.api.outputs import Output
    from bake.api.packing import Packed
    from bake.api.traffic import Traffic
    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.image import AddedLayer, Image
    from bake.lock import ModelId
    from bake.plan import ImagePlan
    from bake.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What a push made: an image that `digest` names and `tags` lead to, of `size` bytes in `layers`.

    Of its layers, `sent` with `sent_bytes` were sent, and `mounted` came from other repositories of the registry.
    `recognized` says that the image was there, by its tag that never moves, and that no layer's digest was proven.
    `changed` says that anything was put there, if only a tag; `recorded`, that the lock was told layer digests it did
    not know; `runs`, that the image trains by itself.
    """

    id: ModelId
    output: Output
    digest: Digest
    reference: str
    tags: tuple[str, ...]
    size: int
    layers: int
    sent: int
    sent_bytes: int
    mounted: int
    recognized: bool
    changed: bool
    recorded: bool
    runs: bool

    def document(self) -> dict[str, Any]:
        return {
            "model": str(self.id),
            "output": str(self.output),
            "reference": self.reference,
            "digest": str(self.digest),
            "tags": list(self.tags),
            "size": self.size,
            "layers": self.layers,
            "sent_layers": self.sent,
            "sent_bytes": self.sent_bytes,
            "mounted_layers": self.mounted,
            "recognized": self.recognized,
            "lock_changed": self.recorded,
        }

    def notes(self, *, lock: str) -> Iterator[str]:
        """What a person is told: what was made, what it took, and what to type next."""
        yield f"{self.id}: {self.digest}, {size_text(self.size)} in {count_text(self.layers, 'layer')}"
        mounted = f", mounted {self.mounted}" if self.mounted else ""
        there = f"{self.layers - self.sent - self.mounted} were there"
        yield f"sent {count_text(self.sent, 'layer')} ({size_text(self.sent_bytes)}){mounted}, {there}"
        yield f"tags {', '.join(self.tags)}"
        yield "no token in the config, the history, or any layer that was sent but the base's and the weights' own"
        if self.recorded:
            yield f"{lock}: layer digests recorded, commit it"
        if self.runs:
            yield f"next: docker run --rm --gpus all --shm-size 10g {self.reference} data.train_files=…"


def push(
    workspace: Workspace,
    model: ModelId,
    *,
    output: Output,
    tags: Sequence[str] = (),
    frozen: bool = False,
    traffic: Traffic | None = None,
) -> Pushed:
    """Put the image of a model into a registry, under its tag and others, and record what was learned, unless `frozen`.

    It is the image that `build` makes. One more tag is put that never moves: the version, and a digest of all that
    decides the image. By that tag an image is recognized of which nobody knows all layers: nothing of it is sent.
    `traffic` is that of all images which are pushed in one run. Raises LockError, SourceError, NetworkError,
    DigestError, OutputError, ImageError, CheckFailed, and UsageError for a malformed tag.
    """
    image_plan = plan.plan_image(workspace.load(), model)
    reference = Reference.parse(output.place)
    asked = [Reference.parse(f"{reference.name}:{tag}").identifier for tag in (reference.identifier, *tags)]
    workers = Workers()
    with contextlib.ExitStack() as stack:
        registry = stack.enter_context(open_registry(workspace, reference, access="push", sleep=workers.sleep))
        base = stack.enter_context(open_readable(workspace, image_plan.base, workers=workers))
        sizes = {layer_words(item): item.size for item in image_plan.layers}
        registry.check_sizes(sizes, smaller=smaller_shards(image_plan))
        wheels = stack.enter_context(open_wheels_layer(workspace, image_plan))
        stack.enter_context(workers)  # the first to end, so that nothing is on its way when the others are closed
        layers = Layers(workspace, image_plan, reference, workers=workers)
        sender = Sender(workspace, registry, workers=workers, traffic=traffic)
        there = _recognize(workspace, registry, layers=layers, base=base, wheels=wheels)
        if there:
            sender.found(there)
        image, packed = (there, []) if there else send_image(layers, sender, base, wheels)
        fixed = fixed_tag(image_plan, image)
        held, moved = _move_tags(workspace, registry, image, fixed=fixed, asked=asked)
    config = image.manifest.config.digest
    sent = [item for item in sender.arrived if item.how == "uploaded" and item.digest != config]
    return Pushed(
        id=image_plan.id,
        output=output,
        digest=image.descriptor.digest,
        reference=f"{reference}@{image.descriptor.digest}",
        tags=held,
        size=sum(layer.size for layer in image.manifest.layers),
        layers=len(image.manifest.layers),
        sent=len(sent),
        sent_bytes=sum(item.blob.size for item in sent),
        mounted=sum(item.how == "mounted" for item in sender.arrived),
        recognized=there is not None,
        changed=bool(moved) or any(item.how != "present" for item in sender.arrived),
        recorded=not (frozen or there) and record_layers(workspace, image_plan, packed),
        runs=image_plan.base is not None,
    )


def fixed_tag(image_plan: ImagePlan, image: Image) -> str:
    """The tag of an image that never moves."""
    return lasting_tag(image_plan, image.manifest.layers[-1].digest)


def _recognize(
    workspace: Workspace,
    registry: Registry,
    *,
    layers: Layers,
    base: ReadableBase | None,
    wheels: Callable[[], Iterator[bytes]] | None,
) -> Image | None:
    """The image, if it is there and its layers need not be read. Raises CheckFailed for a token in it."""

    def added() -> AddedLayer | None:
        return layers.added_wheels(wheels) if wheels else None

    image = recognize(workspace, registry, layers.plan, base=base.image if base else None, wheels=added)
    if image is not None:
        config = ("config and history", image.config.dumps())
        refuse_tokens_in([("record", layers.plan.record.dumps()), config, ("manifest", image.manifest.dumps())])
        place = f"{registry.reference.name}@{image.descriptor.digest}"
        workspace.progress.note(f"{layers.plan.id}: {unread_words(place)}")
    return image


def send_image(
    layers: Layers, sender: Sender, base: ReadableBase | None, wheels: Callable[[], Iterator[bytes]] | None
) -> tuple[Image, list[Packed]]:
    """Send all but the manifest; the image is then whole and checked, and nothing names it."""
    below = layers.base(base) if base else []
    step = layers.wheels(wheels) if wheels else None
    digests = sender.send_all([*below, *layers.weights(), *([step] if step else [])])
    packed = layers.packed(digests[len(below) :])
    small = SmallBlobs()
    added = wheels_step(layers.plan, step.described(digests[-1])) if step else None
    image = assemble(layers.plan, base.image if base else None, small, packed, wheels=added)
    small.add(image.config.dumps(), media_type=image.manifest.config.media_type)
    parts = {"record or entrypoint": image.manifest.layers[-1], "config and history": image.manifest.config}
    contents = {what: small.read(blob.digest) for what, blob in parts.items()}
    refuse_tokens_in([*contents.items(), ("manifest", image.manifest.dumps())])
    sender.send_all([layers.small(what, blob, contents[what]) for what, blob in parts.items()], shown=False)
    sender.confirm(image.descriptor)
    if faults := validate(image, sender):
        raise CheckFailed("\n".join([f"{layers.plan.id}: {count_text(len(faults), 'fault')}", *faults]))
    return image, packed


def put_tags(
    workspace: Workspace, registry: Registry, image: Image, *, fixed: str, asked: Sequence[str]
) -> tuple[str, ...]:
    """Put the manifest under each tag that does not lead to it yet; returns those that lead to it now."""
    return _move_tags(workspace, registry, image, fixed=fixed, asked=asked)[0]


def _move_tags(
    workspace: Workspace, registry: Registry, image: Image, *, fixed: str, asked: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`put_tags`, and which of the tags did not lead to the image before."""
    content, digest = image.manifest.dumps(), image.descriptor.digest
    tags = list(dict.fromkeys((fixed, *asked)))
    found = {tag: registry.resolve(tag) for tag in tags}
    if (held := found[fixed]) and held.digest != digest:
        workspace.progress.warn(f"{registry.reference.name}:{fixed} is another image, {held.digest}; it is left alone")
        tags.remove(fixed)
    moved = tuple(tag for tag in tags if (held := found[tag]) is None or held.digest != digest)
    for tag in moved:
        registry.put_manifest(content, media_type=MANIFEST, tag=tag)
    return tuple(tags), moved

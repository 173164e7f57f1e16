"""Recognizing: whether the image that a push would make is in the registry already, where nobody knows all its layers.

Its tag that never moves is known before a weight is read, and leads to it. What the manifest there says of the layers
is the registry's word, which is looked at and not proven: it is recorded nowhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bake.api import contents
from bake.api.building import assemble
from bake.api.layers import known_digest
from bake.api.packing import Packed
from bake.api.small import SmallBlobs
from bake.api.verifying_remote import verify_remote
from bake.digest import Digest
from bake.errors import DigestError, ImageError, NetworkError, OutputError, SourceError
from bake.image import LAYER, MANIFEST, Manifest
from bake.layer import stream_entries
from bake.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bake.api.workspace import Workspace
    from bake.image import AddedLayer, Descriptor, Image
    from bake.plan import ImagePlan
    from bake.registry import Registry

_NOT_USABLE = (ImageError, DigestError, SourceError, OutputError, NetworkError)
"""Why an image that is there is not taken for the one to come: a push makes that anew, or fails by itself."""


def recognize(
    workspace: Workspace,
    registry: Registry,
    image_plan: ImagePlan,
    *,
    base: Image | None,
    wheels: Callable[[], AddedLayer | None],
) -> Image | None:
    """The image that a push would make, if it is there and a quick verification finds no fault in it.

    None where it is not there, or is not right, which is told. It is not asked for where every layer's digest is known,
    nor where the lock contradicts what was packed before. `wheels` gives their layer; None where it is not known. Of
    weights, headers alone are read. Raises NetworkError, and what the registry refuses.
    """
    known = [known_digest(workspace, item) for item in image_plan.layers]
    contradicted = any(digest is None and item.diff_id for digest, item in zip(known, image_plan.layers, strict=True))
    if None not in known or contradicted:
        return None
    tag = lasting_tag(image_plan, program_layer(image_plan).digest)
    found = registry.resolve(tag)
    if found is None or ((added := wheels()) is None and image_plan.wheels):
        return None
    try:
        image = _image_to_come(image_plan, _read_manifest(registry, found), known, base=base, wheels=added)
        if image.descriptor.digest != found.digest:
            raise ImageError(f"another image, {found.digest}")
        _look_at(workspace, registry, image_plan, image)
    except _NOT_USABLE as error:
        wrong = f"{registry.reference.name}:{tag} is there, and is not right: {error.message}"
        workspace.progress.note(f"{wrong}; a push of {image_plan.id} reads and sends its layers")
        return None
    return image


def lasting_tag(image_plan: ImagePlan, program: Digest) -> str:
    """The tag that never moves: the version, and what decides the image.

    The small layer is in it too, for it holds bake's own program, which no plan does.
    """
    decided = Digest.of(f"{image_plan.digest} {program}".encode())
    return f"{image_plan.id.version}-{decided.hex[:12]}"


def program_layer(image_plan: ImagePlan) -> Descriptor:
    """The last layer of an image, of record and entrypoint."""
    return SmallBlobs().add_all(stream_entries(contents.image_entries(image_plan)), media_type=LAYER)


def unread_words(reference: str) -> str:
    """What a person is told of an image that was recognized."""
    return f"there already: its layers were not read (bake verify {reference} --level full reads every byte)"


def _read_manifest(registry: Registry, found: Descriptor) -> Manifest:
    """Raises ImageError where it is none, and DigestError where its bytes are others."""
    if found.media_type != MANIFEST:
        raise ImageError(f"another image, {found.digest}, of several platforms")
    return Manifest.parse(registry.manifest(str(found.digest)).content, where=f"manifest {found.digest}")


def _image_to_come(
    image_plan: ImagePlan,
    there: Manifest,
    known: Sequence[Digest | None],
    *,
    base: Image | None,
    wheels: AddedLayer | None,
) -> Image:
    """The image of the plan, if the layers whose digests are not known are those that a manifest has in their place."""
    start = len(base.manifest.layers) if base else 0
    weights = there.layers[start : start + len(image_plan.layers)]
    packed = [
        Packed(plan=item, digest=digest or layer.digest, is_new=False)
        for item, digest, layer in zip(image_plan.layers, known, weights, strict=False)
    ]
    return assemble(image_plan, base, SmallBlobs(), packed, wheels=wheels)


def _look_at(workspace: Workspace, registry: Registry, image_plan: ImagePlan, image: Image) -> None:
    """Raises ImageError where the image has faults, and what `verify_remote` raises."""
    reference = replace(registry.reference, digest=image.descriptor.digest)
    verified = verify_remote(workspace, reference, level="quick", expected=image_plan.record)
    faults = [*verified.image_faults, *(str(fault) for model in verified.models for fault in model.faults)]
    if faults:
        more = f", and {count_text(len(faults) - 1, 'more fault')}" if len(faults) > 1 else ""
        raise ImageError(f"{faults[0]}{more}")

"""Reasons: two plans of one image -> why it is another one now. Pure.

`ImagePlan.digest` is the judge of what is in it, the reasons explain its word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bake.plan import PACKER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.digest import Digest
    from bake.lock import ModelId
    from bake.plan import ImagePlan

Reason = Literal[
    "new", "files", "roles", "source", "code", "base", "wheels", "overrides", "labels", "packer", "program"
]
"""Why an image is another one now.

new        there was no image to be made of this entry
files      a file of a model in it, its critic and reward model included
roles      which models are in it, and what for
source     where a model comes from: its source or its commit
code       trust_remote_code
base       the base, or its digest
wheels     what is unpacked on top of the base
overrides  what verl is told
labels     anything else that the image says of itself, as the license
packer     the rules by which files become layers
program    bake: what goes into images, or all of it
"""

Program = Literal["same", "in images on a base", "any"]
"""What of bake is another now: nothing; what goes into images that have a base; or who knows what."""


def find_reasons(now: ImagePlan, then: ImagePlan | None, *, program: Program) -> tuple[Reason, ...]:
    """None at all where the image is the same. `then` is None where no image could be made."""
    if then is None:
        return ("new",)
    found = list(_differences(now, then)) if now is not then and now.digest != then.digest else []
    if _is_packed_anew(now, then):
        found.append("packer")
    if program == "any" or (program == "in images on a base" and now.base):
        found.append("program")
    return tuple(found)


def _differences(now: ImagePlan, then: ImagePlan) -> Iterator[Reason]:
    before = {planned.model.id: planned.model for planned in then.models}
    pairs = [(item.model, before[item.model.id]) for item in now.models if item.model.id in before]
    held: dict[Reason, bool] = {
        "files": any(new.files != old.files for new, old in pairs),
        "roles": _roles(now) != _roles(then),
        "source": any((new.source, new.commit) != (old.source, old.commit) for new, old in pairs),
        "code": any(new.trust_remote_code != old.trust_remote_code for new, old in pairs),
        "base": _base(now) != _base(then),
        "wheels": now.wheels != then.wheels,
        "overrides": now.record.overrides != then.record.overrides,
    }
    found = [reason for reason, holds in held.items() if holds]
    yield from found
    if not found or now.models[0].model.license != then.models[0].model.license:
        yield "labels"


def _roles(image: ImagePlan) -> list[tuple[ModelId, tuple[str, ...]]]:
    return [(planned.model.id, planned.roles) for planned in image.models]


def _base(image: ImagePlan) -> tuple[str, Digest | None] | None:
    """What of a base is seen in the image; the name of its table is not."""
    return (image.base.image, image.base.digest) if image.base else None


def _is_packed_anew(now: ImagePlan, then: ImagePlan) -> bool:
    """Whether a model was packed by other rules then. A model that was not packed yet tells nothing."""
    stamps = {planned.model.id: planned.model.packer for planned in now.models}
    return any(
        old.packer is not None and (old.packer != PACKER or stamps.get(old.id) not in {None, old.packer})
        for old in (planned.model for planned in then.models)
    )

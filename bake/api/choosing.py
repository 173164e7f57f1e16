"""Choosing: which images of the lock are to be made, and where each goes. All is checked before any work begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake import plan
from bake.api.changing import changed_models
from bake.api.outputs import choose_outputs
from bake.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bake.api.outputs import Output
    from bake.api.workspace import Workspace
    from bake.lock import Lock, ModelId
    from bake.plan import ImagePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which models of the lock: those that are `named`; or those whose images are others than at a git revision.

    With neither, all of them. `pins` are files of which a change means that every image is another one.
    """

    named: tuple[ModelId, ...] = ()
    since: str | None = None
    pins: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An image that is to be made, and where it goes."""

    plan: ImagePlan
    output: Output

    @property
    def id(self) -> ModelId:
        return self.plan.id

    @property
    def size(self) -> int:
        """Bytes of the models in it, the base left out."""
        return sum(planned.model.size for planned in self.plan.models)


def choose_images(workspace: Workspace, selection: Selection, *, to: str | None) -> tuple[Wanted, ...]:
    """Plan every image of a selection, in its order; `to` is as it is typed, and must lead to a place for each.

    Unless models are named, `to` must lead apart all that are in the lock: another revision chooses others. Raises
    LockError for all that cannot be planned, and UsageError.
    """
    lock = workspace.load()
    everything = tuple(model.id for model in lock.models)
    if selection.since is not None:
        chosen = changed_models(workspace, selection.since, pins=selection.pins).chosen
    else:
        chosen = tuple(dict.fromkeys(selection.named)) or everything
    plans = _plan_all(lock, chosen)
    outputs = choose_outputs(workspace, chosen, to, others=() if selection.named else everything)
    return tuple(Wanted(plan=found, output=output) for found, output in zip(plans, outputs, strict=True))


def _plan_all(lock: Lock, models: Sequence[ModelId]) -> list[ImagePlan]:
    plans, errors = [], []
    for model in models:
        try:
            plans.append(plan.plan_image(lock, model))
        except LockError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        hints = dict.fromkeys(error.hint for error in errors if error.hint)
        raise LockError("\n".join(error.message for error in errors), hint="\n".join(hints) or None)
    return plans


def chains(images: Sequence[Wanted]) -> list[list[Wanted]]:
    """Images in groups that share no weights layer; within a group, one after another, each such layer is made once.

    The largest come first, so that none is left to be waited for at the end.
    """
    found: list[tuple[set[str], list[Wanted]]] = []
    for image in images:
        keys, members = set(_weights(image)), [image]
        near = [group for group in found if not keys.isdisjoint(group[0])]
        for group in near:
            found.remove(group)
        merged = set.union(keys, *(group[0] for group in near))
        found.append((merged, [*(member for group in near for member in group[1]), *members]))
    groups = [sorted(members, key=lambda image: -image.size) for _, members in found]
    return sorted(groups, key=lambda members: -sum(image.size for image in members))


def _weights(image: Wanted) -> Iterator[str]:
    """What names the layers that hold weights; a configuration that two models share is soon made twice."""
    for layer in image.plan.layers:
        if any(plan.is_weights(file.path) for file in layer.files):
            yield layer.key.hex

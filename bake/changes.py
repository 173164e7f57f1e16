"""Changes: two locks -> whose images are others now, and in which jobs they are best built. Pure.

Only what an image depends on counts; which of it is another is `bake.reasons`.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake.errors import LockError
from bake.plan import plan_image
from bake.reasons import find_reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bake.digest import Digest
    from bake.lock import Lock, ModelId
    from bake.plan import ImagePlan
    from bake.reasons import Program, Reason

_NOTHING = re.compile(r"(?:0{40}(?:0{24})?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A model whose image is to be built. `layers` are the bytes of each weights layer, by what decides its bytes.

    Without a lock to compare with there are no reasons.
    """

    id: ModelId
    reasons: tuple[Reason, ...]
    layers: Mapping[Digest, int]

    @property
    def size(self) -> int:
        """Bytes of the image's weights layers."""
        return sum(self.layers.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Models that are built one after another, the biggest first, so that what they share is packed and sent once."""

    models: tuple[Change, ...]

    @property
    def layers(self) -> Mapping[Digest, int]:
        return {key: size for model in self.models for key, size in model.layers.items()}

    @property
    def size(self) -> int:
        """Bytes of the distinct weights layers."""
        return sum(self.layers.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be built: `work` has the biggest job first. `kept` images are the same, `removed` models are gone."""

    work: tuple[Job, ...] = ()
    kept: int = 0
    removed: tuple[ModelId, ...] = ()

    @property
    def models(self) -> tuple[Change, ...]:
        """In build order."""
        return tuple(model for job in self.work for model in job.models)

    @property
    def chosen(self) -> tuple[ModelId, ...]:
        """In build order: the biggest first, those that share a layer together."""
        return tuple(model.id for model in self.models)

    @property
    def jobs(self) -> tuple[tuple[ModelId, ...], ...]:
        return tuple(tuple(model.id for model in job.models) for job in self.work)

    @property
    def size(self) -> int:
        """Bytes of the distinct weights layers. Two jobs share none."""
        return sum(job.size for job in self.work)


def is_nothing(revision: str) -> bool:
    """Whether this is what a CI system says where there was no revision before: zeros alone, or nothing at all."""
    return _NOTHING.fullmatch(revision) is not None


def take_all(lock: Lock) -> Changes:
    """Every model of a lock. Raises LockError for all that are not locked, or stale, at once."""
    return Changes(work=_work(_change(image, ()) for image in _plan_all(_bare(lock))))


def compare(now: Lock, then: Lock, *, program: Program = "same") -> Changes:
    """The models whose images are others than those of an older lock. Raises LockError as `take_all`.

    An entry of `then` of which no image could be made counts as none: `then` is never at fault.
    """
    now, then = _bare(now), _bare(then)
    images = _plan_all(now)
    before, after = _parts(then), _parts(now)
    pairs = [(image, image if before.get(image.id) == after[image.id] else _plan(then, image.id)) for image in images]
    reasons = [(image, find_reasons(image, old, program=program)) for image, old in pairs]
    changed = [_change(image, found) for image, found in reasons if found]
    known = {model.id for model in now.models}
    return Changes(
        work=_work(changed),
        kept=len(images) - len(changed),
        removed=tuple(sorted(model.id for model in then.models if model.id not in known)),
    )


def at_most(work: Sequence[Job], limit: int) -> tuple[Job, ...]:
    """The same work in no more than so many jobs: the smallest are put together."""
    heap = [(job.size, number, job) for number, job in enumerate(work)]
    heapq.heapify(heap)
    while len(heap) > limit:
        _, number, smallest = heapq.heappop(heap)
        _, _, next_one = heapq.heappop(heap)
        joined = _job([*smallest.models, *next_one.models])
        heapq.heappush(heap, (joined.size, number, joined))
    return _ordered(job for _, _, job in heap)


def _plan_all(lock: Lock) -> list[ImagePlan]:
    images: list[ImagePlan] = []
    faults: dict[str, LockError] = {}
    for model in lock.models:
        try:
            images.append(plan_image(lock, model.id))
        except LockError as error:
            faults[error.message] = error
    if len(faults) > 1:
        raise LockError("\n".join(faults), hint="bake lock resolves what is new; bake lock --check tells the rest")
    if faults:
        raise next(iter(faults.values()))
    return images


def _bare(lock: Lock) -> Lock:
    """The lock without what no image depends on. It is planned faster: what is known of layers need not be checked."""
    bases = (replace(base, comment=()) for base in lock.bases)
    models = (replace(model, comment=(), excluded=(), layers=()) for model in lock.models)
    return replace(lock, bases=tuple(bases), models=tuple(models))


def _parts(lock: Lock) -> dict[ModelId, tuple[object, ...]]:
    """All of the lock that an image is planned from: where that is equal, so is the image."""
    known = {model.id: model for model in lock.models}
    return {
        model.id: (
            model,
            *(known.get(other) for other in (model.critic, model.reward_model) if other),
            lock.find_base(model.base),
        )
        for model in lock.models
    }


def _plan(lock: Lock, model: ModelId) -> ImagePlan | None:
    try:
        return plan_image(lock, model)
    except LockError:
        return None


def _change(image: ImagePlan, reasons: tuple[Reason, ...]) -> Change:
    return Change(id=image.id, reasons=reasons, layers={layer.key: layer.size for layer in image.layers})


def _work(changed: Iterable[Change]) -> tuple[Job, ...]:
    """Models that share a layer, if only through a third one, are one job."""
    groups: list[tuple[set[Digest], list[Change]]] = []
    for model in changed:
        layers, models = set(model.layers), [model]
        apart = []
        for group in groups:
            if layers.isdisjoint(group[0]):
                apart.append(group)
            else:
                layers |= group[0]
                models += group[1]
        groups = [*apart, (layers, models)]
    return _ordered(_job(models) for _, models in groups)


def _job(models: Iterable[Change]) -> Job:
    return Job(models=tuple(sorted(models, key=lambda model: (-model.size, model.id))))


def _ordered(work: Iterable[Job]) -> tuple[Job, ...]:
    return tuple(sorted(work, key=lambda job: (-job.size, job.models[0].id)))

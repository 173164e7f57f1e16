"""Verified: what a verification found, and the steps that folders, layouts and registries share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake import plan
from bake.api.workers import Workers, results
from bake.entrypoint.fault import report
from bake.entrypoint.verify import verify
from bake.record import Record
from bake.select import select
from bake.snapshot import SourceFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bake.digest import Digest
    from bake.entrypoint.fault import Fault
    from bake.entrypoint.tree import Tree
    from bake.entrypoint.verify import Level
    from bake.image import Image
    from bake.record import RecordedModel
    from bake.rootfs import RootFS

    Advance = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedModel:
    """One model's outcome: `files` of `size` bytes in all.

    `against` says what they were compared with; None is nothing. `is_seen` is False where the layers that hold them
    were not looked into.
    """

    name: str
    against: str | None
    folder: str
    files: int
    size: int
    faults: tuple[Fault, ...]
    is_seen: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a verification found. `image_faults` are those of the image around the models; `altered` names layers.

    `unread` is how many layers above the base were not looked into, and `read` how many bytes came from a registry.
    """

    target: str
    level: Level
    seconds: float
    models: tuple[VerifiedModel, ...]
    image_faults: tuple[str, ...] = ()
    altered: tuple[Digest, ...] = ()
    unread: int = 0
    read: int | None = None

    @property
    def fault_count(self) -> int:
        return len(self.image_faults) + sum(len(model.faults) for model in self.models)

    def lines(self) -> tuple[str, ...]:
        """Every fault, for a person: where, what was expected, what was found, what to do."""
        faults = (line for model in self.models for line in report(model.faults, folder=model.folder))
        return (*self.image_faults, *faults)


def verify_model(
    model: RecordedModel | None,
    tree: Tree,
    *,
    level: Level,
    against: str | None,
    advance: Advance,
    folder: str | None = None,
) -> VerifiedModel:
    """Verify one model's files. In an image, which has no `folder`, their modes are checked too."""
    entries = tree.entries()
    listed = [SourceFile(path=path, size=entry.size) for path, entry in entries.items() if path != "."]
    left_out = frozenset(left.path for left in select(listed).excluded)
    in_image = folder is None
    return VerifiedModel(
        name=f"{model.name}@{model.version}" if model else "a model without a record",
        against=against,
        folder=folder or (model.path if model else ""),
        files=len(model.files) if model else len(listed) - len(left_out),
        size=sum(file.size for file in model.files) if model else sum(file.size for file in listed),
        faults=_interruptible(
            lambda watched: verify(
                model,
                tree,
                level=level,
                ignore=frozenset() if in_image else left_out,
                check_modes=in_image,
                advance=watched,
            ),
            advance,
        ),
    )


def _interruptible(work: Callable[[Advance], tuple[Fault, ...]], advance: Advance) -> tuple[Fault, ...]:
    """Do in a thread what starts threads of its own, so that Ctrl-C ends them all at the next byte they count."""
    with Workers() as workers:
        (faults,) = results([workers.compute(work, workers.watch(advance))])
    return faults


def base_layers(image: Image) -> int:
    """How many layers are the base's and need not be read; 0 where the image does not say."""
    text = image.config.labels.get(plan.BASE_LAYERS, "")
    return int(text) if text.isdecimal() else 0


def environment_faults(image: Image, record: Record) -> Iterator[str]:
    """VERL_MODEL_PATH and its like are what the entrypoint trains: they must lead to the models of the record."""
    for model in record.models:
        for variable in (plan.ENVIRONMENT[role] for role in model.roles):
            if (found := image.config.environment.get(variable)) != model.path:
                yield f"environment: expected {variable}={model.path}, found {found or 'nothing'}"


def read_record(rootfs: RootFS, *, expected: Record | None) -> tuple[Record, list[str]]:
    """The record in an image, and what is wrong with it: it is absent, or not the expected one. Raises ImageError."""
    content = rootfs.read(plan.RECORD)
    if content is None:
        return Record(models=()), [f"no /{plan.RECORD}: expected an image that bake built"]
    record = Record.parse(content, where=f"/{plan.RECORD}")
    if expected is None or record == expected:
        return record, []
    return record, ["the record in the image is not that of the lock: the image was built from another state of it"]

"""Any valid lock, for hypothesis: sorted as `Lock` says, with the oddest text that the format allows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from bake.digest import Digest
from bake.lock import SCRATCH, Base, Lock, LockedLayer, LockedModel, ModelId, Resharded, Wheel
from bake.lock.dump import HEADER
from bake.record import RecordedFile
from bake.select import Excluded, check_path

if TYPE_CHECKING:
    from collections.abc import Sequence

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For tests on machines that do other things too: time is not what they test."""

ODD = st.sampled_from("\"'\\#[]{}=,.@/*\t\n\r\x00\x1b\x7f\x85\u2028\ufeffé模🦙")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | ODD, max_size=12)
LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\t"), max_size=12)
WORDS = st.from_regex(r"[a-z0-9]{1,5}([._-][a-z0-9]{1,5}){0,2}", fullmatch=True)
IDS = st.builds(ModelId, name=WORDS, version=WORDS)
DIGESTS = st.integers(0, 2**256 - 1).map(lambda number: Digest(f"{number:064x}"))
SIZES = st.integers(0, 2**53 - 1)
COMMITS = st.integers(0, 2**160 - 1).map(lambda number: f"{number:040x}")
COMMENTS = st.lists(LINES.map(lambda line: f"#{line}".rstrip()), max_size=3).map(tuple)
GLOBS = st.lists(TEXTS, max_size=3).map(tuple)
OVERRIDES = st.lists(
    st.from_regex(r"\+{0,2}[a-z_.]{1,6}=[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{0,6}", fullmatch=True), max_size=2
).map(tuple)
REVISIONS = st.none() | st.from_regex(r"[\w./é-]{1,8}", fullmatch=True).filter(lambda text: text[0] != "-")
HUB_SOURCES = st.from_regex(r"hf://([A-Za-z0-9][A-Za-z0-9_.-]{0,5}/)?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,5}", fullmatch=True)
FOLDER_SOURCES = LINES.filter(lambda text: text and "\t" not in text).map(lambda text: f"dir://{text}")

COMPONENTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=6)
PATHS = st.lists(COMPONENTS, min_size=1, max_size=3).map("/".join).filter(lambda path: check_path(path) is None)
FILES = st.builds(RecordedFile, path=PATHS, size=st.integers(0, 2**40), digest=DIGESTS)
WHEELS = st.builds(
    Wheel,
    name=st.from_regex(r"[A-Za-z0-9]{1,5}([._-][A-Za-z0-9]{1,5})?", fullmatch=True),
    version=st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}(\+cu[0-9]{1,3})?", fullmatch=True),
    digest=DIGESTS,
)


def _without_folders(files: Sequence[RecordedFile]) -> tuple[RecordedFile, ...]:
    """The files whose paths are not also folders of others."""
    paths = [file.path for file in files]
    return tuple(file for file in files if not any(path.startswith(f"{file.path}/") for path in paths))


FILE_SETS = st.lists(FILES, min_size=1, max_size=4, unique_by=lambda file: file.path).map(_without_folders)
EXCLUDED = st.lists(
    st.builds(Excluded, path=TEXTS, size=st.none() | SIZES, reason=TEXTS), max_size=3, unique_by=lambda left: left.path
)
_NAMES = r"[A-Za-z0-9][A-Za-z0-9._-]{0,4}(:[0-9]{1,5}(?=/))?(/[a-z0-9][a-z0-9._-]{0,4}){0,2}"
_REFERENCES = st.from_regex(rf"(docker:)?{_NAMES}(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,4}})?", fullmatch=True)
IMAGES = st.one_of(
    _REFERENCES,
    st.builds("{}@{}".format, _REFERENCES, DIGESTS),
    LINES.map(str.strip).filter(lambda path: path and "\t" not in path).map("oci:{}".format),
)
"""What a base may be built on: in a registry, in the daemon, or in a layout at any path."""

BASES = st.lists(
    st.builds(
        Base,
        name=WORDS.filter(lambda name: name != SCRATCH),
        image=IMAGES,
        digest=st.none() | DIGESTS,
        verl=st.none() | st.just("0.9.1"),
        wheels=st.lists(WHEELS, max_size=2, unique_by=lambda wheel: wheel.name).map(
            lambda wheels: tuple(sorted(wheels, key=lambda wheel: wheel.name))
        ),
        comment=COMMENTS,
    ),
    max_size=2,
    unique_by=lambda base: base.name,
).map(lambda bases: tuple(sorted(bases, key=lambda base: base.name)))


@st.composite
def layers(draw: st.DrawFn, files: Sequence[RecordedFile]) -> tuple[LockedLayer, ...]:
    """The files divided among layers, in any order."""
    numbers = draw(st.lists(st.integers(0, 2), min_size=len(files), max_size=len(files)))
    return tuple(
        LockedLayer(
            diff_id=draw(DIGESTS),
            size=draw(SIZES),
            files=tuple(file.path for file, other in zip(files, numbers, strict=True) if other == number),
        )
        for number in sorted(set(numbers))
    )


@st.composite
def resharded(draw: st.DrawFn, files: Sequence[RecordedFile]) -> tuple[Resharded, ...]:
    """Some of the files, each made of one file of the source or of an older one of its own name."""
    made = draw(st.lists(st.sampled_from([file.path for file in files]), unique=True, max_size=2))
    sources = draw(st.lists(FILES, min_size=len(made), max_size=len(made), unique_by=lambda file: file.path))
    paths = {file.path for file in files}
    return tuple(
        Resharded(source=replace(source, path=path) if source.path in paths else source, files=(path,))
        for path, source in zip(made, sources, strict=True)
    )


@st.composite
def asked(draw: st.DrawFn, model: ModelId, *, bases: Sequence[str], others: Sequence[ModelId]) -> LockedModel:
    """A model that is not resolved yet: what the Hub says of it, its license and its gate, is not known either."""
    source = draw(HUB_SOURCES | FOLDER_SOURCES)
    return LockedModel(
        id=model,
        source=source,
        revision=draw(REVISIONS) if source.startswith("hf://") else None,
        include=draw(GLOBS),
        exclude=draw(GLOBS),
        max_shard_size=draw(st.none() | st.sampled_from(["5GB", "1.5GiB", "800 kB"])),
        base=draw(st.sampled_from(bases)),
        critic=draw(st.none() | st.sampled_from(others)),
        reward_model=draw(st.none() | st.sampled_from(others)),
        trust_remote_code=draw(st.booleans()),
        overrides=draw(OVERRIDES),
        comment=draw(COMMENTS),
    )


@st.composite
def resolved(draw: st.DrawFn, model: LockedModel) -> LockedModel:
    """A model with its files, perhaps with its layers, and perhaps edited since."""
    files = draw(FILE_SETS)
    paths = {file.path for file in files}
    whole = draw(resharded(files)) if model.max_shard_size else ()
    paths |= {item.source.path for item in whole}
    told = replace(model, license=draw(st.none() | TEXTS), gated=draw(st.booleans()))
    locked = told.resolve(
        files=files,
        excluded=[left for left in draw(EXCLUDED) if left.path not in paths],
        commit=draw(COMMITS) if model.source.startswith("hf://") else None,
        resharded=whole,
    )
    packer = draw(st.none() | st.integers(1, 9))
    if packer is not None:
        locked = replace(locked, packer=packer, layers=draw(layers(locked.files)))
    return replace(locked, exclude=draw(st.just(locked.exclude) | GLOBS))


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    """A valid lock of up to three models."""
    bases = draw(BASES)
    ids = draw(st.lists(IDS, max_size=3, unique=True).map(sorted))
    drafts = [draw(asked(model, bases=[SCRATCH, *(base.name for base in bases)], others=ids)) for model in ids]
    lock = Lock(
        bases=bases,
        models=tuple(draw(st.just(draft) | resolved(draft)) for draft in drafts),
        format=(1, draw(st.integers(0, 9))),
        comment=draw(COMMENTS.filter(lambda comment: comment != HEADER)),
        ending=draw(COMMENTS),
    )
    return replace(lock, format=lock.least_format)


LOCKS = locks()
LOCKS_WITH_FILES = LOCKS.filter(lambda lock: any(model.files for model in lock.models))

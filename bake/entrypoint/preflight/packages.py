"""Packages: verl itself, what it imports without saying so, the engines that the settings name. None is imported."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding
from bake.entrypoint.installed import version_of
from bake.entrypoint.launch.installed import find_verl
from bake.entrypoint.preflight.asked import SECTIONS, Role, strategy, uses_critic, uses_queue
from bake.entrypoint.preflight.rollout import ENGINES
from bake.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation

_OLDEST, _NEWEST = (0, 5), (0, 9)

_UNDECLARED = ("cachetools", "fastapi", "uvicorn")
"""Imported by the agent loop or the rollout in 0.5.0 to 0.9.1, and declared by none (workers/rollout/utils.py)."""

_QUEUE = "TransferQueue>=0.1.10"
"""What verl 0.9.1 asks for in its extra verl-core."""

_NAMES = {"transfer_queue": _QUEUE, "megatron.core": "megatron-core", "megatron.bridge": "megatron-bridge"}
"""What to give pip, where the import has another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A package that is imported, and what for."""

    package: str
    why: str


def check_packages(situation: Situation) -> Iterator[Finding]:
    try:
        find_verl()
    except ImageError as error:
        yield _finding(what=error.message, why="there is nothing to start", todo=error.hint or "use another base")
        return
    yield from _release(situation.release)
    missing = [need for need in needs(situation) if not _is_there(need.package)]
    if missing:
        names = " ".join(f"'{_NAMES.get(need.package, need.package)}'" for need in missing)
        yield _finding(
            what=f"not installed: {'; '.join(f'{need.package}, {need.why}' for need in missing)}",
            why=f"verl starts Ray and dies: No module named {missing[0].package!r}",
            todo=f"name them in the base's wheels in models.lock, or build on a base that has them; pip: {names}",
        )
    if uses_queue(situation):
        yield from _queue()
    yield from _transformers()


def needs(situation: Situation) -> Iterator[Need]:
    """What this verl will import with these settings, beyond what it declares."""
    settings = situation.settings
    for package in _UNDECLARED if _serves(situation) else ():
        yield Need(package=package, why="which verl imports and does not declare")
    if uses_queue(situation):
        yield Need(package="transfer_queue", why="which verl's trainer needs unless trainer.use_v1=False")
    rollout = settings.get("actor_rollout_ref.rollout.name")
    if isinstance(rollout, str) and rollout in ENGINES:
        yield Need(package=rollout, why=f"for actor_rollout_ref.rollout.name={rollout}")
    roles: tuple[Role, ...] = ("actor", "critic") if uses_critic(settings) else ("actor",)
    megatron = [role for role in roles if strategy(settings, role) == "megatron"]
    if megatron:
        yield Need(package="megatron.core", why="for strategy=megatron")
    yield from dict.fromkeys(need for role in megatron for need in _bridges(situation, role))


def _bridges(situation: Situation, role: Role) -> Iterator[Need]:
    """Between Hugging Face's weights and Megatron's: models/mcore/mbridge.py, or bridge.py (since 0.7; read to 0.9)."""
    section = f"{SECTIONS[role]}.megatron"
    if not situation.settings.flag(f"{section}.use_mbridge"):
        return
    vanilla = situation.settings.get(f"{section}.vanilla_mbridge")
    if vanilla is False:
        yield Need(package="megatron.bridge", why="for megatron.vanilla_mbridge=False")
    elif vanilla is True or not situation.settings.has(f"{section}.vanilla_mbridge"):
        yield Need(package="mbridge", why="for megatron.use_mbridge=True")


def _serves(situation: Situation) -> bool:
    """Every rollout since 0.7 is a server; before, only those of `rollout.mode=async`."""
    release, mode = situation.release, situation.settings.get("actor_rollout_ref.rollout.mode")
    return release is not None and release <= _NEWEST and (release >= (0, 7) or mode == "async")


def _finding(*, what: str, why: str, todo: str) -> Finding:
    return Finding(check="verl", severity="error", what=what, why=why, todo=todo)


def _release(release: tuple[int, int] | None) -> Iterator[Finding]:
    known = f"{_OLDEST[0]}.{_OLDEST[1]} to {_NEWEST[0]}.{_NEWEST[1]}"
    if release is None:
        what, todo = "this verl does not say which release it is", "install verl from a wheel, so that it does"
    elif not _OLDEST <= release <= _NEWEST:
        what, todo = (
            f"verl {release[0]}.{release[1]} is none that bake knows ({known})",
            f"verl {known}, or read on with care",
        )
    else:
        return
    yield Finding(
        check="verl",
        severity="warning",
        what=what,
        why="rules that changed with its releases are not checked, or as in the newest that is known",
        todo=todo,
    )


def _queue() -> Iterator[Finding]:
    found = version_of("TransferQueue")
    if found is not None and not satisfies(found, _QUEUE):
        yield Finding(
            check="verl",
            severity="warning",
            what=f"TransferQueue {found} is installed, and verl asks for {_QUEUE}",
            why="verl's trainer keeps its samples there, and may call what an older one lacks",
            todo=f"pip install '{_QUEUE}', in the base or as a wheel in models.lock",
        )


def _transformers() -> Iterator[Finding]:
    """The range that verl's own metadata asks for; pip install --no-deps does not look."""
    try:
        wanted = next((text for text in metadata.requires("verl") or () if _is_transformers(text)), None)
        found = metadata.version("transformers")
    except metadata.PackageNotFoundError:
        return
    if wanted is None or satisfies(found, wanted):
        return
    yield Finding(
        check="verl",
        severity="warning",
        what=f"transformers {found} is installed, and verl asks for {wanted.partition(';')[0].strip()}",
        why="models and tokenizers may load differently, or not at all",
        todo=f"pip install --no-deps '{wanted.partition(';')[0].strip()}', in the base or as a wheel in models.lock",
    )


def _is_transformers(requirement: str) -> bool:
    return re.match(r"transformers\b(?![-_.])", requirement) is not None and "extra ==" not in requirement


def satisfies(version: str, requirement: str) -> bool:
    """Whether a version is in a requirement's range, by release numbers alone. What cannot be read is taken to fit."""
    have = _numbers(version)
    clauses = re.findall(r"(===|~=|==|!=|<=|>=|<|>)\s*([\w.*+!-]+)", requirement.partition(";")[0])
    return have is None or all(_fits(have, operator, wanted) for operator, wanted in clauses)


def _fits(have: tuple[int, ...], operator: str, wanted: str) -> bool:
    limit = _numbers(wanted.removesuffix(".*"))
    if limit is None:
        return True
    length = max(len(have), len(limit))
    ours, theirs = (numbers + (0,) * (length - len(numbers)) for numbers in (have, limit))
    equal = have[: len(limit)] == limit if wanted.endswith(".*") else ours == theirs
    compatible = ours >= theirs and have[: len(limit) - 1] == limit[:-1]
    answers = {
        "==": equal,
        "===": equal,
        "!=": not equal,
        "<": ours < theirs,
        "<=": ours <= theirs,
        ">": ours > theirs,
        ">=": ours >= theirs,
        "~=": compatible,
    }
    return answers[operator]


def _numbers(version: str) -> tuple[int, ...] | None:
    found = re.match(r"\d{1,9}(?:\.\d{1,9})*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else None


def _is_there(package: str) -> bool:
    """A part of a package is looked for in its folder, since find_spec would import the package first."""
    top, _, rest = package.partition(".")
    spec = find_spec(top)
    if spec is None or not rest:
        return spec is not None
    return PathFinder.find_spec(package, list(spec.submodule_search_locations or ())) is not None

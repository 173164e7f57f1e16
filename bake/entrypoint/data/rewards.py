"""Rewards: who computes the reward, whether it can, and whether the rows hold what it reads.

Where something else than verl's own managers may compute it, nothing is said: only what is known is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bake.entrypoint.data import module
from bake.entrypoint.data.columns import REWARD
from bake.entrypoint.data.flaws import Flaw, Kind, shown
from bake.entrypoint.data.scores import find, known, near, never_right
from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bake.entrypoint.data.columns import Columns
    from bake.entrypoint.data.scores import Source
    from bake.entrypoint.settings import Settings

_CHECK = "data-rewards"

_KEYWORDS = frozenset({"naive", "dapo"})
_MANAGERS = _KEYWORDS | {"batch", "prime", "gdpo", "remote", "rate_limited"}
"""verl's own reward managers, all of which read data_source and reward_model.ground_truth."""

_LATE = "every answer's reward would fail in a worker, after the models are loaded and the first answers written"

_TARGET = 'write reward_model={"style": "rule", "ground_truth": {"target": ["…"]}}, with every answer that counts'

NO_SOURCE = Kind(
    check=_CHECK,
    severity="error",
    text="is null or no text",
    why=_LATE,
    todo="name where each row comes from, as openai/gsm8k, or give all rows one: --map data_source=openai/gsm8k",
)
NO_TRUTH = Kind(
    check=_CHECK,
    severity="error",
    text="has no ground_truth",
    why=_LATE,
    todo='give each row reward_model={"style": "rule", "ground_truth": "…"}, or --map ground_truth=COLUMN',
)


NULL_TRUTH = Kind(
    check=_CHECK,
    severity="error",
    text="is null",
    why="verl's own reward fails over it, or calls no answer right",
    todo="leave such rows out of the file",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A reward function of the user's: the setting that names its file, the file, the name in it."""

    key: str
    path: str
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """`function` is the user's, if any. `reads` says that the columns are read, `sources` are verl's own rewards."""

    function: Function | None
    manager: str
    reads: bool
    sources: tuple[Source, ...]


def scoring_of(settings: Settings, release: tuple[int, int] | None) -> Scoring:
    """Where each release looks: `custom_reward_function` and `reward_model` up to 0.6, `reward` from 0.7.

    0.7 and 0.8 still move the old keys to the new ones, and the old ones win (migrate_legacy_reward_impl in
    verl/experimental/reward_loop/reward_loop.py); 0.9 takes them and reads them nowhere.
    """
    function = _function(settings, release)
    new = release is None or release >= (0, 7)
    legacy = ["reward_model.reward_manager"] if release is not None and release < (0, 9) else []
    name = str(settings.first(*legacy, *(["reward.reward_manager.name"] if new else [])) or "naive")
    source = settings.first("reward.reward_manager.source", "reward_model.reward_loop_source") or "register"
    model = settings.flag("reward.reward_model.enable") or (bool(legacy) and settings.flag("reward_model.enable"))
    # A model's score stands alone without a function from 0.7; before, validation may still read the rule's columns.
    reads = name in _MANAGERS and source == "register" and (function is not None if model and new else not model)
    own = reads and function is None
    return Scoring(function=function, manager=name, reads=reads, sources=known(release) if own else ())


def _function(settings: Settings, release: tuple[int, int] | None) -> Function | None:
    old, new = "custom_reward_function", "reward.custom_reward_function"
    keys = (new,) if release is None or release >= (0, 9) else (old, new) if release >= (0, 7) else (old,)
    for key in keys:
        path, name = settings.get(f"{key}.path"), settings.get(f"{key}.name")
        if isinstance(path, str) and path:
            return Function(key=key, path=path, name=name if isinstance(name, str) else None)
    return None


def function_findings(scoring: Scoring, release: tuple[int, int] | None) -> Iterator[Finding]:
    """The reward function's file must be there, parse, define the name, and take what it is called with."""
    function = scoring.function
    if function is None or (function.path.startswith("pkg://") and (release is None or release >= (0, 7))):
        return
    if function.name is None:
        yield _wrong(f"{function.key}.name is not given", f"give {function.key}.name=compute_score")
        return
    path = function.path.removeprefix("file://")
    try:
        statement = module.require(path, function.name)
    except module.ModuleError as fault:
        todo = f"mount the file, and give {function.key}.path=/data/reward.py and .name as it is spelled there"
        yield _wrong(f"{function.key}.path={path} {fault}", todo)
        return
    if scoring.manager in _KEYWORDS and (missing := module.lacking(statement)):
        what = f"{function.name} in {path} takes no {' and no '.join(missing)}"
        signature = f"def {function.name}({', '.join(module.CALLED_WITH)}, **kwargs)"
        yield _wrong(what, f"verl calls it by these keywords: {signature}")


def _wrong(what: str, todo: str) -> Finding:
    return Finding(check=_CHECK, severity="error", what=what, why=_LATE, todo=todo)


def check_row(row: Mapping[str, Any], columns: Columns, *, place: str) -> Iterator[Flaw]:
    """One row's data_source and ground truth, both as verl would read them.

    A function of the user's may make what it likes of a null; that the keys are there, it cannot do without.
    """
    reward = row.get(REWARD)
    if not isinstance(reward, dict) or "ground_truth" not in reward:
        yield Flaw(NO_TRUTH, REWARD, place, "" if reward is None else shown(reward))
    elif columns.sources:
        yield from _check_truth(reward["ground_truth"], find(row.get(columns.source), columns.sources), place=place)
    if columns.sources:
        yield from check_source(row.get(columns.source), columns, place=place)


def _check_truth(truth: object, source: Source | None, *, place: str) -> Iterator[Flaw]:
    if truth is None:
        yield Flaw(NULL_TRUTH, f"{REWARD}.ground_truth", place)
    elif source is not None and (reason := never_right(truth, source)):
        yield Flaw(_never(source, reason), f"{REWARD}.ground_truth", place, shown(truth))


def check_source(value: object, columns: Columns, *, place: str) -> Iterator[Flaw]:
    """A data source is text, and one that verl's own reward knows."""
    if not isinstance(value, str) or not value:
        yield Flaw(NO_SOURCE, columns.source, place, "" if value is None else shown(value))
    elif find(value, columns.sources) is None:
        yield Flaw(_unknown(value, columns.sources), columns.source, place)


def _unknown(value: str, sources: tuple[Source, ...]) -> Kind:
    meant = near(value, sources)
    spell = f"write {meant} if that is meant, or give" if meant else "give"
    return Kind(
        check=_CHECK,
        severity="error",
        text=f"is {shown(value)}, which this verl has no reward for",
        why=f"verl raises NotImplementedError for it: {_LATE}",
        todo=f"{spell} a function of your own: reward.custom_reward_function.path=/data/reward.py "
        "(custom_reward_function.path before verl 0.7)",
    )


def _never(source: Source, reason: str) -> Kind:
    if source.truth == "target":
        why = f"verl's reward of {source.name} reads it there: {_LATE}"
        return Kind(check=_CHECK, severity="error", text=reason, why=why, todo=_TARGET)
    return Kind(
        check=_CHECK,
        severity="error",
        text=f"{reason}, so that no answer is ever right",
        why=f"verl's reward of {source.name} compares it as it is: every answer gets the same reward, and nothing "
        "is learned from the row, without an error",
        todo="write the bare answer as a string; --map ground_truth=COLUMN does, and takes gsm8k's number after ####",
        spared=True,
    )

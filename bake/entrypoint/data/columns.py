"""Columns: what `--map FIELD=COLUMN` said, and what verl reads under which name.

The rule: prompt and ground_truth name a column of every file. data_source names a column too, and is itself the value
of every row in a file that has no such column, as in `--map data_source=openai/gsm8k`.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.scores import as_compared, find
from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from bake.entrypoint.data.scores import Source
    from bake.entrypoint.settings import Settings

FIELDS = ("prompt", "ground_truth", "data_source")
"""What --map takes on its left."""

REWARD = "reward_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """`prompt` and `source` are the columns that verl reads (data.prompt_key, and up to 0.6 data.reward_fn_key).

    `mapped` is --map. `sources` are those whose reward is verl's own; empty where another function computes it.
    `extra` is extra_info for a verl that takes no null there.
    """

    prompt: str
    source: str
    media: tuple[str, ...]
    mapped: Mapping[str, str]
    sources: tuple[Source, ...]
    extra: str | None

    @property
    def read(self) -> tuple[str, ...]:
        """Every column that a check looks at."""
        return (self.prompt, self.source, REWARD, self.extra or REWARD, *self.media, *self.mapped.values())

    def lacking(self, names: Collection[str]) -> list[str]:
        """The mapped columns that a file must have and lacks."""
        needed = (self.mapped[field] for field in ("prompt", "ground_truth") if field in self.mapped)
        return [column for column in needed if column not in names]

    def row(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A row as verl will read it: with --map done."""
        row = dict(values)
        if column := self.mapped.get("prompt"):
            row[self.prompt] = messages(values.get(column))
        if column := self.mapped.get("data_source"):
            row[self.source] = values.get(column, column)
        if column := self.mapped.get("ground_truth"):
            row[REWARD] = self.reward(values.get(column), row.get(self.source))
        return row

    def reward(self, truth: object, source: object) -> dict[str, Any]:
        """The reward_model of a mapped ground truth."""
        compared = as_compared(truth, find(source, self.sources)) if self.sources else truth
        return {"style": "rule", "ground_truth": compared}


def columns_of(
    settings: Settings, mapped: Mapping[str, str], *, release: tuple[int, int] | None, sources: tuple[Source, ...]
) -> Columns:
    """verl 0.7 hard-codes data_source (verl/experimental/reward_loop/reward_manager/naive.py).

    0.5 takes `.get` of extra_info where the column is there (verl/utils/dataset/rl_dataset.py, __getitem__).
    """
    old = release is not None and release < (0, 7)
    return Columns(
        prompt=_text(settings, "data.prompt_key", "prompt"),
        source=_text(settings, "data.reward_fn_key", "data_source") if old else "data_source",
        media=tuple(_text(settings, f"data.{kind}_key", f"{kind}s") for kind in ("image", "video", "audio")),
        mapped={field: column for field, column in mapped.items() if field in FIELDS},
        sources=sources,
        extra="extra_info" if release is not None and release < (0, 6) else None,
    )


def unknown_fields(mapped: Mapping[str, str]) -> tuple[Finding, ...]:
    wrong = [f"{field}={column}" for field, column in mapped.items() if field not in FIELDS]
    if not wrong:
        return ()
    return (
        Finding(
            check="data-columns",
            severity="error",
            what=f"--map {' and '.join(wrong)}: expected one of {', '.join(FIELDS)} on the left",
            why="what verl calls a field goes on the left, the file's column on the right",
            todo=f"{_meant(wrong[0])}, for example --map prompt=question --map ground_truth=answer",
        ),
    )


def messages(value: object) -> object:
    """A mapped prompt: the JSON text of messages becomes these, any other string one message of the user's."""
    if not isinstance(value, str):
        return value
    return parsed(value) or [{"role": "user", "content": value}]


def parsed(text: str) -> list[dict[str, Any]] | None:
    """The messages that a text is the JSON of; None where it is anything else."""
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    alike = isinstance(found, list) and all(isinstance(item, dict) and item.keys() & {"role", "from"} for item in found)
    return found if alike and found else None


def near_names(wanted: str, names: Iterable[str]) -> str:
    """`did you mean x?`, or what there is."""
    listed = list(names)
    alike = difflib.get_close_matches(wanted, listed, n=2)
    return f"did you mean {' or '.join(alike)}?" if alike else f"it has {', '.join(listed) or 'no column'}"


def _meant(wrong: str) -> str:
    field, _, column = wrong.partition("=")
    if column in FIELDS:
        return f"turn it round: --map {column}={field}"
    alike = difflib.get_close_matches(field, FIELDS, n=1)
    return f"write --map {alike[0]}={column}" if alike else "leave it out"


def _text(settings: Settings, key: str, default: str) -> str:
    value = settings.get(key)
    return value if isinstance(value, str) and value else default

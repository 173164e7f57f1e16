"""Scores: the data sources that verl's own reward knows, by release, and what it compares the ground truth as.

verl/utils/reward_score/__init__.py, default_compute_score: any other data_source is a NotImplementedError.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Truth = Literal["number", "text", "target", "any"]
"""What a ground truth must be, or no answer is ever right:
`text` a string, as the answer found in the response is one; `number` a string of digits, dots and a minus sign;
`target` an object whose `target` is the answer or a list of answers; `any` is turned into what is needed.
"""


@dataclass(frozen=True, slots=True)
class Source:
    """`name` is a data_source, or with `prefix` what one begins with; known since the release `since`."""

    name: str
    truth: Truth
    since: tuple[int, int] = (0, 5)
    prefix: bool = False

    def matches(self, value: str) -> bool:
        return value.startswith(self.name) if self.prefix else value == self.name


SOURCES = (
    Source("openai/gsm8k", "number"),
    Source("lighteval/MATH", "text"),
    Source("DigitalLearningGmbH/MATH-lighteval", "text"),
    Source("HuggingFaceH4/MATH-500", "text"),
    Source("math_dapo", "text"),
    Source("math", "text", since=(0, 6)),
    Source("math_dapo_reasoning", "text", since=(0, 6)),
    Source("aime", "text", prefix=True),
    Source("numina_aops_forum", "any"),
    Source("numina_synthetic_math", "any"),
    Source("numina_amc_aime", "any"),
    Source("numina_synthetic_amc", "any"),
    Source("numina_cn_k12", "any"),
    Source("numina_olympiads", "any"),
    Source("codecontests", "any"),
    Source("apps", "any"),
    Source("codeforces", "any"),
    Source("taco", "any"),
    Source("hiyouga/geometry3k", "any"),
    Source("searchR1_nq", "target"),
    Source("searchR1_triviaqa", "target"),
    Source("searchR1_popqa", "target"),
    Source("searchR1_hotpotqa", "target"),
    Source("searchR1_2wikimultihopqa", "target"),
    Source("searchR1_musique", "target"),
    Source("searchR1_bamboogle", "target"),
)


def known(release: tuple[int, int] | None) -> tuple[Source, ...]:
    """The table of one release; of the newest where the release is not known."""
    return tuple(source for source in SOURCES if release is None or source.since <= release)


def find(value: object, sources: Iterable[Source]) -> Source | None:
    if not isinstance(value, str):
        return None
    return next((source for source in sources if source.matches(value)), None)


def near(value: object, sources: Iterable[Source]) -> str | None:
    """The data source that was meant, if one is spelled like it or ends like it."""
    names = [source.name for source in sources]
    text = str(value)
    ending = [name for name in names if name.lower().split("/")[-1] == text.lower().split("/")[-1]]
    return next(iter(ending or difflib.get_close_matches(text, names, n=1)), None)


def never_right(value: object, source: Source) -> str | None:
    """Why no answer can equal this ground truth; None where one can.

    gsm8k: the answer is what follows `#### `, without commas and as a string (verl/utils/reward_score/gsm8k.py).
    MATH and DAPO compare strings; search-R1 reads ground_truth["target"].
    """
    if source.truth in ("text", "number") and not isinstance(value, str):
        return f"is of type {type(value).__name__}, where text is compared"
    if source.truth == "number" and not re.fullmatch(r"-?[0-9.]+", str(value)):
        return "is more than a number without commas"
    if source.truth == "target" and not (isinstance(value, dict) and "target" in value):
        return "has no `target`"
    return None


def as_compared(value: Any, source: Source | None) -> Any:
    """A mapped ground truth as verl's own reward compares it, where that is one plain step.

    A number becomes text; of gsm8k's worked answers the number after `####` is kept, without commas, as verl's own
    preparation does (verl's examples/data_preprocess/gsm8k.py).
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(int(value)) if value == value // 1 else str(value)
    if source is not None and source.truth == "number" and isinstance(value, str):
        worked = re.findall(r"#### (-?[0-9.,]+)", value)
        return (worked[-1] if worked else value.strip()).replace(",", "")
    return value

"""Lengths: whether the model's chat template takes the prompts, and whether these fit where verl puts them.

Prompts are those of the sample; one with images, videos or audio is left out, as only the model's processor can
count it. A template that is given tools renders longer prompts than these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.entrypoint.data.flaws import Flaw, Kind
from bake.entrypoint.data.template import TemplateError
from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.entrypoint.data.tokens import Tokenizer
    from bake.entrypoint.preflight.situation import Situation

_CHECK = "data-lengths"

_COUNTED = 2_000_000
"""Characters of a split that are counted at most: a second or so. What lies beyond is more than prompts are long."""

_FILTER = "; data.filter_overlong_prompts=True drops what is longer before the training"

REFUSED = Kind(
    check="data-template",
    severity="error",
    text="is refused by the model's chat template",
    why="verl fails over such a row in a worker once the models are loaded, or drops it where "
    "data.filter_overlong_prompts is on",
    todo="bring the messages into the order and the roles that the template asks for",
    filtered=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A sound prompt of the sample and its place."""

    place: str
    messages: Sequence[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """`lengths` are (tokens, place) of the prompts that could be counted."""

    flaws: tuple[Flaw, ...] = ()
    lengths: tuple[tuple[int, str], ...] = ()


def measure(prompts: Sequence[Prompt], tokenizer: Tokenizer, *, column: str) -> Measured:
    """Render and count each prompt. The model must have a template."""
    assert tokenizer.template is not None  # noqa: S101 - the caller told that it has none
    flaws: list[Flaw] = []
    lengths: list[tuple[int, str]] = []
    left = _COUNTED
    for prompt in prompts:
        try:
            text = tokenizer.template.render(prompt.messages)
        except TemplateError as fault:
            flaws.append(Flaw(REFUSED, column, prompt.place, str(fault)))
            continue
        tokens = tokenizer.count(text[:left]) if left else None
        left = max(0, left - len(text))
        if tokens is not None:
            lengths.append((tokens, prompt.place))
    return Measured(flaws=tuple(flaws), lengths=tuple(lengths))


def no_template(tokenizer: Tokenizer) -> Finding:
    return Finding(
        check="data-template",
        severity="error",
        what=f"the prompts are messages, and the model in {tokenizer.folder} has no chat template",
        why="verl renders every prompt with it; without one each row fails once the models are loaded, or is dropped "
        "where data.filter_overlong_prompts is on",
        todo="bake the model's instruct version, or give actor_rollout_ref.model.custom_chat_template",
    )


def broken_template(fault: TemplateError) -> Finding:
    return Finding(
        check="data-template",
        severity="error",
        what=str(fault),
        why="verl renders every prompt with it",
        todo="mend chat_template.jinja or tokenizer_config.json where the model comes from, and bake it again",
    )


def not_counted(reason: str) -> Finding:
    return Finding(
        check=_CHECK,
        severity="warning",
        what=f"the prompts' lengths were not checked: {reason}",
        why="prompts longer than data.max_prompt_length are cut, dropped or refused, as this verl has it",
        todo="see that data.max_prompt_length holds your longest prompt with its chat template",
    )


def length_findings(measured: Measured, situation: Situation, *, key: str) -> Iterator[Finding]:
    """Prompts against data.max_prompt_length, by what the release does with those that are longer."""
    limit = situation.settings.number("data.max_prompt_length")
    if limit is None or not measured.lengths:
        return
    over = [place for tokens, place in measured.lengths if tokens > limit]
    longest, where = max(measured.lengths)
    if not over:
        return
    share = f"{len(over):,} of the {len(measured.lengths):,} prompts counted"
    filtering = situation.settings.flag("data.filter_overlong_prompts")
    fate, severe = _fate(situation, everything=len(over) == len(measured.lengths))
    yield Finding(
        check=_CHECK,
        severity="error" if severe else "warning",
        what=f"{key}: {share} have more than data.max_prompt_length={limit:g} tokens; "
        f"the longest has {longest:,} ({where})",
        why=fate,
        todo=f"data.max_prompt_length={longest} takes the longest of these{'' if filtering else _FILTER}",
    )


def kept_share(measured: Measured, situation: Situation) -> float:
    """The share of prompts that data.filter_overlong_prompts leaves; all of them where it is off."""
    limit = situation.settings.number("data.max_prompt_length")
    if limit is None or not measured.lengths or not situation.settings.flag("data.filter_overlong_prompts"):
        return 1.0
    return sum(tokens <= limit for tokens, _ in measured.lengths) / len(measured.lengths)


def _fate(situation: Situation, *, everything: bool) -> tuple[str, bool]:
    """What this release does with a prompt that is too long, and whether that stops or spoils the training.

    0.5.0 and 0.6.1: rl_dataset.py __getitem__ obeys data.truncation. From 0.7 nothing reads it: 0.7.1 pads without
    cutting and then stacks rows of unequal length, 0.8.0 and 0.9.1 keep the last tokens (experimental/agent_loop/
    agent_loop.py).
    """
    settings, release = situation.settings, situation.release
    truncation = settings.get("data.truncation")
    if settings.flag("data.filter_overlong_prompts"):
        left = "none is left, and verl ends with num_samples=0" if everything else "the others are trained on"
        return f"data.filter_overlong_prompts is on: verl drops them; {left}", everything
    if release is not None and release < (0, 7):
        if truncation == "error":
            return "with data.truncation=error verl stops at the first of them, in the middle of the training", True
        return (
            f"with data.truncation={truncation} verl cuts them and trains on what is left of the question",
            everything,
        )
    if release is not None and release < (0, 8):
        return (
            "this verl pads prompts to that length and cuts none: it fails when it stacks rows of unequal length",
            True,
        )
    lost = "cuts off the beginning, system prompt first, and trains on the rest without an error"
    return f"this verl does not read data.truncation: it {lost}", everything

"""Counts: rows against data.train_batch_size, and whether there is a row to validate on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.preflight.situation import Situation

_CHECK = "data-rows"


def train_findings(rows: int, situation: Situation, *, kept: float) -> Iterator[Finding]:
    """`kept` is the share of the sample's prompts that data.filter_overlong_prompts leaves."""
    if not rows:
        yield _empty("data.train_files")
        return
    settings = situation.settings
    most = settings.number("data.train_max_samples")
    taken = min(rows, int(most)) if most is not None and most > 0 else rows
    held = f"data.train_files holds {rows:,} rows"
    held += f", of which data.train_max_samples={taken:,} takes {taken:,}" if taken < rows else ""
    for key in _batch_keys(situation):
        batch = settings.number(key)
        if batch is None:
            continue
        more = _more(rows, taken, batch)
        if taken < batch:
            yield _too_few(held, f"{key}={batch:g}", situation, severe=True, more=more)
        elif 0 < taken * kept < batch:
            word = "of these" if taken < rows else "of which"
            left = f"{held}, {word} data.filter_overlong_prompts leaves about {int(taken * kept):,}"
            yield _too_few(left, f"{key}={batch:g}", situation, severe=False, more=more)


def _more(rows: int, taken: int, batch: float) -> str:
    if taken == rows:
        return "give more data"
    return "raise data.train_max_samples" if rows >= batch else "give more data and raise data.train_max_samples"


def val_findings(rows: int) -> Iterator[Finding]:
    if not rows:
        yield _empty("data.val_files")


def _batch_keys(situation: Situation) -> tuple[str, ...]:
    """What the loader and the trainer take at a time, dropping what is left over.

    The trainer of 0.9 divides by the steps of an epoch, rows // train_batch_size (trainer/ppo/v1/trainer_base.py);
    the ones before only load gen_batch_size, where it is given, else train_batch_size (trainer/ppo/ray_trainer.py).
    """
    given = situation.settings.number("data.gen_batch_size") is not None
    new = situation.release is None or situation.release >= (0, 9)
    if new and situation.settings.get("trainer.use_v1") is not False:
        return ("data.train_batch_size", "data.gen_batch_size")
    return ("data.gen_batch_size",) if given else ("data.train_batch_size",)


def _empty(key: str) -> Finding:
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{key} holds no row",
        why="verl cannot load an empty file, and needs at least one row to train on and one to validate on",
        todo="give a file with rows",
    )


def _too_few(held: str, batch: str, situation: Situation, *, severe: bool, more: str) -> Finding:
    new = situation.release is None or situation.release >= (0, 9)
    error = "ZeroDivisionError after all workers are built" if new else "AssertionError: Train dataloader is empty!"
    return Finding(
        check=_CHECK,
        severity="error" if severe else "warning",
        what=f"{held}, and {batch}",
        why=f"verl drops a batch that is not full: without a full one it ends with {error}",
        todo=f"lower data.train_batch_size (and actor_rollout_ref.actor.ppo_mini_batch_size with it), or {more}",
    )

"""Context: whether prompt and response together fit the model's context and the rollout's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.entrypoint.document import read_object
from bake.entrypoint.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bake.entrypoint.preflight.situation import Situation

_CHECK = "data-lengths"
_ROLLOUT = "actor_rollout_ref.rollout.max_model_len"


def context_findings(situation: Situation) -> Iterator[Finding]:
    """data.max_prompt_length + data.max_response_length against max_position_embeddings and rollout.max_model_len.

    Up to 0.6 verl asserts that the sum fits the model (workers/rollout/vllm_rollout/vllm_rollout_spmd.py), with the
    factor of rope_scaling. From 0.7 it asserts that max_model_len does, which is the model's where it is not given,
    and cuts responses short at max_model_len (vllm_async_server.py, async_sglang_server.py).
    """
    settings, release = situation.settings, situation.release
    prompt, response = settings.number("data.max_prompt_length"), settings.number("data.max_response_length")
    model = _positions(situation)
    if prompt is None or response is None or model is None:
        return
    length = settings.number(_ROLLOUT)
    asked = f"data.max_prompt_length={prompt:g} + data.max_response_length={response:g}"
    old = release is not None and release < (0, 7)
    if old and prompt + response > model:
        yield _too_long(asked, total=prompt + response, model=model)
    elif not old and length is not None and length > model:
        yield _beyond(length, model)
    elif not old and prompt + response > (room := model if length is None else length):
        yield _cut(asked, total=prompt + response, room=room, given=length is not None)


def _positions(situation: Situation) -> float | None:
    """The model's context in tokens: config.json, or what override_config puts in its place."""
    actor = situation.model("actor")
    if actor is None:
        return None
    own = situation.settings.number("actor_rollout_ref.model.override_config.max_position_embeddings")
    config = read_object(situation.folder(actor) / "config.json")
    inner = config.get("text_config")
    inner = inner if isinstance(inner, dict) else {}
    found = own or config.get("max_position_embeddings") or inner.get("max_position_embeddings")
    if not isinstance(found, (int, float)) or isinstance(found, bool):
        return None
    return found * (_factor(config) if situation.release is not None and situation.release < (0, 7) else 1)


def _factor(config: Mapping[str, Any]) -> float:
    scaling = config.get("rope_scaling")
    factor = scaling.get("factor") if isinstance(scaling, dict) else None
    return factor if isinstance(factor, (int, float)) and not isinstance(factor, bool) else 1.0


def _too_long(asked: str, *, total: float, model: float) -> Finding:
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{asked} are {total:g} tokens, and the model's context holds {model:g}",
        why="verl asserts that the model's context holds both, once the workers are built",
        todo=f"lower one of them, so that both are at most {model:g} together",
    )


def _beyond(length: float, model: float) -> Finding:
    return Finding(
        check=_CHECK,
        severity="error",
        what=f"{_ROLLOUT}={length:g}, and the model's context holds {model:g} tokens",
        why="verl raises ValueError for it when the rollout servers start, after the weights are loaded",
        todo=f"leave {_ROLLOUT} out, or give at most {model:g}",
    )


def _cut(asked: str, *, total: float, room: float, given: bool) -> Finding:
    name = _ROLLOUT if given else "the model's context"
    return Finding(
        check=_CHECK,
        severity="warning",
        what=f"{asked} are {total:g} tokens, and {name} holds {room:g}",
        why="verl cuts the answers to long prompts short without a word, and trains on answers that never ended",
        todo=f"lower one of them, so that both are at most {room:g} together",
    )

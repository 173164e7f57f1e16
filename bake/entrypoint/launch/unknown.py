"""Unknown: what a person may have meant by a key that the verl at hand does not have, ready to be typed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from bake.entrypoint.launch.given import leaves, overlap
from bake.entrypoint.launch.installed import MEGATRON_CONFIG_NAME
from bake.entrypoint.launch.names import LEGACY_REWARD, here, removed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bake.entrypoint.launch.given import Given
    from bake.entrypoint.launch.installed import Installed
    from bake.entrypoint.launch.refusal import Refusal
    from bake.entrypoint.settings import Settings

_ENGINES = ("megatron", "veomni", "torchtitan", "mindspeed")
_OPEN = ("engine_kwargs.vllm", "engine_kwargs.sglang", "override_config", "ray_kwargs.ray_init")
"""Where verl passes on whatever it is given, and lists only some of it."""


def unknown(stock: Settings, choice: Given, installed: Installed, *, at: str) -> Refusal:
    """`at` is where the configuration ends: the key itself, or one that should hold it."""
    key, value = next(((key, value) for key, value in choice.leaves() if overlap(key, at)), (choice.key, None))
    why = f"{installed} has no key {key}"
    if choice.how == "delete":
        return choice.refuse(why, "leave it out: there is nothing to delete")
    if (other := here(key, stock.has)) != key:
        return choice.refuse(why, f"write {other}={as_typed(choice, value)}")
    if gone := removed(key, installed.since):
        return choice.refuse(f"{why}; {gone}", "leave it out")
    if engine := _of_other_engine(stock, key, installed):
        return choice.refuse(f"{why} in this configuration: {engine[0]}", engine[1])
    return choice.refuse(why, _instead(stock, choice, key, as_typed(choice, value)))


def _of_other_engine(stock: Settings, key: str, installed: Installed) -> tuple[str, str] | None:
    """Each training engine has keys of its own, in its own configuration: FSDP's, unless another is chosen."""
    words = set(key.split("."))
    chosen = stock.get("model_engine")
    engine = next((name for name in _ENGINES if name in words and not stock.has(f"actor_rollout_ref.actor.{name}")), "")
    if engine == "megatron" and not installed.since(0, 8):
        return "it comes with Megatron's", f"add --config-name={MEGATRON_CONFIG_NAME}, or leave this out"
    if engine and (installed.configuration / f"model_engine/{engine}.yaml").is_file():
        return f"it comes with {engine}'s", f"add model_engine={engine}, or leave this out"
    if {"fsdp_config", "fsdp"} & words and not stock.has("actor_rollout_ref.actor.fsdp_config"):
        return f"it comes with FSDP's, and {chosen or 'megatron'} was chosen", "leave it out"
    return None


def _instead(stock: Settings, choice: Given, key: str, text: str) -> str:
    parent = key.rpartition(".")[0]
    if stock.get(parent) == {} or parent.endswith(_OPEN):
        return f"write +{key}={text}: {parent} takes any key, and + adds one"
    legacy = LEGACY_REWARD if stock.has("reward.reward_model") else ()
    names = [name for name, _ in leaves(stock.tree) if name.partition(".")[0] not in legacy]
    if near := nearest(key, names):
        return f"did you mean {' or '.join(f'{name}={text}' for name in near)}?"
    return f"see verl's keys with `train --cfg job`; a key that your own code reads takes a +: +{choice.text}"


def as_typed(choice: Given, value: Any) -> str:
    return str(value) if isinstance(choice.value, dict) else choice.raw


def nearest(key: str, keys: Sequence[str]) -> tuple[str, ...]:
    """Up to three keys that may be meant: their last word is the same or spelled alike, the headings most alike."""
    last = key.rpartition(".")[2]
    by_last: dict[str, list[str]] = {}
    for name in keys:
        by_last.setdefault(name.rpartition(".")[2], []).append(name)
    alike = difflib.get_close_matches(last, by_last, n=1, cutoff=0.8)
    return tuple(difflib.get_close_matches(key, by_last[alike[0]], n=3, cutoff=0.0)) if alike else ()

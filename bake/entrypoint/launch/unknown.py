"""Unknown: what a person may have meant by a key that the verl at hand does not have, ready to be typed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from bake.entrypoint.launch import shell
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
        return choice.refuse(why, f"write {as_typed(choice, other, value)}")
    if gone := removed(key, installed.since):
        return choice.refuse(f"{why}; {gone}", "leave it out")
    if engine := _of_other_engine(stock, key, installed):
        return choice.refuse(f"{why} in this configuration: {engine[0]}", engine[1])
    return choice.refuse(why, _instead(stock, choice, key, value))


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


def _instead(stock: Settings, choice: Given, key: str, value: Any) -> str:
    parent = key.rpartition(".")[0]
    if takes_any(stock, key):
        return f"write {as_typed(choice, f'+{key}', value)}: {parent} takes any key, and + adds one"
    legacy = LEGACY_REWARD if stock.has("reward.reward_model") else ()
    names = [name for name, _ in leaves(stock.tree) if name.partition(".")[0] not in legacy]
    if near := nearest(key, names):
        return f"did you mean {' or '.join(as_typed(choice, name, value) for name in near)}?"
    own = shell.word(f"+{choice.text}")
    return f"see verl's keys with `train --cfg job`; a key that your own code reads takes a +: {own}"


def takes_any(stock: Settings, key: str) -> bool:
    """Whether verl passes on whatever stands where the key does, or below."""
    parents = [key[:at] for at, letter in enumerate(key) if letter == "."]
    return any(stock.get(parent) == {} or parent.endswith(_OPEN) for parent in parents)


def as_typed(choice: Given, key: str, value: Any) -> str:
    """The value as it was typed, for another key; one out of a mapping, as Hydra reads it back."""
    return shell.override(key, value) if isinstance(choice.value, dict) else shell.word(f"{key}={choice.raw}")


def nearest(key: str, keys: Sequence[str]) -> tuple[str, ...]:
    """Up to three keys that may be meant: their last word is the same or spelled alike, the headings most alike; else
    they share parts of the last word, as total_epochs with epochs, below the same heading if there are any.
    """
    last = key.rpartition(".")[2]
    by_last: dict[str, list[str]] = {}
    for name in keys:
        by_last.setdefault(name.rpartition(".")[2], []).append(name)
    alike = difflib.get_close_matches(last, by_last, n=1, cutoff=0.8)
    return _most_alike(key, by_last[alike[0]]) if alike else _sharing(key, keys)


def _sharing(key: str, keys: Sequence[str]) -> tuple[str, ...]:
    """Keys of other headings only where they hold every part."""
    heading, _, last = key.rpartition(".")
    parts = _parts(last)
    shared = [(len(parts & _parts(name.rpartition(".")[2])), name) for name in keys]
    beside = [(count, name) for count, name in shared if count and name.rpartition(".")[0] == heading]
    found = beside or [(count, name) for count, name in shared if count and count == len(parts)]
    most = max((count for count, _ in found), default=0)
    return _most_alike(key, [name for count, name in found if count == most])


def _parts(last: str) -> set[str]:
    """`n_gpus_per_node` is about gpu and node: a part in the singular, without those that say nothing."""
    return {part.removesuffix("s") for part in last.lower().split("_") if len(part) > 2} - {"per", "max", "min", "use"}


def _most_alike(key: str, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(difflib.get_close_matches(key, keys, n=3, cutoff=0.0))

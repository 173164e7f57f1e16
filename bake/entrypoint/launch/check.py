"""Check: every override that Hydra or verl would refuse, ignore in silence, or fail on an hour later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.entrypoint.launch import shell
from bake.entrypoint.launch.given import IN_FILE, last_of, leaves
from bake.entrypoint.launch.installed import MEGATRON_CONFIG_NAME
from bake.entrypoint.launch.names import GUIDES, LEGACY_REWARD, guide, here, others, serves_reward
from bake.entrypoint.launch.refusal import Refusal
from bake.entrypoint.launch.unknown import as_typed, takes_any, unknown
from bake.entrypoint.settings import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bake.entrypoint.launch.composed import Composed
    from bake.entrypoint.launch.given import Given
    from bake.entrypoint.launch.installed import Installed
    from bake.entrypoint.launch.names import Guide
    from bake.entrypoint.settings import Settings


def put_all(composed: Composed, given: Sequence[Given], installed: Installed) -> Iterator[Refusal]:
    """Put each override on the configuration, in their order, or say why it cannot be."""
    for choice in given:
        told = list(_before(composed.stock, choice, installed))
        yield from told
        if not told and (refusal := _put(composed, choice, installed)):
            yield refusal


def missing(settings: Settings) -> Iterator[Refusal]:
    """What verl's configuration leaves open (`???`) and nobody gave. A reward model's only where one is enabled."""
    for key, value in leaves(settings.tree):
        if value != MISSING or (key.startswith("reward.reward_model.") and not serves_reward(settings)):
            continue
        why = "verl has no default for it"
        if key.endswith("rollout.name"):
            why = "verl generates with vllm or sglang, and this image has neither"
        yield Refusal(text=key, source="not given", why=why, todo=f"give {key}=…")


def lost(composed: Composed, given: Sequence[Given], keys: Iterable[str]) -> Iterator[Refusal]:
    """Each of `keys`, which a person gave, whose interpolation leads nowhere: verl resolves all when it starts."""
    for key in sorted(keys):
        if key.startswith("hydra.") or (said := composed.lost(key)) is None:
            continue  # Hydra fills in its own when it starts, as hydra.runtime.output_dir
        last = last_of(given, key)
        yield Refusal(
            text=last.text if last else key,
            source=last.source if last else IN_FILE,
            why=f"{key}: {said}",
            todo="name a key that is there, set the variable (docker run -e NAME=…), or write the value itself",
        )


def unlisted(stock: Settings, given: Sequence[Given]) -> Iterator[str]:
    """A note for each key with a + that verl's configuration does not list, where it lists all that it reads."""
    read = {key.lstrip("+") for named in GUIDES.values() for keys in named.keys for key in keys}
    for choice in given:
        for key, _ in choice.leaves() if choice.how in ("add", "force") else ():
            if not (stock.has(key) or key in read or takes_any(stock, key)):
                yield f"{choice.source}: {key}: verl does not list it, and may not read it"


def joined_ray(settings: Settings, given: Sequence[Given], environ: Mapping[str, str]) -> Iterator[Refusal]:
    """Ray refuses CPUs and GPUs for a cluster that runs already, and only after verl has started (seen with 2.60)."""
    address = environ.get("RAY_ADDRESS", "local")
    for name in ("num_cpus", "num_gpus"):
        key = here(f"ray_kwargs.ray_init.{name}", settings.has)
        if address == "local" or settings.get(key) is None:
            continue
        last = last_of(given, key)
        yield Refusal(
            text=last.text if last else f"{key}: {settings.get(key)}",
            source=last.source if last else IN_FILE,
            why=f"Ray runs already (RAY_ADDRESS={address}), and who joins it cannot say how large it is",
            todo="leave it out, and give --num-cpus or --num-gpus where Ray is started",
        )


def _before(stock: Settings, choice: Given, installed: Installed) -> Iterator[Refusal]:
    """What is wrong with an override by itself."""
    if choice.package is not None:
        yield choice.refuse(f"{installed} has no group {choice.key}, and @ chooses one of a group", "leave @ out")
    elif (named := _named(stock, choice)) is not None:
        yield _guided(stock, choice, named)
    elif choice.key == "model_engine" and not stock.has("model_engine"):
        why = f"{installed} has no model_engine"
        if choice.value == "megatron":
            yield choice.refuse(why, f"write --config-name={MEGATRON_CONFIG_NAME} instead")
        else:
            yield choice.refuse(why, "leave it out: FSDP is what the default configuration trains with")
    elif installed.since(0, 9) and choice.key.partition(".")[0] in LEGACY_REWARD:
        yield from _ignored(stock, choice, installed)
    else:
        yield from _wrong_kinds(stock, choice)


def _named(stock: Settings, choice: Given) -> Guide | None:
    """With a + a key may be anybody's own, so that only the guides' very names are refused."""
    if stock.has(choice.key):
        return None
    return guide(choice.key) if choice.how == "change" else GUIDES.get(choice.key)


def _guided(stock: Settings, choice: Given, named: Guide) -> Refusal:
    keys = [
        next((key for key in alternatives if key.startswith("+") or stock.has(key)), alternatives[0])
        for alternatives in named.keys
    ]
    value = choice.raw if named.value is None else named.value
    todo = f"write {' '.join(shell.word(f'{key}={value}') for key in keys)}" if keys else "leave it out"
    return choice.refuse(f"verl has no such key{'; ' if named.why else ''}{named.why}", todo)


def _ignored(stock: Settings, choice: Given, installed: Installed) -> Iterator[Refusal]:
    for key, value in choice.leaves():
        if value is None:
            continue
        todo = "leave it out"
        for newer in others(key):
            if newer.startswith("reward."):
                plus = "" if stock.has(newer) else "+"
                todo = f"write {as_typed(choice, plus + newer, value)}"
        yield choice.refuse(f"{installed} never reads {key}", todo)


def _wrong_kinds(stock: Settings, choice: Given) -> Iterator[Refusal]:
    """verl's configuration is untyped, so that Hydra lets a text through where verl then computes with a number."""
    for key, value in choice.leaves():
        if above := _plain_above(stock, key):
            yield choice.refuse(f"{above} is one value, and holds no keys", f"write {above}=…")
        default = stock.get(key)
        kind = _kind(default)
        if kind is not None and value is not None and choice.how != "delete" and not _fits(value, default):
            wanted, todo = kind
            yield choice.refuse(f"{key}: expected {wanted}, found {value!r}", todo.format(key=key, default=default))


def _plain_above(stock: Settings, key: str) -> str | None:
    """What a key would lie in that holds no keys: with a + Hydra puts a mapping in its place."""
    parts = key.split(".")
    heads = (".".join(parts[:count]) for count in range(1, len(parts)))
    found = ((head, stock.get(head)) for head in heads)
    return next((head for head, value in found if isinstance(value, (bool, int, float, list)) or _is_text(value)), None)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "${" not in value


def _kind(default: Any) -> tuple[str, str] | None:
    """What a value must be where verl has this default, and what to type."""
    if isinstance(default, bool):
        return "true or false", "write {key}=true or {key}=false"
    if isinstance(default, (int, float)):
        return "a number", "write a number, as verl's own {key}={default}"
    if isinstance(default, dict) and default:
        return "several keys", f"set one key in it, as {{key}}.{next(iter(default))}=…"
    return None


def _fits(value: Any, default: Any) -> bool:
    if isinstance(value, str) and "${" in value:
        return True
    if isinstance(default, dict):
        return isinstance(value, dict)
    return isinstance(value, (bool, int, float)) if isinstance(default, bool) else _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _put(composed: Composed, choice: Given, installed: Installed) -> Refusal | None:
    """An override with a + too many is put on all the same, so that what it does can be checked."""
    from omegaconf.errors import ConfigAttributeError, OmegaConfBaseException

    plural = isinstance(choice.value, (dict, list))
    many = choice.how == "add" and not plural and composed.holds(choice.key)
    try:
        composed.put(choice)
    except (ConfigAttributeError, LookupError) as error:  # ConfigKeyError is a LookupError
        return unknown(composed.stock, choice, installed, at=str(getattr(error, "full_key", choice.key)))
    except OmegaConfBaseException as error:
        return choice.refuse(str(error).partition("\n")[0], "see what the key holds with `train --cfg job`")
    return (
        choice.refuse("the key is there already, and + adds a new one", f"write {shell.word(choice.text[1:])}")
        if many
        else None
    )

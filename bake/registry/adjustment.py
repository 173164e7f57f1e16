"""Adjustment: what somebody says of a registry, where its profile is wrong or its host tells nothing.

It is written `[NAME,]KEY=VALUE,…`, as in `ghcr,layer=20GB,parallel=2`: a profile to start from, and what is otherwise.
BAKE_REGISTRY_PROFILE holds several, each with its host before it: `registry.example:5000:harbor,body=100MB HOST:…`.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from bake.errors import UsageError
from bake.registry.profiles import CLOUDFLARE, GENERIC, PROFILES, Profile
from bake.units import count_text, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_T = TypeVar("_T")

VARIABLE = "BAKE_REGISTRY_PROFILE"

MOST_AT_ONCE = 8
"""Uploads that may go at once: as many as there are threads for what waits for the network (bake.api.workers)."""

NAMES: Mapping[str, Profile] = {
    "generic": GENERIC,
    **{profile.name.lower().replace(" ", "-"): profile for profile in (*PROFILES, CLOUDFLARE)},
}
"""What a profile is called where one is asked for."""

_FORM = "[NAME,]KEY=VALUE,…, as in ghcr,layer=20GB,parallel=2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """`like` is the profile to start from, the registry's own if None; `changes` are fields of it with their values.

    `source` is who says so, as in `--registry-profile`.
    """

    source: str
    like: Profile | None = None
    changes: tuple[tuple[str, int | bool | None], ...] = ()

    @classmethod
    def parse(cls, text: str, *, source: str) -> Adjustment:
        """Read one adjustment. Raises UsageError with all that is wrong with it."""
        adjustment, faults = _read(text, source=source)
        if faults:
            raise _refused(source, faults, form=_FORM)
        return adjustment

    def of(self, profile: Profile) -> Profile:
        """The profile as it is adjusted. A chunk is the body of a request too: it is never larger than one may be."""
        before = self.like or profile
        changes: dict[str, Any] = dict(self.changes)
        after = replace(before, name=f"{before.name} (as {self.source} says)", **changes)
        return after if after.put_bytes is None else replace(after, chunk_bytes=min(after.chunk_bytes, after.put_bytes))


def environment_adjustment(host: str) -> Adjustment | None:
    """What BAKE_REGISTRY_PROFILE says of a host. Raises UsageError with all that is wrong with the whole of it."""
    return parse_hosts(os.environ.get(VARIABLE, "")).get(host.lower())


def parse_hosts(text: str) -> dict[str, Adjustment]:
    """`HOST[:PORT]:ADJUSTMENT …`, by host. Raises UsageError."""
    found: dict[str, Adjustment] = {}
    faults: list[str] = []
    for entry in text.split():
        host, _, rest = entry.rpartition(":")
        if not host or host.lower() in found:
            faults.append(f"{entry!r}: {'this host is named twice' if host else 'expected HOST: before it'}")
            continue
        found[host.lower()], wrong = _read(rest, source=VARIABLE)
        faults += [f"{host}: {fault}" for fault in wrong]
    if faults:
        raise _refused(VARIABLE, faults, form=f"HOST[:PORT]:{_FORM}")
    return found


def _read(text: str, *, source: str) -> tuple[Adjustment, list[str]]:
    """An adjustment as far as it can be read, and what is wrong with the rest."""
    found: dict[str, Any] = {}
    faults: list[str] = []
    for word in (word.strip() for word in text.split(",")):
        try:
            field, value = _setting(word)
        except ValueError as error:
            faults.append(f"{word!r}: {error}")
            continue
        if field in found:
            faults.append(f"{word!r}: another {'profile' if field == 'like' else 'value for it'} stands before")
        found[field] = value
    like = found.pop("like", None)
    return Adjustment(source=source, like=like, changes=tuple(found.items())), faults


def _setting(word: str) -> tuple[str, Profile | int | bool | None]:
    """What a word sets, and to what: `like` to a profile, or a field of one to a value. Raises ValueError."""
    key, equals, value = (part.strip() for part in word.partition("="))
    if not equals:
        return "like", _named(key, NAMES, what="profile")
    field, parse = _named(key, KEYS, what="key")
    return field, parse(value)


def _named(name: str, known: Mapping[str, _T], *, what: str) -> _T:
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    raise ValueError(f"no such {what}; {f'did you mean {near[0]}?' if near else f'there are {_listed(known)}'}")


def _refused(source: str, faults: list[str], *, form: str) -> UsageError:
    told = "\n  ".join([f"{source}: {count_text(len(faults), 'fault')}:", *faults])
    return UsageError(told, hint=f"it is written {form}; docs/registries.md has the names and keys")


def _limit(parse: Callable[[str], int]) -> Callable[[str], int | None]:
    return lambda text: None if text == "none" else parse(text)


def _count(text: str) -> int:
    if text.isdecimal() and 1 <= int(text) <= MOST_AT_ONCE:
        return int(text)
    raise ValueError(f"expected a number from 1 to {MOST_AT_ONCE}")


def _yes(text: str) -> bool:
    if text in {"yes", "no"}:
        return text == "yes"
    raise ValueError("expected yes or no")


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}"


KEYS: Mapping[str, tuple[str, Callable[[str], int | bool | None]]] = {
    "layer": ("max_layer_bytes", _limit(parse_size)),
    "body": ("put_bytes", _limit(parse_size)),
    "chunk": ("chunk_bytes", parse_size),
    "time": ("upload_seconds", _limit(parse_time)),
    "parallel": ("parallel", _count),
    "resumable": ("resumable", _yes),
    "creates": ("creates", _yes),
}
"""By what a person types: the field of a profile, and what reads its value or raises ValueError."""

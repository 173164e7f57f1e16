"""Refusal: what it means when a registry does not do what was asked, and what to do then.

What failed while an image was pushed is an OutputError (exit 7); while a base was read, a SourceError (4) where it may
not be read, and an ImageError (8) where it is not there. Every message carries the registry's own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

from bake.errors import BakeError, DigestError, ImageError, NetworkError, OutputError, SourceError
from bake.patience import TransientError
from bake.registry.words import said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.registry.answer import Answer
    from bake.registry.credentials import Login
    from bake.registry.profiles import Profile
    from bake.registry.reference import Reference

Access = Literal["pull", "push"]

_PASSING = frozenset({408, 425, 429})
NOT_THE_SAME = "what a digest names never changes: check what answers in the registry's place"
_WRONG_BYTES = frozenset({"DIGEST_INVALID", "SIZE_INVALID"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """Whom a message is about: the repository, what it was opened for, and the login that was found for it."""

    reference: Reference
    access: Access
    login: Login
    profile: Profile

    @property
    def name(self) -> str:
        return self.reference.name

    def error(self, message: str, *, hint: str | None = None) -> BakeError:
        """A refusal of the kind that the caller's purpose makes it."""
        return (OutputError if self.access == "push" else SourceError)(message, hint=hint)

    def secrets(self) -> tuple[str, ...]:
        return self.login.credentials.secrets() if self.login.credentials else ()


def refusal(party: Party, what: str, answer: Answer, *, elsewhere: bool = False) -> BakeError | TransientError:
    """What to raise for an answer that is not one of those hoped for. `what` is what was asked for, in words.

    `elsewhere` says that it is not the registry's own, but that of a host to which it led.
    """
    words = said(answer.body, party.secrets())
    told = f"{answer.host} answered {answer.status}{f' ({words})' if words else ''}"
    if is_passing(answer.status):
        return TransientError(told, wait=asked_wait(answer.headers), hint=_hint(party, answer.status))
    if elsewhere:  # a signed URL ran out, or is not what it was: the registry signs another
        return TransientError(told)
    if answer.status in {401, 403}:
        return denied(party, words)
    if answer.status == 404:
        return _missing(party, what, words)
    if answer.status == 416:
        return DigestError(f"{party.name}: {what}: expected more bytes than {answer.host} has", hint=NOT_THE_SAME)
    if answer.codes & _WRONG_BYTES:
        return DigestError(f"{party.name}: {what}: {told}", hint="the bytes that arrived are not those that it names")
    if answer.status == 413:
        return too_large(party, what, answer)
    return party.error(f"{party.name}: {what}: {told}")


def is_passing(status: int) -> bool:
    """Whether the same request may do better later."""
    return status in _PASSING or (status >= 500 and status != 501)


def denied(party: Party, words: str) -> BakeError:
    """Neither the login that there is, nor the lack of one, opens the repository."""
    host, login = party.reference.host, party.login
    told = f": {words}" if words else ""
    doing = "push to" if party.access == "push" else "read"
    if login.credentials is not None:
        return party.error(
            f"{host} does not let the login in {login.credentials.origin} {doing} {party.reference.repository}{told}",
            hint=f"docker login {host}, with an account or a token that may {doing} it",
        )
    if login.note is not None:
        return party.error(
            f"{host} lets no stranger {doing} {party.reference.repository}{told}; {login.note}",
            hint=f"mend that, or docker login {host}",
        )
    return party.error(
        f"{host} lets no stranger {doing} {party.reference.repository}{told}", hint=f"docker login {host}"
    )


def too_large(party: Party, what: str, answer: Answer, *, at_once: str | None = None) -> BakeError:
    """A body that the registry, or a proxy in front of it, does not take. `at_once` is the least that was tried."""
    words = said(answer.body, party.secrets())
    size = f"{at_once} at once" if at_once else "it"
    return party.error(
        f"{party.name}: {what}: too large: {answer.host} does not take {size}, and answered {answer.status}"
        f"{f' ({words})' if words else ''}",
        hint="raise the limit of the registry, or of the proxy in front of it (nginx: client_max_body_size 0)",
    )


def not_a_registry(party: Party, what: str) -> NetworkError:
    return NetworkError(
        f"{party.name}: {what}: {party.reference.host} answered with something other than a registry's answer",
        hint="check the host's name, and whether a proxy or a login page answers in its place",
    )


def _missing(party: Party, what: str, words: str) -> BakeError:
    told = f" ({words})" if words else ""
    if party.access == "pull":
        return ImageError(f"{party.name}: the registry has no {what}{told}", hint="check name, tag and digest")
    hint = None if party.profile.creates else f"create the repository {party.reference.repository} there first"
    return OutputError(f"{party.name}: {what}: the registry has no place for it{told}", hint=hint)


def _hint(party: Party, status: int) -> str | None:
    if status == 429 and party.login.credentials is None:
        return f"wait a while; a user may ask more often than a stranger: docker login {party.reference.host}"
    return "wait a while" if party.access == "push" else None


def asked_wait(headers: Mapping[str, str]) -> float:
    """Seconds that Retry-After asks to wait, given as seconds or as a date (RFC 9110, section 10.2.3); else 0."""
    from email.utils import parsedate_to_datetime

    asked = headers.get("retry-after", "").strip()
    if asked.isdecimal():
        return float(asked)
    try:
        return max((parsedate_to_datetime(asked) - datetime.now(timezone.utc)).total_seconds(), 0.0)
    except (ValueError, TypeError):  # TypeError: a date without a time zone
        return 0.0

"""Opening: find out how a registry is spoken to, by the one request that needs no repository (GET /v2/, end-1)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bake.errors import NetworkError
from bake.patience import Attempts, TransientError
from bake.registry.answer import Answer, read_answer
from bake.registry.network import NoTlsError
from bake.registry.reference import DOCKER_HUB, is_loopback
from bake.registry.refusal import asked_wait, is_passing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bake.patience import Patience
    from bake.registry.network import Network

_HUB_HOST = "registry-1.docker.io"


def find_origin(host: str, *, network: Network, patience: Patience, plain_http: bool) -> tuple[str, Answer]:
    """A registry's origin, and what it answered to a stranger. Raises NetworkError.

    TLS it is, but on loopback, where plain HTTP is tried first, and where plain HTTP was asked for.
    """
    attempts = Attempts(patience, "the registry cannot be reached")
    while True:
        with attempts.once():
            origin, answer = _knock(_origins(host, plain_http=plain_http), network)
            if is_passing(answer.status):
                raise TransientError(f"{answer.host} answered {answer.status}", wait=asked_wait(answer.headers))
            if answer.status == 404:
                raise NetworkError(
                    f"{host} is no registry: it has no /v2/", hint="check the host's name; the path is no part of it"
                )
            return origin, answer


def may_be_plain(host: str) -> bool:
    """Whether BAKE_PLAIN_HTTP, which is `HOST[:PORT],…`, names a registry that has no TLS."""
    return host in [name.strip() for name in os.environ.get("BAKE_PLAIN_HTTP", "").split(",")]


def _origins(host: str, *, plain_http: bool) -> Sequence[str]:
    if plain_http:
        return (f"http://{host}",)
    if is_loopback(host):
        return (f"http://{host}", f"https://{host}")
    return (f"https://{_HUB_HOST if host == DOCKER_HUB else host}",)


def _knock(origins: Sequence[str], network: Network) -> tuple[str, Answer]:
    """The first origin that answers as a registry would; a server of TLS answers plain HTTP with 400, or hangs up.

    A server without TLS that only failed to answer in time is no server of TLS: that failure counts.
    """
    failed: TransientError | None = None
    for origin in origins[:-1]:
        try:
            answer = _get(origin, network)
        except TransientError as error:
            failed = error
            continue
        if answer.status != 400:
            return origin, answer
    try:
        return origins[-1], _get(origins[-1], network)
    except NoTlsError as error:
        raise failed or error from None


def _get(origin: str, network: Network) -> Answer:
    url = f"{origin}/v2/"
    return read_answer(network.send("GET", url), url)

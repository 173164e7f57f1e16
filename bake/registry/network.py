"""Network: proxies, certificates and connections, as the environment says. HTTP/1.1, one pool of connections a host.

urllib3 and ssl are imported at the first request: they take longer than all of bake to start. Redirects and retries are
not urllib3's business here: credentials must not follow the one, and the other must know where an upload stands.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from bake import __version__
from bake.errors import NetworkError, UsageError
from bake.patience import TransientError
from bake.registry.reference import is_loopback
from bake.registry.words import redact

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Mapping

    from urllib3 import BaseHTTPResponse, PoolManager

_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_DOCKER_CERTIFICATES = Path("/etc/docker/certs.d")
_OWN = {"user-agent": f"bake/{__version__}", "accept-encoding": "identity"}
"""A body comes as it is stored, since a compressed one can be neither proven nor continued."""

_REACH = "check the network and the proxy settings (HTTPS_PROXY, NO_PROXY)"


class NoTlsError(NetworkError):
    """A host that was spoken to over TLS answers without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds to wait for a connection, which is also how long a piece of a body may take to leave; and for an answer.

    A registry reads a whole blob anew before it answers the last request of an upload (moby/buildkit#4130), so that
    the second is long.
    """

    connect: float = 30.0
    answer: float = 300.0


class Network:
    """Connections to hosts. May be used from any thread."""

    def __init__(self, host: str, *, connections: int, timeouts: Timeouts) -> None:
        """`host` is the registry's, whose certificates Docker may keep. Raises UsageError."""
        self._context = _trust(host)
        self._connections = connections
        self._timeouts = timeouts
        self._pools: dict[str | None, PoolManager] = {}
        self._making = threading.Lock()

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Iterable[bytes | memoryview] | None = None,
    ) -> BaseHTTPResponse:
        """One request; the caller closes the answer, whose body is unread.

        Raises TransientError where there is no answer, and NetworkError where there will be none.
        """
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        try:
            return self._pool(proxy_of(url)).urlopen(
                method,
                url,
                headers=_OWN | dict(headers or {}),
                body=body,
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
                timeout=Timeout(connect=self._timeouts.connect, read=self._timeouts.answer),
            )
        except HTTPError as error:
            raise unreached(url, error) from error

    def close(self) -> None:
        for pool in self._pools.values():
            pool.clear()

    def _pool(self, proxy: str | None) -> PoolManager:
        with self._making:
            if proxy not in self._pools:
                self._pools[proxy] = self._make_pool(proxy)
            return self._pools[proxy]

    def _make_pool(self, proxy: str | None) -> PoolManager:
        from urllib3 import PoolManager, ProxyManager, make_headers
        from urllib3.connection import HTTPConnection
        from urllib3.exceptions import HTTPError

        options = [*HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        if proxy is None:
            return PoolManager(
                num_pools=16, maxsize=self._connections, ssl_context=self._context, socket_options=options
            )
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
        try:
            return ProxyManager(
                address,
                num_pools=16,
                maxsize=self._connections,
                ssl_context=self._context,
                proxy_headers=make_headers(proxy_basic_auth=login) if login else None,
            )
        except (HTTPError, ValueError) as error:
            raise UsageError(f"cannot use the proxy {address}", hint="expected http://HOST:PORT or https://") from error


def proxy_of(url: str) -> str | None:
    """The proxy for a URL: HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, but for loopback and what NO_PROXY names.

    As in Go's httpproxy, which Docker uses, NO_PROXY may hold networks such as 10.0.0.0/8.
    """
    from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

    parts = urlsplit(url)
    proxies = getproxies_environment()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or is_loopback(parts.netloc) or proxy_bypass_environment(parts.netloc, proxies):
        return None
    return None if _in_networks(parts.hostname or "", proxies.get("no", "")) else str(found)


def unreached(url: str, error: Exception) -> TransientError | NetworkError:
    """What it means that there was no answer, or half of one."""
    from urllib3 import exceptions

    host = urlsplit(url).netloc
    match error:
        case exceptions.ProxyError():
            return TransientError(f"no way through the proxy to {host}: {_reason(error)}", hint=_REACH)
        case exceptions.SSLError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return NetworkError(
                f"{host}: its certificate is not trusted here: {_reason(error)}",
                hint=f"name the authority that signed it: SSL_CERT_FILE=/path/to/ca.pem, or {_DOCKER_CERTIFICATES}/"
                f"{host}/ca.crt as for Docker",
            )
        case exceptions.SSLError() if "WRONG_VERSION_NUMBER" in str(error) or "record layer failure" in str(error):
            return NoTlsError(
                f"{host} answers without TLS",
                hint=f"if that is meant to be so, and the line is safe: BAKE_PLAIN_HTTP={host}",
            )
        case exceptions.NameResolutionError():
            return TransientError(
                f"there is no host {host}", hint=f"check the name, or {_REACH.removeprefix('check ')}"
            )
        case exceptions.NewConnectionError():
            return TransientError(f"{host}: {_reason(error)}", hint=_REACH)
        case exceptions.ConnectTimeoutError():
            return TransientError(f"{host} does not answer", hint=_REACH)
        case exceptions.TimeoutError():
            return TransientError(f"{host} sends nothing more", hint=_REACH)
        case _:
            return TransientError(f"{host}: {_reason(error)}", hint=_REACH)


def _reason(error: BaseException) -> str:
    """The innermost cause in its own words: urllib3 wraps the system's error in several of its own."""
    import ssl

    for inner in (error.__cause__, error.__context__, *error.args, getattr(error, "original_error", None)):
        if isinstance(inner, BaseException) and inner is not error:
            return _reason(inner)
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return redact(re.sub(r"^HTTPS?Connection\([^)]*\):\s*", "", str(error))) or type(error).__name__


def _trust(host: str) -> ssl.SSLContext:
    """The certificates to believe: a variable's instead of the system's, and beside them Docker's for this host."""
    import ssl

    named = next((name for name in _CA_VARIABLES if os.environ.get(name)), None)
    try:
        context = _context(Path(os.environ[named])) if named else ssl.create_default_context()
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{named}: cannot use {os.environ.get(named or '')}: {_reason(error)}") from error
    for path in sorted((_DOCKER_CERTIFICATES / host).glob("*.crt")):
        try:
            context.load_verify_locations(path)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"cannot use the certificate {path}: {_reason(error)}") from error
    return context


def _context(path: Path) -> ssl.SSLContext:
    import ssl

    if path.is_dir():
        return ssl.create_default_context(capath=path)
    return ssl.create_default_context(cafile=path)


def _in_networks(host: str, names: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
        networks = [ipaddress.ip_network(name.strip(), strict=False) for name in names.split(",") if "/" in name]
    except ValueError:  # not an address, or not networks: names were compared before
        return False
    return any(address in network for network in networks)

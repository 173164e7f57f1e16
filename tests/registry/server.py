"""An OCI registry on the loopback, for real clients: the distribution protocol, and faults on demand.

    with FakeRegistry() as registry:
        registry.auth = "token"
        registry.fault("PATCH */blobs/uploads/*", cut=1000)
        ...                                   # f"{registry.host}/org/name:tag"
        assert registry.lines("PATCH *") == [...]

Three servers listen at three addresses: the registry, a token server, and a content network to which reads of blobs
may be redirected. All that arrives is written down, credentials too.
"""

from __future__ import annotations

import threading
from fnmatch import fnmatchcase
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

from tests.registry.faults import Fault, Host, Request, digest_of
from tests.registry.handlers import AuthHandler, CdnHandler, RegistryHandler, hang_up

if TYPE_CHECKING:
    import socket
    import ssl


class FakeRegistry:
    """`token_life` is the expires_in of tokens; `relative` is how an upload's Location is written."""

    def __init__(self, *, context: ssl.SSLContext | None = None) -> None:
        self.auth: Literal["none", "basic", "token"] = "none"
        self.anonymous = False
        self.relative = False
        self.mounts = True
        self.redirects = False
        self.forgets = False
        self.stuck_range = False
        self.chunks = True
        self.verifies = True
        self.largest_body: int | None = None
        self.too_large = 413
        self.least_chunk: int | None = None
        self.token_life: int | None = 300
        self.page_size = 1000
        self.requests: list[Request] = []
        self.blobs: dict[str, dict[str, bytes]] = {}
        self.manifests: dict[str, dict[str, tuple[str, bytes]]] = {}
        self.uploads: dict[str, bytearray] = {}
        self.tokens: dict[str, tuple[str, ...]] = {}
        self.counter = 0
        self.connections = 0
        self.stopping = threading.Event()
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._servers = {host: HostServer(self, host, context) for host in ("registry", "auth", "cdn")}

    def __enter__(self) -> Self:
        for server in self._servers.values():
            server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for server in self._servers.values():
            server.stop()

    @property
    def host(self) -> str:
        """The host of references."""
        return self.address("registry")

    def address(self, host: Host) -> str:
        return f"127.0.0.1:{self._servers[host].server_address[1]}"

    def url(self, host: Host) -> str:
        return f"{self._servers[host].scheme}://{self.address(host)}"

    def fault(self, glob: str, **what: Any) -> None:
        """Let requests that fit `glob` go wrong: see Fault."""
        with self._lock:
            self._faults.append(Fault(glob=glob, **what))

    def clear_faults(self) -> None:
        """Let everything go well from now on."""
        with self._lock:
            self._faults.clear()

    def mend(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._faults.clear()

    def add_blob(self, name: str, content: bytes) -> str:
        digest = digest_of(content)
        self.blobs.setdefault(name, {})[digest] = content
        return digest

    def add_manifest(self, name: str, reference: str, content: bytes, *, media_type: str) -> str:
        digest = digest_of(content)
        for key in (reference, digest):
            self.manifests.setdefault(name, {})[key] = (media_type, content)
        return digest

    def expire_tokens(self) -> None:
        self.tokens.clear()

    def lines(self, glob: str = "*", *, host: Host = "registry") -> list[str]:
        """The log's lines that fit, without the first question of every client."""
        return [
            request.line
            for request in self.requests
            if request.host == host and fnmatchcase(request.line, glob) and request.line != "GET /v2/"
        ]

    def sent_to(self, host: Host) -> list[str | None]:
        """The Authorization of each request that a host got."""
        return [request.authorization for request in self.requests if request.host == host]

    def log(self, request: Request) -> Fault:
        """Write the request down, and say what is to go wrong with it."""
        with self._lock:
            self.requests.append(request)
            for fault in self._faults:
                if fault.times > 0 and fnmatchcase(f"{request.method} {urlsplit(request.path).path}", fault.glob):
                    if fault.skip > 0:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    return fault
        return Fault(glob="", times=0)

    def next_number(self) -> int:
        with self._lock:
            self.counter += 1
            return self.counter


class HostServer(ThreadingHTTPServer):
    """One of the three servers. Stopping it closes every connection, so that no client is left with a dead one."""

    daemon_threads = False

    def __init__(self, registry: FakeRegistry, host: Host, context: ssl.SSLContext | None) -> None:
        handlers = {"registry": RegistryHandler, "auth": AuthHandler, "cdn": CdnHandler}
        super().__init__(("127.0.0.1", 0), handlers[host])
        self.registry = registry
        self.host = host
        self.scheme = "https" if context else "http"
        self._context = context
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        for connection in list(self._connections):
            hang_up(connection)
        self.server_close()

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        self.registry.connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no fault of the server's."""

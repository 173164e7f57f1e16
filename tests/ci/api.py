"""What CI systems know of the past, and tell whoever asks with the job's token: GitHub's runs, GitLab's deployments.

Sources: docs.github.com/en/rest/actions/workflow-runs, "List workflow runs for a workflow";
docs.gitlab.com/api/deployments, "List project deployments".
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from tests.registry.faults import PASSWORD


@dataclass(frozen=True, slots=True)
class Listing:
    """A path at which there is a list, newest first; `token` is the header that opens it, with its value.

    `filters` are the parameters that choose, each with the key of what it is compared with; `fixed` those that must be
    said as they are here, for the order depends on them. A list with a `name` is in a document of that key.
    """

    path: str
    token: tuple[str, str]
    filters: dict[str, str]
    fixed: dict[str, str] = field(default_factory=dict)
    name: str | None = None

    def takes(self, asked: dict[str, str]) -> bool:
        return asked.keys() == {*self.filters, *self.fixed, "per_page"} and self.fixed.items() <= asked.items()

    def chooses(self, item: dict[str, Any], asked: dict[str, str]) -> bool:
        return all(item[key] == asked[parameter] for parameter, key in self.filters.items())


RUNS = Listing(
    "/repos/Org-With-Capitals/images/actions/workflows/images.yml/runs",
    token=("Authorization", f"Bearer {PASSWORD}"),
    filters={"branch": "head_branch", "status": "status"},
    name="workflow_runs",
)
DEPLOYMENTS = Listing(
    "/projects/42/deployments",
    token=("JOB-TOKEN", PASSWORD),
    filters={"environment": "environment", "status": "status"},
    fixed={"order_by": "id", "sort": "desc"},
)


class Api:
    """A server of one list. `items` has the newest first."""

    def __init__(self, kind: Listing) -> None:
        self.items: list[dict[str, Any]] = []
        handler = type("Handler", (_Handler,), {"items": self.items, "kind": kind})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, **item: Any) -> None:
        self.items.insert(0, item)


class _Handler(BaseHTTPRequestHandler):
    items: list[dict[str, Any]]
    kind: Listing

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nobody reads it."""

    def do_GET(self) -> None:
        asked = dict(parse_qsl(urlsplit(self.path).query))
        header, value = self.kind.token
        if self.headers.get(header) != value:
            self._reply(401, {"message": "Unauthorized"})
        elif urlsplit(self.path).path != self.kind.path:
            self._reply(404, {"message": "Not Found"})
        elif not self.kind.takes(asked):
            self._reply(400, {"message": f"these tests do not know what it means: {asked}"})
        else:
            found = [item for item in self.items if self.kind.chooses(item, asked)][: int(asked["per_page"])]
            self._reply(200, {self.kind.name: found} if self.kind.name else found)

    def _reply(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

"""The list of a workflow's runs, as GitHub's API gives it to whoever asks with the job's token.

Source: docs.github.com/en/rest/actions/workflow-runs, "List workflow runs for a workflow".
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.registry.faults import PASSWORD

_PATH = "/repos/Org-With-Capitals/images/actions/workflows/images.yml/runs"


class Runs:
    """The newest run comes first, as there."""

    def __init__(self) -> None:
        self._runs: list[dict[str, Any]] = []
        handler = type("Handler", (_Handler,), {"runs": self._runs})
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

    def finished(self, *, event: str, branch: str, commit: str, good: bool) -> None:
        """A pull request's branch is that of its fork, and may be called main there."""
        name = "main" if event == "pull_request" else branch.removeprefix("refs/heads/")
        conclusion = "success" if good else "failure"
        self._runs.insert(0, {"event": event, "head_branch": name, "head_sha": commit, "conclusion": conclusion})


class _Handler(BaseHTTPRequestHandler):
    runs: list[dict[str, Any]]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nobody reads it."""

    def do_GET(self) -> None:
        asked = {key: values[-1] for key, values in parse_qs(urlsplit(self.path).query).items()}
        if self.headers.get("authorization") != f"Bearer {PASSWORD}":
            self._reply(401, {"message": "Bad credentials"})
        elif urlsplit(self.path).path != _PATH:
            self._reply(404, {"message": "Not Found"})
        else:
            found = [
                run
                for run in self.runs
                if run["head_branch"] == asked["branch"] and run["conclusion"] == asked["status"]
            ][: int(asked["per_page"])]
            self._reply(200, {"total_count": len(found), "workflow_runs": found})

    def _reply(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

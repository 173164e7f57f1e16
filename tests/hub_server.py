"""A Hugging Face Hub on the loopback, for real clients: the endpoints that downloads use, and faults on demand.

    with FakeHub() as hub:
        commit = hub.add_repo("org/name", {"config.json": b"{}", "model.safetensors": b"..."})
        hub.fault("*/config.json", times=2, status=503)
        ...                                   # HF_ENDPOINT=hub.endpoint
        assert hub.requests[-1].authorized

Two servers listen, as with the real one: the Hub, and a content network at another address to which files in LFS are
redirected by a signed URL. The shapes of answers are those that huggingface_hub parses; tests/test_hub.py drives that
library's own client against it.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SIGNATURE = "s1gn3d-and-s3cret"
"""What signs a URL of the content network; no message may show it."""

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_API = re.compile(r"/api/models/(?P<repo_id>[^/]+(?:/[^/]+)?)/(?P<kind>revision|tree)/(?P<revision>[^/]+)")
_API_MAIN = re.compile(r"/api/models/(?P<repo_id>[^/]+/[^/]+)(?P<kind>)(?P<revision>)")
_RESOLVE = re.compile(r"/(?P<repo_id>[^/]+(?:/[^/]+)?)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A line of the log. `path` has no query; `authorized` says that a token came along."""

    host: Literal["hub", "cdn"]
    method: str
    path: str
    authorized: bool
    range: str | None


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong with requests whose `host` and path fit `glob` (`hub/...`, `cdn/...`), for the next `times`.

    `status` with `headers` answers that instead; the others spoil a good answer: `body` is sent in place of the file's
    bytes, `cut` closes the connection after so many bytes of it, `unsized` leaves out its length, `ignore_range` sends
    the file from its start, and `slow` waits so many seconds first.
    """

    glob: str
    times: int
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None
    unsized: bool = False
    ignore_range: bool = False
    slow: float = 0.0


_NO_FAULT = Fault(glob="", times=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repo:
    gated: bool
    private: bool
    card: dict[str, Any]
    lfs: Callable[[str], bool]
    commits: dict[str, dict[str, bytes]]
    refs: dict[str, str]


def _is_safetensors(path: str) -> bool:
    return path.endswith(".safetensors")


class FakeHub:
    """`token` is the one that opens gated and private repositories; another one is refused."""

    def __init__(self, *, token: str = "hf_opensesame", page_size: int = 1000) -> None:  # noqa: S107 - opens nothing real
        self.token = token
        self.page_size = page_size
        self.requests: list[Request] = []
        self._repos: dict[str, _Repo] = {}
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self._hub = _Server(self, "hub")
        self._cdn = _Server(self, "cdn")

    def __enter__(self) -> Self:
        self._hub.start()
        self._cdn.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._hub.stop()
        self._cdn.stop()

    @property
    def endpoint(self) -> str:
        """The value for HF_ENDPOINT."""
        return self._hub.url

    @property
    def cdn_endpoint(self) -> str:
        return self._cdn.url

    def add_repo(
        self,
        repo_id: str,
        files: Mapping[str, bytes],
        *,
        lfs: Callable[[str], bool] = _is_safetensors,
        gated: bool = False,
        private: bool = False,
        card: Mapping[str, Any] | None = None,
        branch: str = "main",
    ) -> str:
        """Commit `files` to the branch of a new or existing repository, and return the commit."""
        commit = _commit_of(repo_id, files)
        with self._lock:
            before = self._repos.get(repo_id)
            self._repos[repo_id] = _Repo(
                gated=gated,
                private=private,
                card=dict(card or {"license": "apache-2.0"}),
                lfs=lfs,
                commits={**(before.commits if before else {}), commit: dict(files)},
                refs={**(before.refs if before else {}), branch: commit},
            )
        return commit

    def forget(self, repo_id: str, commit: str) -> None:
        """Rewrite the history: the commit, and the branches that name it, are gone."""
        repo = self._repos[repo_id]
        del repo.commits[commit]
        for branch in [branch for branch, named in repo.refs.items() if named == commit]:
            del repo.refs[branch]

    def fault(self, glob: str, *, times: int = 1, **what: Any) -> Fault:
        """Let the next `times` requests that fit `glob` go wrong: see Fault."""
        fault = Fault(glob=glob, times=times, **what)
        with self._lock:
            self._faults.append(fault)
        return fault

    def mend(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._faults.clear()

    def requested(self, glob: str) -> list[Request]:
        """The logged requests whose host and path fit `glob`."""
        return [request for request in self.requests if fnmatchcase(request.host + request.path, glob)]

    def log(self, request: Request) -> Fault:
        """Write the request down, and say what is to go wrong with it."""
        with self._lock:
            self.requests.append(request)
            for fault in self._faults:
                if fault.times > 0 and fnmatchcase(request.host + request.path, fault.glob):
                    fault.times -= 1
                    return fault
        return _NO_FAULT

    def repo(self, repo_id: str) -> _Repo | None:
        return self._repos.get(repo_id)

    def blob(self, path: str) -> bytes | None:
        """The bytes that the content network holds at `/sha256`."""
        commits = [files for repo in self._repos.values() for files in repo.commits.values()]
        contents = (content for files in commits for content in files.values())
        return next((found for found in contents if f"/{hashlib.sha256(found).hexdigest()}" == path), None)


class _Server(ThreadingHTTPServer):
    """One of the two servers. Stopping it closes every connection, so that no client is left with a dead one."""

    daemon_threads = False

    def __init__(self, hub: FakeHub, host: Literal["hub", "cdn"]) -> None:
        super().__init__(("127.0.0.1", 0), _HubHandler if host == "hub" else _CdnHandler)
        self.hub = hub
        self.host = host
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        for connection in list(self._connections):
            _hang_up(connection)
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no fault of the server's."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes; the second must not wait for the first
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """The log is FakeHub.requests."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.hub = self.server.hub
        self.fault = self.hub.log(
            Request(
                host=self.server.host,
                method=self.command,
                path=unquote(urlsplit(self.path).path),
                authorized="authorization" in self.headers,
                range=self.headers.get("range"),
            )
        )
        self.hub.stopping.wait(self.fault.slow)
        if self.fault.status is not None:
            self.refuse(self.fault.status, **self.fault.headers)
        else:
            self.answer()

    def answer(self) -> None:
        raise NotImplementedError

    def refuse(self, status: int, **headers: str) -> None:
        """Headers are given as keyword arguments, with or without underscores."""
        message = headers.get("X_Error_Message") or headers.get("X-Error-Message", "")
        self.reply(status, json.dumps({"error": message}).encode(), **{"Content-Type": "application/json", **headers})

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if self.fault.unsized:
            self.send_header("Connection", "close")
        elif "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if self.fault.cut is None else body[: self.fault.cut])
        if self.fault.cut is not None:
            self.close_connection = True

    def reply_with_file(self, content: bytes, **headers: str) -> None:
        """The file, or the part of it that Range asks for."""
        content = content if self.fault.body is None else self.fault.body
        asked = None if self.fault.ignore_range else _RANGE.fullmatch(self.headers.get("range", ""))
        if asked is None:
            self.reply(200, content, **headers)
        elif int(asked[1]) >= len(content):
            self.reply(416, b"", Content_Range=f"bytes */{len(content)}")
        else:
            part = content[int(asked[1]) : int(asked[2]) + 1 if asked[2] else None]
            span = f"bytes {asked[1]}-{int(asked[1]) + len(part) - 1}/{len(content)}"
            self.reply(206, part, Content_Range=span, **headers)


class _CdnHandler(_Handler):
    def answer(self) -> None:
        content = self.hub.blob(urlsplit(self.path).path)
        signed = parse_qs(urlsplit(self.path).query).get("Signature") == [SIGNATURE]
        if content is None or not signed:
            self.refuse(403)
        else:
            self.reply_with_file(content)


class _HubHandler(_Handler):
    def answer(self) -> None:
        path = urlsplit(self.path).path
        found = _API.fullmatch(path) or _API_MAIN.fullmatch(path) or _RESOLVE.fullmatch(path)
        repo = self.hub.repo(unquote(found["repo_id"])) if found else None
        if found is None:
            self.refuse(404, X_Error_Message="Sorry, we can't find the page you are looking for.")
        elif self._rejects_token():
            self.refuse(401, X_Error_Message="Invalid credentials in Authorization header")
        elif repo is None or (repo.private and not self._has_token()):
            status = 404 if self._has_token() else 401
            self.refuse(status, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        else:
            self._answer_about(repo, **{name: unquote(part) for name, part in found.groupdict().items()})

    def _answer_about(self, repo: _Repo, *, repo_id: str, revision: str, kind: str = "", path: str = "") -> None:
        commit = repo.refs.get(revision or "main", revision)
        files = repo.commits.get(commit)
        if files is None:
            self.refuse(404, X_Error_Code="RevisionNotFound", X_Error_Message=f"Invalid rev id: {revision}")
        elif not path and kind != "tree":
            self._reply_with_json(_model(repo, repo_id, commit))
        elif kind == "tree":
            self._reply_with_page(_tree(repo, files))
        elif repo.gated and not self._has_token():
            self.refuse(401, X_Error_Code="GatedRepo", X_Error_Message=f"Access to model {repo_id} is restricted.")
        elif path not in files:
            self.refuse(404, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
        else:
            self._resolve(repo, commit, path, files[path])

    def _resolve(self, repo: _Repo, commit: str, path: str, content: bytes) -> None:
        if not repo.lfs(path):
            self.reply_with_file(content, X_Repo_Commit=commit, ETag=f'"{git_oid(content)}"')
            return
        digest = hashlib.sha256(content).hexdigest()
        self.reply(
            302,
            b"",
            Location=f"{self.hub.cdn_endpoint}/{digest}?Expires=1&Signature={SIGNATURE}",
            X_Repo_Commit=commit,
            X_Linked_Size=str(len(content)),
            X_Linked_ETag=f'"{digest}"',
        )

    def _reply_with_json(self, document: object, **headers: str) -> None:
        body = self.fault.body if self.fault.body is not None else json.dumps(document).encode()
        self.reply(200, body, Content_Type="application/json", **headers)

    def _reply_with_page(self, entries: list[dict[str, Any]]) -> None:
        query = parse_qs(urlsplit(self.path).query)
        start = int(query.get("cursor", ["0"])[0])
        end = start + self.hub.page_size
        headers = {}
        if end < len(entries):
            base = self.hub.endpoint + urlsplit(self.path).path
            headers["Link"] = f'<{base}?recursive=true&expand=false&cursor={quote(str(end))}>; rel="next"'
        self._reply_with_json(entries[start:end], **headers)

    def _has_token(self) -> bool:
        return self.headers.get("authorization") == f"Bearer {self.hub.token}"

    def _rejects_token(self) -> bool:
        return "authorization" in self.headers and not self._has_token()


def _model(repo: _Repo, repo_id: str, commit: str) -> dict[str, Any]:
    return {
        "_id": "0" * 24,
        "id": repo_id,
        "modelId": repo_id,
        "sha": commit,
        "private": repo.private,
        "gated": "manual" if repo.gated else False,
        "disabled": False,
        "tags": [],
        "cardData": repo.card,
        "siblings": [{"rfilename": path} for path in repo.commits[commit]],
        "createdAt": "2024-07-18T08:56:00.000Z",
    }


def _tree(repo: _Repo, files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    folders = {path.rpartition("/")[0] for path in files if "/" in path}
    listed: list[dict[str, Any]] = [
        {"type": "directory", "oid": git_oid(folder.encode()), "size": 0, "path": folder} for folder in folders
    ]
    for path, content in files.items():
        entry: dict[str, Any] = {"type": "file", "oid": git_oid(content), "size": len(content), "path": path}
        if repo.lfs(path):
            entry["oid"] = git_oid(b"pointer to " + content)
            entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        listed.append(entry)
    return sorted(listed, key=lambda entry: str(entry["path"]))


def _commit_of(repo_id: str, files: Mapping[str, bytes]) -> str:
    listing = "".join(f"{git_oid(content)} {path}\n" for path, content in sorted(files.items()))
    return hashlib.sha1(f"{repo_id}\n{listing}".encode(), usedforsecurity=False).hexdigest()


def git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return

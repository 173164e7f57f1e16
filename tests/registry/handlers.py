"""The three hosts of a fake registry: what each answers. tests/registry/server.py starts them."""

from __future__ import annotations

import json
import re
import socket
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.registry.faults import IDENTITY_TOKEN, SIGNATURE, Request, basic, digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.registry.server import HostServer

_NAME = r"/v2/(?P<name>.+?)"
_ROUTES = {
    "upload": re.compile(_NAME + r"/blobs/uploads/(?P<upload>[^/]*)"),
    "blob": re.compile(_NAME + r"/blobs/(?P<digest>sha256:[0-9a-f]{64})"),
    "manifest": re.compile(_NAME + r"/manifests/(?P<reference>[^/]+)"),
    "tags": re.compile(_NAME + r"/tags/list"),
}


class _HungUpError(Exception):
    """The connection was cut on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes; the second must not wait for the first
    server: HostServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """The log is FakeRegistry.requests."""

    def do_GET(self) -> None:
        self.registry = self.server.registry
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(host=self.server.host, method=self.command, path=self.path, headers=headers)
        self.fault = self.registry.log(request)
        self.path_only = urlsplit(self.path).path
        self.query = {key: values[-1] for key, values in parse_qs(urlsplit(self.path).query).items()}
        self.body = b""
        try:
            self._answer_or_fail()
        except _HungUpError:
            self.close_connection = True
            hang_up(self.connection)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - http.server's names

    def _answer_or_fail(self) -> None:
        if self.fault.silent:
            self.registry.stopping.wait()
            raise _HungUpError
        if self.fault.expire:
            self.registry.expire_tokens()
        if not self.fault.early:
            self.read_body()
        if self.fault.status is not None:
            self.close_connection = self.close_connection or self.fault.early
            self.reply(self.fault.status, self.fault.body, **self.fault.headers)
        else:
            self.answer()

    def read_body(self) -> None:
        size = int(self.headers.get("content-length", 0))
        wanted = size if self.fault.cut is None else min(self.fault.cut, size)
        self.body = self.rfile.read(wanted)
        if self.fault.cut is not None or len(self.body) < wanted:  # cut on purpose, or by a client that was killed
            self.take_partial()
            raise _HungUpError

    def take_partial(self) -> None:
        """What came of a body that was cut."""

    def answer(self) -> None:
        raise NotImplementedError

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Headers are given as keyword arguments, with or without underscores."""
        if self.fault.lost:
            raise _HungUpError
        self.send_response(status)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.fault.claim is not None:
            names["Docker-Content-Digest"] = self.fault.claim
        if self.fault.range is not None:
            names["Range"] = self.fault.range
        for name, value in ({"Content-Length": str(self.fault.length or len(body))} | names).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status not in {204, 304}:
            self._write(body)

    def _write(self, body: bytes) -> None:
        if self.fault.drip is not None:
            for at in range(0, len(body), self.fault.drip):
                self.wfile.write(body[at : at + self.fault.drip])
        elif self.fault.cut_answer is not None:
            self.wfile.write(body[: self.fault.cut_answer])
            raise _HungUpError
        else:
            self.wfile.write(body)

    def refuse(self, status: int, code: str, message: str, **headers: str) -> None:
        document = {"errors": [{"code": code, "message": message, "detail": {}}]}
        self.reply(status, json.dumps(document).encode(), Content_Type="application/json", **headers)

    def reply_with_bytes(self, content: bytes, **headers: str) -> None:
        """The bytes, or those that Range asks for."""
        content = content if self.fault.content is None else self.fault.content
        asked = None if self.fault.ignore_range else re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if asked is None:
            self.reply(200, content, **headers)
        elif int(asked[1]) >= len(content):
            self.reply(416, b"", Content_Range=f"bytes */{len(content)}")
        else:
            start, stop = int(asked[1]), min(int(asked[2] or len(content)) + 1, len(content))
            span = f"bytes {start}-{stop - 1}/{len(content)}"
            self.reply(206, content[start:stop], Content_Range=span, **headers)


class CdnHandler(_Handler):
    def answer(self) -> None:
        held = {digest: content for blobs in self.registry.blobs.values() for digest, content in blobs.items()}
        content = held.get(f"sha256:{self.path_only.strip('/')}")
        if content is None or self.query.get("Signature") != SIGNATURE:
            self.reply(403, b"<Error><Code>AccessDenied</Code></Error>")
        else:
            self.reply_with_bytes(content)


class AuthHandler(_Handler):
    """token.md and oauth.md of distribution: a password, an identity token, or nothing for strangers."""

    def answer(self) -> None:
        form = {key: values[-1] for key, values in parse_qs(self.body.decode()).items()}
        asked = form["scope"].split() if form else parse_qs(urlsplit(self.path).query).get("scope", [])
        if not self._may_have_one(form):
            self.refuse(401, "UNAUTHORIZED", "incorrect username or password")
            return
        token = f"t0ken-{self.registry.next_number()}"
        self.registry.tokens[token] = tuple(asked)
        life = {} if self.registry.token_life is None else {"expires_in": self.registry.token_life}
        self.reply(200, json.dumps({"access_token" if form else "token": token} | life).encode())

    def _may_have_one(self, form: Mapping[str, str]) -> bool:
        if self.command == "POST":
            return form.get("refresh_token") == IDENTITY_TOKEN and form.get("grant_type") == "refresh_token"
        sent = self.headers.get("authorization")
        return sent == basic() if sent else self.registry.anonymous


class RegistryHandler(_Handler):
    def take_partial(self) -> None:
        upload = urlsplit(self.path).path.rpartition("/")[2]
        if self.registry.forgets:
            self.registry.uploads.pop(upload, None)
        elif upload in self.registry.uploads:
            self.registry.uploads[upload] += self.body

    def answer(self) -> None:
        if not self._is_authorized():
            self._challenge()
        elif self.path_only == "/v2/":
            self.reply(200, b"{}", Content_Type="application/json")
        else:
            kind, parts = next(
                (
                    (kind, found.groupdict())
                    for kind, form in _ROUTES.items()
                    if (found := form.fullmatch(self.path_only))
                ),
                ("nothing", {}),
            )
            getattr(self, f"answer_{kind}", self.answer_nothing)(**parts)

    def answer_nothing(self) -> None:
        self.refuse(404, "NAME_INVALID", "invalid repository name")

    def answer_tags(self, name: str) -> None:
        tags = sorted(tag for tag in self.registry.manifests.get(name, {}) if not tag.startswith("sha256:"))
        rest = [tag for tag in tags if tag > self.query.get("last", "")]
        page = rest[: self.registry.page_size]
        link = f'</v2/{name}/tags/list?n=1&last={page[-1]}>; rel="next"' if len(rest) > len(page) else None
        if name not in self.registry.manifests:
            self.refuse(404, "NAME_UNKNOWN", "repository name not known to registry")
        else:
            self.reply(200, json.dumps({"name": name, "tags": page}).encode(), **({"Link": link} if link else {}))

    def answer_manifest(self, name: str, reference: str) -> None:
        held = self.registry.manifests.setdefault(name, {})
        if self.command == "PUT":
            media_type = self.headers["content-type"]
            digest = self.registry.add_manifest(name, reference, self.body, media_type=media_type)
            self.reply(201, b"", Docker_Content_Digest=digest)
        elif reference not in held:
            self.refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
        else:
            media_type, content = held[reference]
            content = content if self.fault.content is None else self.fault.content
            self.reply(
                200, content, **{"Content-Type": media_type, "Docker-Content-Digest": digest_of(held[reference][1])}
            )

    def answer_blob(self, name: str, digest: str) -> None:
        content = self.registry.blobs.get(name, {}).get(digest)
        if content is None:
            self.refuse(404, "BLOB_UNKNOWN", "blob unknown to registry")
        elif self.registry.redirects and self.command == "GET":
            location = f"{self.registry.url('cdn')}/{digest.partition(':')[2]}?Signature={SIGNATURE}"
            self.reply(307, b"", Location=location)
        else:
            self.reply_with_bytes(content, Docker_Content_Digest=digest)

    def answer_upload(self, name: str, upload: str) -> None:
        held = self.registry.uploads.get(upload)
        if self.command == "POST":
            self._begin(name)
        elif held is None:
            self.refuse(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry")
        elif self.command == "DELETE":
            del self.registry.uploads[upload]
            self.reply(204)
        elif self.command == "GET":
            self._reply_with_position(204, name, upload)
        elif self.registry.largest_body is not None and len(self.body) > self.registry.largest_body:
            self.refuse(self.registry.too_large, "SIZE_INVALID", "request body too large")
        elif self.command == "PATCH":
            self._append(name, upload, held)
        else:
            self._close(name, upload, held)

    def _begin(self, name: str) -> None:
        mount = self.registry.blobs.get(self.query.get("from", ""), {}).get(self.query.get("mount", ""))
        if mount is not None and self.registry.mounts:
            self.reply(201, b"", Docker_Content_Digest=self.registry.add_blob(name, mount))
            return
        upload = f"upload-{self.registry.next_number()}"
        self.registry.uploads[upload] = bytearray()
        least = self.registry.least_chunk
        self._reply_with_position(202, name, upload, **({"OCI_Chunk_Min_Length": str(least)} if least else {}))

    def _append(self, name: str, upload: str, held: bytearray) -> None:
        asked = self.headers.get("content-range", "")  # without one, all that is left follows
        start = int(asked.partition("-")[0]) if asked else len(held)
        if not self.registry.chunks:
            self.refuse(405, "UNSUPPORTED", "The operation is unsupported.")
        elif start != len(held):
            self.refuse(416, "RANGE_INVALID", "invalid content range")
        else:
            held += self.body
            self._reply_with_position(202, name, upload)

    def _close(self, name: str, upload: str, held: bytearray) -> None:
        content = bytes(held + self.body)
        digest = digest_of(content)
        if digest != self.query["digest"] and self.registry.verifies:
            self.refuse(400, "DIGEST_INVALID", "provided digest did not match uploaded content")
            return
        del self.registry.uploads[upload]
        self.registry.add_blob(name, content)
        self.reply(201, b"", Docker_Content_Digest=digest)

    def _reply_with_position(self, status: int, name: str, upload: str, **headers: str) -> None:
        size = len(self.registry.uploads[upload])
        size = min(size, 1000) if self.registry.stuck_range else size
        path = f"/v2/{name}/blobs/uploads/{upload}"
        location = path if self.registry.relative else f"{self.server.scheme}://{self.headers['host']}{path}?state=1"
        self.reply(status, b"", Location=location, Range=f"0-{max(size - 1, 0)}", Docker_Upload_UUID=upload, **headers)

    def _is_authorized(self) -> bool:
        sent = self.headers.get("authorization", "")
        match self.registry.auth:
            case "none":
                return True
            case "basic":
                return sent == basic()
            case "token":
                scopes = self.registry.tokens.get(sent.removeprefix("Bearer "), ())
                return bool(scopes) and all(scope.startswith("repository:") for scope in scopes)

    def _challenge(self) -> None:
        if self.registry.auth == "basic":
            asked = 'Basic realm="registry"'
        else:
            asked = f'Bearer realm="{self.registry.url("auth")}/token",service="fake",scope="repository:x:pull"'
        self.refuse(401, "UNAUTHORIZED", "authentication required", WWW_Authenticate=asked)


def hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return

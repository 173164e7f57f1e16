"""Documents: manifests and indexes as a registry holds them, proven by their digests.

Docker's documents are taken as well as OCI's (image-spec, "Compatibility Matrix"); Docker's first schema is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.digest import Digest
from bake.errors import DigestError, ImageError
from bake.image import INDEX, MANIFEST, Descriptor, Platform, parse_json, reading
from bake.patience import Attempts
from bake.registry.answer import LIMIT
from bake.registry.refusal import NOT_THE_SAME, not_a_registry

if TYPE_CHECKING:
    from bake.registry.answer import Answer
    from bake.registry.client import Client

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
_KNOWN = (MANIFEST, INDEX, DOCKER_MANIFEST, DOCKER_INDEX)
_ATTESTATION = "vnd.docker.reference.type"
_OK = frozenset({200})
_OK_OR_MISSING = frozenset({200, 404})
_STORED = frozenset({200, 201, 204})


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A manifest or an index, byte for byte. `media_type` is its own; the descriptor has OCI's name for it."""

    descriptor: Descriptor
    media_type: str
    content: bytes

    @classmethod
    def parse(cls, content: bytes, *, where: str) -> Document:
        """A document that comes without its type: by its own word, or else by what it holds. Raises ImageError."""
        document = parse_json(content, where=where)
        media_type = document.get("mediaType") or (INDEX if "manifests" in document else MANIFEST)
        return cls.of(content, media_type=media_type)

    @classmethod
    def of(cls, content: bytes, *, media_type: str) -> Document:
        described = {"mediaType": media_type, "digest": str(Digest.of(content)), "size": len(content)}
        return cls(descriptor=Descriptor.parse(described), media_type=media_type, content=content)


def resolve(client: Client, identifier: str) -> Descriptor | None:
    """What a tag or digest names now; None where there is no such thing. Reads no document if it can be helped."""
    what = _what(identifier)
    answer = client.ask_patiently(
        "HEAD", client.url(f"manifests/{identifier}"), what=what, accept=_OK_OR_MISSING, headers=_accept()
    )
    if answer.status == 404:
        return None
    media_type, size = _content_type(answer), answer.headers.get("content-length", "")
    try:
        digest = Digest.parse(answer.headers.get("docker-content-digest", ""))
    except ValueError:  # the header is optional ("Checking if content exists in the registry")
        return fetch(client, identifier).descriptor
    if media_type not in _KNOWN or not size.isdecimal():
        return fetch(client, identifier).descriptor
    return Descriptor.parse({"mediaType": media_type, "digest": str(digest), "size": int(size)})


def fetch(client: Client, identifier: str) -> Document:
    """A manifest or index by tag or digest. Raises ImageError, DigestError, SourceError and NetworkError."""
    what = _what(identifier)
    answer = client.ask_patiently(
        "GET", client.url(f"manifests/{identifier}"), what=what, accept=_OK, headers=_accept()
    )
    if len(answer.body) > LIMIT:
        raise ImageError(f"{client.party.name}: {what}: expected at most {LIMIT} bytes of JSON")
    digest = Digest.of(answer.body)
    for named in (identifier, answer.headers.get("docker-content-digest", "")):
        if named.startswith("sha256:") and named != str(digest):
            raise DigestError(
                f"{client.party.name}: {what}: expected {named}, found bytes of {digest}",
                hint=NOT_THE_SAME,
            )
    return Document.of(answer.body, media_type=_media_type(client, what, answer))


def put(client: Client, identifier: str, content: bytes, *, media_type: str) -> Answer:
    """Put a manifest under a tag or its digest ("Pushing Manifests"). Raises OutputError and NetworkError."""
    what = _what(identifier)
    attempts = Attempts(client.patience, f"{client.party.name}: {what}")
    headers = {"content-type": media_type, "content-length": str(len(content))}
    while True:
        with attempts.once():
            return client.ask(
                "PUT",
                client.url(f"manifests/{identifier}"),
                what=what,
                accept=_STORED,
                headers=headers,
                body=lambda: (content,),
            )


def choose(index: Document, platform: Platform, *, where: str) -> Descriptor:
    """The entry of an index that is for a platform. Raises ImageError that says which there are."""
    document = parse_json(index.content, where=where)
    with reading(where, "an image index"):
        entries = [Descriptor.parse(entry) for entry in document["manifests"]]
        images = [entry for entry in entries if _ATTESTATION not in entry.annotations]
        for entry in images:
            if entry.platform == platform:
                return entry
        held = ", ".join(sorted({str(entry.platform) for entry in images if entry.platform})) or "none"
        raise ImageError(f"{where}: expected an image for {platform}, found {held}")
    raise AssertionError  # unreachable


def _media_type(client: Client, what: str, answer: Answer) -> str:
    """By the header, or else by the document's own word: some registries serve everything as one type."""
    media_type = _content_type(answer)
    if media_type in _KNOWN:
        return media_type
    if "html" in media_type or not answer.body.lstrip().startswith(b"{"):
        raise not_a_registry(client.party, what)
    document = parse_json(answer.body, where=f"{client.party.name}: {what}")
    if document.get("mediaType") in _KNOWN:
        return str(document["mediaType"])
    if document.get("schemaVersion") == 1:
        raise ImageError(
            f"{client.party.name}: {what}: an image of Docker's first schema, which nobody reads any more",
            hint="pull and push it again with a Docker of this decade",
        )
    raise ImageError(f"{client.party.name}: {what}: expected an image, found {media_type or 'no media type'}")


def _content_type(answer: Answer) -> str:
    return answer.headers.get("content-type", "").partition(";")[0].strip()


def _accept() -> dict[str, str]:
    return {"accept": ", ".join(_KNOWN)}


def _what(identifier: str) -> str:
    return f"manifest {identifier}"

"""Registry: one repository in an OCI registry: read an image, push blobs, put a manifest (distribution-spec 1.1).

    with Registry.open(Reference.parse("ghcr.io/org/llama3-8b:v1.0.0"), access="push") as registry:
        registry.check(blobs)                                     # too large for it? told before a byte is sent
        with ThreadPoolExecutor(registry.profile.parallel) as pool:
            list(pool.map(lambda blob: registry.push_blob(blob, source_of(blob), advance=advance), blobs))
        digest = registry.put_manifest(image.manifest.dumps(), media_type=MANIFEST)

Blobs come first and the manifest last: until then, nothing names what was pushed. No layer is ever whole in memory.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bake.digest import Digest
from bake.errors import BakeError, DigestError, OutputError
from bake.image import LAYER, Descriptor
from bake.patience import Attempts, Patience
from bake.registry.adjustment import Adjustment, environment_adjustment
from bake.registry.answer import LIMIT
from bake.registry.blobs import download, download_part, has_blob
from bake.registry.client import Client
from bake.registry.credentials import Credentials, Login, find_login
from bake.registry.documents import Document, fetch, put, resolve
from bake.registry.images import Documents, find_image
from bake.registry.network import Network, Timeouts
from bake.registry.opening import find_origin, may_be_plain
from bake.registry.patience import usual_patience
from bake.registry.profiles import Profile, profile_of
from bake.registry.reference import Reference
from bake.registry.refusal import Access, Party, not_a_registry
from bake.registry.source import Named, Source, Unnamed, in_memory, reopened
from bake.registry.upload import Arrival, Upload
from bake.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from bake.image import Image, Platform

__all__ = [
    "Access",
    "Adjustment",
    "Arrival",
    "Credentials",
    "Document",
    "Documents",
    "Login",
    "Patience",
    "Profile",
    "Reference",
    "Registry",
    "Source",
    "Timeouts",
    "Unnamed",
    "find_image",
    "in_memory",
    "profile_of",
    "reopened",
    "usual_patience",
]

_OK = frozenset({200})
_NEXT = re.compile(r'<([^>]*)>\s*;[^,]*\brel="?next"?')


class Registry:
    """One repository, opened to pull or to push. Every method may be called from several threads at once.

    All raise NetworkError where the registry does not answer, or goes on failing. What it refuses is an OutputError of
    a repository opened to push, and a SourceError of one opened to pull.
    """

    def __init__(self, client: Client, network: Network) -> None:
        self._client = client
        self._network = network

    @classmethod
    def open(
        cls,
        reference: Reference,
        *,
        access: Access,
        login: Login | None = None,
        plain_http: bool = False,
        patience: Patience | None = None,
        timeouts: Timeouts | None = None,
        profile: Profile | None = None,
        adjustment: Adjustment | None = None,
    ) -> Registry:
        """Reach the registry of a reference; the caller closes it, or uses it in a `with`.

        The login is that of `docker login`, and the profile the registry's own, unless they are given. It is adjusted
        as `adjustment` says, or else BAKE_REGISTRY_PROFILE. HTTP without TLS is for loopback, and for whoever asks for
        it by `plain_http`, or by naming the host in BAKE_PLAIN_HTTP. Raises NetworkError, and UsageError for settings
        of Docker, proxies, certificates or profiles that cannot be read.
        """
        adjustment = adjustment or environment_adjustment(reference.host)
        plain_http = plain_http or may_be_plain(reference.host)
        patience = patience or usual_patience()
        login = login or find_login(reference.host)
        network = Network(reference.host, connections=16, timeouts=timeouts or Timeouts())
        try:
            origin, answer = find_origin(reference.host, network=network, patience=patience, plain_http=plain_http)
        except BakeError:
            network.close()
            raise
        profile = profile or profile_of(reference.host, headers=answer.headers)
        party = Party(
            reference=reference,
            access=access,
            login=login,
            profile=adjustment.of(profile) if adjustment else profile,
        )
        client = Client(party, origin=origin, network=network, patience=patience)
        client.learn(answer)
        return cls(client, network)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._network.close()

    @property
    def reference(self) -> Reference:
        return self._client.party.reference

    @property
    def profile(self) -> Profile:
        """What this registry takes; `profile.parallel` is how many uploads to have going at once."""
        return self._client.party.profile

    # --- reading

    def resolve(self, identifier: str | None = None) -> Descriptor | None:
        """What the reference (or another tag or digest of its repository) names now; None where it names nothing.

        It is the manifest, or the index of several platforms: its digest is what a lock pins.
        """
        return resolve(self._client, identifier or self.reference.identifier)

    def manifest(self, identifier: str | None = None) -> Document:
        """The manifest or index that the reference (or another tag or digest) names, byte for byte.

        Raises ImageError where there is none or it is of an unknown kind, and DigestError where a digest names it and
        its bytes have another.
        """
        return fetch(self._client, identifier or self.reference.identifier)

    def image(self, platform: Platform | None = None) -> Image:
        """The image of the reference for a platform (linux/amd64): its manifest and config, proven; no layer is read.

        Raises ImageError where there is none for the platform, and DigestError.
        """
        return find_image(self, self.reference.identifier, name=self.reference.name, platform=platform)

    def config(self, config: Descriptor) -> bytes:
        """An image's config, proven. Raises DigestError where it is larger than any is."""
        if config.size > LIMIT:
            raise DigestError(f"{self.reference.name}: config {config.digest}: expected at most {LIMIT} bytes of JSON")
        return b"".join(self.open_blob(config))

    def tags(self) -> tuple[str, ...]:
        """Every tag of the repository, in the registry's order. Raises ImageError where there is no such repository."""
        found: list[str] = []
        query: str | None = "n=1000"
        while query is not None:
            answer = self._client.ask_patiently(
                "GET", self._client.url(f"tags/list?{query}"), what="list of tags", accept=_OK
            )
            try:
                found += [str(tag) for tag in json.loads(answer.body)["tags"] or ()]
            except (ValueError, KeyError, TypeError):
                raise not_a_registry(self._client.party, "list of tags") from None
            query = _next_page(answer.headers.get("link", ""))
        return tuple(dict.fromkeys(found))

    def has_blob(self, blob: Descriptor) -> bool:
        """Whether the repository has a blob. Raises DigestError where it has one of another size."""
        attempts = Attempts(self._client.patience, f"{self.reference.name}: blob {blob.digest}")
        while True:
            with attempts.once():
                return has_blob(self._client, blob)

    def open_blob(self, blob: Descriptor, *, offset: int = 0) -> Iterator[bytes]:
        """A blob's bytes from `offset` on, in chunks of at most 1 MiB; what breaks is continued.

        Read from its start, it is proven: the last chunk comes only if the digest is right. Read from elsewhere, only
        its size is, and the reader proves it. Raises DigestError, ImageError where there is no such blob, SourceError.
        `lambda offset: base.open_blob(layer, offset=offset)` is a `Source`: it copies a layer to another registry.
        """
        return download(self._client, blob, offset=offset)

    def open_part(self, blob: Descriptor, *, offset: int, size: int) -> Iterator[bytes]:
        """The `size` bytes of a blob from `offset` on, as `open_blob` gives them; the reader proves what they are."""
        return download_part(self._client, blob, offset=offset, size=size)

    # --- writing

    def check(self, blobs: Sequence[Descriptor]) -> None:
        """Refuse what this registry is known to refuse, all at once, before a byte is sent. Raises OutputError."""
        self.check_sizes({str(blob.digest): blob.size for blob in blobs})

    def check_sizes(self, sizes: Mapping[str, int], *, smaller: str = "split the model into smaller shards") -> None:
        """`check` for layers that have no digest yet: bytes by what the layer is, in words. Raises OutputError.

        `smaller` says how they would be.
        """
        if faults := self.profile.refused(sizes):
            told = f"{self.reference.name}: {count_text(len(faults), 'layer')} too large for {self.profile.name}:"
            raise OutputError(
                "\n  ".join([told, *faults]),
                hint=f"{smaller}; or push to another registry; if this one takes more: --registry-profile layer=SIZE",
            )

    def push_blob(
        self,
        blob: Descriptor,
        source: Source,
        *,
        what: str | None = None,
        mount_from: str | None = None,
        advance: Callable[[int], object] = lambda _: None,
    ) -> Arrival:
        """See to it that the repository has a blob: `present` already, `mounted` from another, or `uploaded`.

        `source(offset)` gives its bytes from there on, and is called again where an upload goes on or starts again; its
        bytes are proven by the registry, which refuses others. `what` is the blob, in words, and `mount_from` a
        repository in this registry that may have it. `advance` takes counts of bytes that add up to `blob.size`; where
        bytes were lost on the way, some are negative. Raises OutputError, and DigestError where bytes and digest do
        not fit.
        """
        self.check((blob,))
        if self.has_blob(blob):
            advance(blob.size)
            return "present"
        named = Named(source, blob.size, blob.digest)
        what = what or f"blob {blob.digest}"
        return Upload(self._client, named, what=what, mount_from=mount_from, advance=advance).run()

    def push_unnamed(
        self, source: Unnamed, *, what: str, advance: Callable[[int], object] = lambda _: None
    ) -> Descriptor:
        """Push a layer whose digest is known only once it was read, in that one read; returns it as it is now named.

        It gets its name with the last request, so that what the source refuses while it is read is never named. `what`
        is the layer, in words. `advance`, and what is raised, are those of `push_blob`.
        """
        self.check_sizes({what: source.size})
        Upload(self._client, source, what=what, advance=advance).run()
        if source.digest is None:  # the upload has sent it to the registry
            raise AssertionError(what)
        return Descriptor(media_type=LAYER, digest=source.digest, size=source.size)

    def mount(self, blob: Descriptor, repository: str) -> bool:
        """Have a blob of another repository of this registry in this one too, without sending it.

        False where the registry would have it uploaded instead: it may not be there, or not be to be mounted.
        """
        named = Named(in_memory(b""), blob.size, blob.digest)
        return Upload(self._client, named, what=f"blob {blob.digest}", mount_from=repository).mount()

    def put_manifest(self, content: bytes, *, media_type: str, tag: str | None = None) -> Digest:
        """Put a manifest or index under a tag (the reference's, unless told), and return its digest.

        What it names must be there before. Raises OutputError, and DigestError where something else was stored.
        """
        digest = Digest.of(content)
        if len(content) > LIMIT:
            raise OutputError(f"{self.reference}: a manifest of {len(content)} bytes: registries take {LIMIT} at most")
        if self.reference.digest not in {None, digest}:
            raise DigestError(f"{self.reference}: the image to push there has the digest {digest}")
        identifier = tag or self.reference.tag or str(digest)
        answer = put(self._client, identifier, content, media_type=media_type)
        stored = answer.headers.get("docker-content-digest", "")
        if stored.startswith("sha256:") and stored != str(digest):
            raise DigestError(f"{self.reference}: put the manifest {digest}, and the registry stored {stored}")
        return digest


def _next_page(link: str) -> str | None:
    """The query that asks for the next tags ("Listing Tags", RFC 8288). The query alone: no link leads elsewhere."""
    found = _NEXT.search(link)
    return urlsplit(found[1]).query if found else None

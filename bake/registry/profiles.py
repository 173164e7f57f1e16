"""Profiles: what registries are known to take, and to get wrong. Pure data, each with the source that says so.

A limit is None where no source names one. What a registry refuses all the same is met as it comes: an upload goes on in
smaller pieces after a 413, and starts again where a registry does not know how far it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bake.units import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bake.image import Descriptor

_MIB = 1 << 20
_GB = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one kind of registry takes.

    `max_layer_bytes` is the largest blob, `put_bytes` the largest body of a PUT with a whole blob; what is larger, and
    what broke on its way, goes by PATCH in pieces of `chunk_bytes`. `upload_seconds` is how long one upload may take.
    `resumable` says that a broken upload may go on from where the registry says it is. `parallel` is how many uploads
    go at once. `creates` says that a repository which is not there yet comes into being with the first push.
    """

    name: str
    source: str
    hosts: str | None = None
    max_layer_bytes: int | None = None
    put_bytes: int | None = None
    chunk_bytes: int = 64 * _MIB
    upload_seconds: int | None = None
    resumable: bool = True
    parallel: int = 5
    creates: bool = True

    def faults(self, blobs: Sequence[Descriptor]) -> tuple[str, ...]:
        """Which blobs this registry would refuse for their size, in words; told before a byte is sent, or fetched."""
        return self.refused({str(blob.digest): blob.size for blob in blobs})

    def refused(self, sizes: Mapping[str, int]) -> tuple[str, ...]:
        """`faults` for layers that have no digest yet: bytes by what the layer is, in words."""
        limit = self.max_layer_bytes
        return tuple(
            f"{what}: {size_text(size)}, and {self.name} takes at most {size_text(limit)} a layer"
            for what, size in sizes.items()
            if limit is not None and size > limit
        )

    def too_slow(self, size: int) -> str | None:
        """What to tell of an upload that broke, where this registry ends one after a time."""
        if self.upload_seconds is None:
            return None
        minutes, seconds = divmod(self.upload_seconds, 60)
        ends = count_text(self.upload_seconds, "second") if seconds else count_text(minutes, "minute")
        return (
            f"{self.name} ends an upload after {ends}: "
            f"{size_text(size)} need {size_text(size / self.upload_seconds)}/s at least"
        )


GENERIC = Profile(
    name="the registry", source="distribution-spec; five uploads at once, as dockerd (max-concurrent-uploads)"
)

CLOUDFLARE = Profile(
    name="Cloudflare",
    source="bodies of about 100 MB on the free plan: sameersbn/docker-gitlab#2819; 96 MiB as replicate/cog sends them",
    put_bytes=96 * _MIB,
    chunk_bytes=96 * _MIB,
)

HARBOR = Profile(
    name="Harbor",
    source="no limit of its own, but layers of 13.5 GB and up failed behind proxies: goharbor/harbor#15719, #19573",
    hosts=r"(?:.*\.)?harbor\..*",
)

PROFILES = (
    Profile(
        name="GHCR",
        source='docs.github.com, "Working with the Container registry": 10 GB a layer, 10 minutes an upload; '
        "4 MiB a PATCH, 416 otherwise: oras-project/rust-oci-client#35, ocx-sh/ocx#237",
        hosts=r"ghcr\.io|containers\.pkg\.github\.com",
        max_layer_bytes=10 * _GB,
        chunk_bytes=4 * _MIB,
        upload_seconds=600,
    ),
    Profile(
        name="ECR",
        source="AWS service quotas: 52,000 MiB a layer; the Range of a PATCH's answer sticks at the first chunk: "
        "aws/containers-roadmap#2831; a repository is created first: RepositoryNotFoundException",
        hosts=r"\d+\.dkr[.-]ecr(?:-fips)?\..*",
        max_layer_bytes=52_000 * _MIB,
        resumable=False,
        creates=False,
    ),
    Profile(
        name="ECR Public",
        source="AWS ECR Public quotas: 10,000 MiB a layer; otherwise as ECR",
        hosts=r"public\.ecr\.aws",
        max_layer_bytes=10_000 * _MIB,
        resumable=False,
        creates=False,
    ),
    Profile(
        name="Docker Hub",
        source="no limit of a layer is published (docker/for-mac#7359 has a user's word for 10 GB)",
        hosts=r"docker\.io|registry-1\.docker\.io",
    ),
    Profile(
        name="Artifact Registry",
        source="Artifact Registry quotas: 9.9 GB in one request",
        hosts=r".*\.pkg\.dev|(?:.*\.)?gcr\.io",
        put_bytes=9_900_000_000,
        creates=False,
    ),
    Profile(
        name="ACR",
        source="Microsoft, Azure Container Registry service tiers: 200 GiB a layer",
        hosts=r".*\.azurecr\.(?:io|cn|us)",
        max_layer_bytes=200 << 30,
    ),
    Profile(
        name="Quay",
        source="a single PUT above 20 GB is refused: oras-project/oras-py#137",
        hosts=r"quay\.io",
        put_bytes=20 * _GB,
    ),
    HARBOR,
)


def profile_of(host: str, *, headers: Mapping[str, str] | None = None) -> Profile:
    """The profile of a registry by its host, or else by the headers of its first answer (names in lower case)."""
    name = host.lower().partition(":")[0]
    for profile in PROFILES:
        if profile.hosts is not None and re.fullmatch(profile.hosts, name):
            return profile
    headers = headers or {}
    if 'service="harbor-registry"' in headers.get("www-authenticate", ""):
        return HARBOR
    if headers.get("server", "").lower() == "cloudflare":
        return CLOUDFLARE
    return GENERIC

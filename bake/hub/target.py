"""Target: what one request asks the Hub for, as a URL and as words for a person."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from bake.hub.settings import endpoint

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A message names it by `label` and `host`, never by its URL, which may hold a secret."""

    repo_id: str
    revision: str
    label: str
    url: str

    @property
    def host(self) -> str:
        return host_of(self.url)

    @property
    def page(self) -> str:
        """The repository's page, for a person to open."""
        return f"{urlsplit(self.url).scheme}://{self.host}/{self.repo_id}"


def api_target(repo_id: str, kind: str, revision: str, *, query: str = "") -> Target:
    """`kind` is `revision` (what a revision is) or `tree` (what it holds)."""
    url = f"{endpoint()}/api/models/{repo_id}/{kind}/{quote(revision, safe='')}"
    return Target(
        repo_id=repo_id, revision=revision, label=_label(repo_id, revision), url=f"{url}?{query}" if query else url
    )


def file_target(repo_id: str, commit: str, path: str) -> Target:
    url = f"{endpoint()}/{repo_id}/resolve/{commit}/{quote(path)}"
    return Target(repo_id=repo_id, revision=commit, label=f"{_label(repo_id, commit)}/{path}", url=url)


def is_commit(revision: str) -> bool:
    return _COMMIT.fullmatch(revision) is not None


def host_of(url: str) -> str:
    """Host and port, without a user's name and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _label(repo_id: str, revision: str) -> str:
    return f"hf://{repo_id}@{revision[:12] if is_commit(revision) else revision}"

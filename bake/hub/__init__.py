"""Hub: a model on the Hugging Face Hub, named `hf://org/name`: revision -> commit, file list, bytes.

huggingface_hub gives the HTTP client, the token and the cache. The requests, their retries and what is said of a
failure are bake's own: the library's retries differ by version, and its errors quote signed URLs. It imports slowly, so
nothing here imports it before the first request. No message holds a token or the query of a URL.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.digest import Digest
from bake.errors import SourceError
from bake.hub.body import gather, prove_git_blob, read_body
from bake.hub.refusal import not_the_hub, transient
from bake.hub.request import exchange, fetch_json, usual_patience
from bake.hub.settings import cache_folder, endpoint, library, token_file
from bake.hub.target import Target, api_target, file_target, is_commit
from bake.patience import Attempts, Patience
from bake.select import check_path
from bake.snapshot import SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["HubSnapshot", "Patience", "endpoint", "resolve", "token_file", "usual_patience"]

_REPO_ID = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSnapshot:
    """A repository at one commit. `listing` is empty where the commit was pinned rather than resolved."""

    repo_id: str
    commit: str
    license: str | None = None
    gated: bool = False
    listing: tuple[SourceFile, ...] = ()
    patience: Patience = field(default_factory=usual_patience, repr=False, compare=False)
    _git_oids: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def at(cls, repo_id: str, commit: str, *, patience: Patience | None = None) -> HubSnapshot:
        """A commit that the lock pins; asks the Hub nothing. Raises SourceError if either name is malformed."""
        _check_repo_id(repo_id)
        if not is_commit(commit):
            raise SourceError(f"hf://{repo_id}: expected a commit of 40 lower-case hex digits, found {commit!r}")
        return cls(repo_id=repo_id, commit=commit, patience=patience or usual_patience())

    def check(self, kept: Iterable[SourceFile]) -> None:
        """Raises one SourceError that names every path that no image can hold."""
        faults = [f"{file.path!r} {fault}" for file in kept if (fault := check_path(file.path))]
        if faults:
            raise SourceError(
                "\n  ".join([f"hf://{self.repo_id}: {len(faults)} files cannot be used:", *faults]),
                hint="leave them out with an exclude glob",
            )

    def stream(self, path: str, *, size: int, offset: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes of a file of `size` from `offset` up to its end or `stop`, in chunks of about 1 MiB.

        Whatever breaks meanwhile is taken up again.

        The caller proves an LFS file by its sha256. A file that git itself holds is proven here, by its git object id,
        where it was listed and is read from its start; that fault is raised after the last chunk. Raises DigestError
        for other bytes or another size, SourceError for a file that may not be had, and NetworkError.
        """
        pieces = self._pieces(path, size=size, offset=offset, stop=stop)
        oid = self._git_oids.get(path)
        if oid is not None and offset == 0 and stop in {None, size}:
            pieces = prove_git_blob(pieces, size=size, oid=oid, label=f"hf://{self.repo_id}/{path}")
        return gather(pieces)

    def cached(self, path: str) -> Path | None:
        """The file in the user's Hugging Face cache, of this commit and unverified; None if it is not there."""
        try:
            found = library("file_download").try_to_load_from_cache(
                self.repo_id, path, cache_dir=cache_folder(), revision=self.commit
            )
        except OSError:  # a cache that this user may not read is no cache
            return None
        return Path(found) if isinstance(found, str) else None

    def _pieces(self, path: str, *, size: int, offset: int, stop: int | None) -> Iterator[bytes]:
        """The bytes as they arrive. A body that breaks is continued at the byte where it broke."""
        end = size if stop is None else stop
        target = file_target(self.repo_id, self.commit, path)
        attempts = Attempts(self.patience, target.label)
        position = offset
        while position < end:
            with attempts.once(), exchange(target, offset=position, stop=stop) as response:
                for piece in read_body(response, target, offset=position, size=size):
                    attempts.failures = 0
                    wanted = piece[: end - position]  # a server that ignores Range sends more
                    position += len(wanted)
                    yield wanted
                    if position == end and end < size:
                        break
                if position < end:
                    raise transient(f"the body ended at byte {position} of {end}")


def resolve(repo_id: str, revision: str | None = None, *, patience: Patience | None = None) -> HubSnapshot:
    """Ask the Hub what a branch, tag or commit (None: main) is now, and list its files with sizes and LFS digests.

    Raises SourceError where there is no such thing or it may not be seen, UsageError for a malformed HF_ENDPOINT, and
    NetworkError.
    """
    _check_repo_id(repo_id)
    patience = patience or usual_patience()
    asked = api_target(repo_id, "revision", revision or "main")
    about, _ = fetch_json(asked, patience)
    with _parsing(asked):
        commit, license_id, gated = _parse_commit(about), _parse_license(about), bool(about.get("gated"))
    listing, git_oids = _list_tree(repo_id, commit, patience)
    return HubSnapshot(
        repo_id=repo_id,
        commit=commit,
        license=license_id,
        gated=gated,
        listing=listing,
        patience=patience,
        _git_oids=git_oids,
    )


def _check_repo_id(repo_id: str) -> None:
    """The grammar of huggingface_hub's validate_repo_id. Raises SourceError."""
    well_formed = _REPO_ID.fullmatch(repo_id) and len(repo_id) <= 96 and not repo_id.endswith((".", "-", ".git"))
    if not well_formed or "--" in repo_id or ".." in repo_id:
        raise SourceError(f"not the name of a model on the Hub: {repo_id!r}", hint="it is written hf://org/name")


def _list_tree(repo_id: str, commit: str, patience: Patience) -> tuple[tuple[SourceFile, ...], dict[str, str]]:
    """Every page of the recursive listing: the files sorted by path, and the git object ids of those not in LFS."""
    files: list[SourceFile] = []
    git_oids: dict[str, str] = {}
    query: str | None = "recursive=true&expand=false"
    while query:
        target = api_target(repo_id, "tree", commit, query=query)
        entries, query = fetch_json(target, patience)
        with _parsing(target):
            found = [entry for entry in entries if entry["type"] == "file"]
            files += [_parse_file(entry) for entry in found]
            git_oids |= {str(entry["path"]): str(entry["oid"]) for entry in found if not entry.get("lfs")}
    return tuple(sorted(files, key=lambda file: file.path)), git_oids


def _parse_file(entry: dict[str, Any]) -> SourceFile:
    if lfs := entry.get("lfs"):
        return SourceFile(path=str(entry["path"]), size=int(lfs["size"]), digest=Digest.parse_hex(lfs["oid"]))
    return SourceFile(path=str(entry["path"]), size=int(entry["size"]))


def _parse_commit(about: dict[str, Any]) -> str:
    if not is_commit(about["sha"]):
        raise ValueError("not a commit")
    return str(about["sha"])


def _parse_license(about: dict[str, Any]) -> str | None:
    """The model card's licence; where a licence is the model's own, the card says `other` and its name beside it."""
    card = about.get("cardData") or {}
    found = card.get("license")
    if found == "other":
        found = card.get("license_name") or found
    if isinstance(found, list):
        return ", ".join(str(one) for one in found)
    return str(found) if found else None


@contextmanager
def _parsing(target: Target) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise not_the_hub(target) from error

"""Asking a registry what it has of the layers to come, with the rights that one has there. Nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake.api.remote import open_registry
from bake.api.workers import Workers, results
from bake.errors import ImageError, OutputError, SourceError
from bake.image import LAYER, Descriptor
from bake.registry import profile_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bake.api.foreseeing import ForeseenLayer
    from bake.api.workspace import Workspace
    from bake.image import Image
    from bake.registry import Access, Profile, Reference, Registry

    Recognize = Callable[[Registry], Image | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a registry says: the layers, with how each would come there, and what the reference names now.

    `image` is the one to come, where it is there and was recognized: then the layers are its, with their digests.
    `notes` are why it could not be asked all that it should be.
    """

    profile: Profile
    layers: tuple[ForeseenLayer, ...]
    named: Descriptor | None = None
    image: Image | None = None
    notes: tuple[str, ...] = ()


def ask_registry(
    workspace: Workspace, reference: Reference, layers: Sequence[ForeseenLayer], *, recognize: Recognize
) -> Answered:
    """Ask for every layer whose digest is known, as one who pushes; who may not push asks as one who pulls.

    `recognize` says whether all of the image is there. A repository that is not there is an empty one. Raises
    OutputError where it may not even be read, and NetworkError.
    """
    try:
        found = _ask(workspace, reference, layers, recognize, access="push")
    except OutputError as refused:
        return _ask_as_reader(workspace, reference, layers, recognize, refused)
    if _is_empty(found) and _is_absent(workspace, reference):
        return replace(found, notes=(f"{reference.name} is not there yet: taken as empty",))
    return found


def _ask_as_reader(
    workspace: Workspace,
    reference: Reference,
    layers: Sequence[ForeseenLayer],
    recognize: Recognize,
    refused: OutputError,
) -> Answered:
    """As a pull request from a fork does, whose token can only read. Raises what was refused, where that cannot be."""
    note = f"not allowed to push here: {refused.message}"
    try:
        found = _ask(workspace, reference, layers, recognize, access="pull")
    except SourceError as error:
        if not _is_denied(error, reference):
            raise refused from error
        absent = f"{reference.name} is not there yet, or not to be read: taken as empty"
        return Answered(profile=profile_of(reference.host), layers=tuple(layers), notes=(note, absent))
    return replace(found, notes=(note,))


def _ask(
    workspace: Workspace,
    reference: Reference,
    layers: Sequence[ForeseenLayer],
    recognize: Recognize,
    *,
    access: Access,
) -> Answered:
    workers = Workers()
    with open_registry(workspace, reference, access=access, sleep=workers.sleep) as registry, workers:
        named = registry.resolve()  # alone, and first: a refusal comes once
        if image := recognize(registry):
            whole = zip(layers, image.manifest.layers, strict=True)
            there = tuple(replace(layer, digest=blob.digest, arrival="there", fetch=0) for layer, blob in whole)
            return Answered(profile=registry.profile, layers=there, named=named, image=image)
        asked = results(workers.download(_look_up, registry, layer) for layer in layers)
        return Answered(profile=registry.profile, layers=tuple(asked), named=named)


def _look_up(registry: Registry, layer: ForeseenLayer) -> ForeseenLayer:
    """What is there neither travels nor is fetched."""
    if layer.digest is None or layer.size is None:
        return layer
    blob = Descriptor(media_type=LAYER, digest=layer.digest, size=layer.size)
    return replace(layer, arrival="there", fetch=0) if registry.has_blob(blob) else layer


def _is_empty(found: Answered) -> bool:
    return found.named is None and all(layer.arrival != "there" for layer in found.layers)


def _is_absent(workspace: Workspace, reference: Reference) -> bool:
    """Whether the registry says that there is no such repository ("Listing Tags": 404). Not all say so."""
    try:
        with open_registry(workspace, reference) as registry:
            registry.tags()
    except ImageError:
        return True
    except SourceError:  # tags may be for others to list
        return False
    return False


def _is_denied(error: SourceError, reference: Reference) -> bool:
    """GHCR says `denied` of a package that is not there, as of one that is not to be read; strangers it calls so."""
    return "denied" in error.message.partition(f"{reference.repository}: ")[2].lower()

"""`verify`: an image in a layout or a registry, a folder or a model of the lock, against what it should be.

Every fault at once.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from bake import plan
from bake.api.outputs import names_host
from bake.api.remote import reference_of
from bake.api.verified import Verified, base_layers, environment_faults, read_record, verify_model
from bake.api.verifying_folders import verify_folder
from bake.api.verifying_remote import verify_remote
from bake.api.workers import Workers, results
from bake.api.workspace import shown_path
from bake.digest import Digest, stream_digest
from bake.errors import CheckFailed, ImageError, UsageError
from bake.image import validate
from bake.layout import Layout
from bake.lock import ModelId
from bake.rootfs import RootFS

if TYPE_CHECKING:
    from collections.abc import Callable

    from bake.api.workspace import Workspace
    from bake.entrypoint.verify import Level
    from bake.image import Blobs, Descriptor, Image
    from bake.record import Record

    Advance = Callable[[int], object]


def refuse(verified: Verified) -> None:
    """Raise CheckFailed with every fault, if there is one."""
    if count := verified.fault_count:
        raise CheckFailed("\n".join([f"{verified.target}: {count} fault{'s' if count > 1 else ''}", *verified.lines()]))


def verify_target(workspace: Workspace, target: str, *, level: Level, against: ModelId | None = None) -> Verified:
    """Verify a folder, `oci:PATH[@DIGEST]`, NAME@VERSION (its image in `dist/`), or a reference in a registry.

    A reference begins with its registry's host, or has `registry:` before it. Faults are returned, not raised. Raises
    UsageError for a target of another form, LockError for a model that the lock does not hold, and ImageError for an
    image that cannot be read at all; for one in a registry also SourceError, NetworkError and DigestError.
    """
    if target.startswith("oci:") or (Path(target) / "oci-layout").is_file():
        return _verify_layout(workspace, target.removeprefix("oci:"), level=level, against=against)
    if target and Path(target).is_dir():
        return verify_folder(workspace, Path(target), level=level, against=against)
    if target.startswith("registry:") or names_host(target):
        return verify_remote(workspace, reference_of(target), level=level, expected=_expected(workspace, against))
    model = _model_id(target)
    path = workspace.default_output(workspace.load().find(model).id)
    if not path.exists():
        raise ImageError(
            f"{model} is not in a folder: no {shown_path(path)}",
            hint=f"bake build {model} --to oci; or in Docker: bake run {model} --gpus none -- verify --level full",
        )
    return _verify_layout(workspace, str(path), level=level, against=against or model)


def verify_image(
    image: Image,
    blobs: Blobs,
    *,
    target: str,
    expected: Record | None = None,
    level: Level = "quick",
    advance: Advance = lambda _: None,
) -> Verified:
    """Verify an image: its documents, its blobs, and every model in it against the image's own record.

    `full` hashes every layer; `quick` looks into bake's own, and at the sizes of the base's.
    """
    start = time.monotonic()
    read = image.manifest.layers[0 if level == "full" else base_layers(image) :]
    altered = _altered_blobs(read, blobs, advance) if level == "full" else {}
    faults = [*validate(image, blobs), *(_altered(layer, found) for layer, found in altered.items())]
    rootfs = RootFS(blobs)
    for layer in read:
        try:
            rootfs.apply(layer)
        except ImageError as error:
            faults.append(error.message)
    record, record_faults = read_record(rootfs, expected=expected)
    faults += [*record_faults, *environment_faults(image, record)]
    models = [
        verify_model(model, rootfs.tree(model.path.lstrip("/")), level=level, against="its record", advance=advance)
        for model in record.models
    ]
    return Verified(
        target=target,
        level=level,
        seconds=time.monotonic() - start,
        models=tuple(models),
        image_faults=tuple(dict.fromkeys(faults)),
        altered=tuple(altered),
    )


def _verify_layout(workspace: Workspace, place: str, *, level: Level, against: ModelId | None) -> Verified:
    path, at, digest = place.rpartition("@sha256:")
    path, digest = (path, f"sha256:{digest}") if at else (place, "")
    layout = Layout(Path(path))
    image = layout.image(digest=_digest(digest) if digest else None)
    expected = _expected(workspace, against)
    size = sum(layer.size for layer in image.manifest.layers)
    size += sum(file.size for file in expected.models[0].files) if expected else size
    with workspace.progress.task(f"verifying {path}", size if level == "full" else 0) as advance:
        verified = verify_image(image, layout, target=f"oci:{path}", expected=expected, level=level, advance=advance)
    for layer in verified.altered:  # so that the next build does not take it for what it was
        workspace.store.forget(layout.blob(layer))
    return verified


def _expected(workspace: Workspace, against: ModelId | None) -> Record | None:
    return plan.plan_image(workspace.load(), against).record if against else None


def _altered_blobs(layers: tuple[Descriptor, ...], blobs: Blobs, advance: Advance) -> dict[Digest, Digest]:
    """Layers whose bytes are not those of their digest, with the digest that the bytes have."""
    present = [layer for layer in layers if blobs.size(layer.digest) is not None]
    with Workers() as workers:
        watched = workers.watch(advance)
        found = results(workers.compute(_blob_digest, layer, blobs, watched) for layer in present)
    return {layer.digest: digest for layer, digest in zip(present, found, strict=True) if digest != layer.digest}


def _altered(layer: Digest, found: Digest) -> str:
    return f"layer {layer} is altered: its bytes have the digest {found}; the next build writes it anew"


def _blob_digest(layer: Descriptor, blobs: Blobs, advance: Advance) -> Digest:
    with blobs.open(layer.digest) as stream:
        return stream_digest(stream, advance=advance)[0]


def _model_id(target: str) -> ModelId:
    try:
        return ModelId.parse(target)
    except ValueError as error:
        raise UsageError(
            f"expected NAME@VERSION, a reference with its registry's host, oci:PATH or a folder, found {target!r}",
            hint="there is no such folder here; bake list shows the models of the lock",
        ) from error


def _digest(text: str) -> Digest:
    try:
        return Digest.parse(text)
    except ValueError as error:
        raise UsageError(f"expected oci:PATH@sha256:…: {error}") from error

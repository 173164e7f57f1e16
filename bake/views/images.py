"""Images as people and programs read of them: `build`, `verify`, `pull`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.units import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.api import Built, Pulled, Verified
    from bake.api.verified import VerifiedModel


def build_document(built: Built) -> dict[str, Any]:
    return {
        "model": str(built.id),
        "output": str(built.output),
        "reference": built.reference,
        "digest": str(built.digest),
        "size": built.size,
        "layers": built.layers,
        "written_layers": built.written,
        "written_bytes": built.written_bytes,
        "sent_bytes": built.sent_bytes,
        "lock_changed": built.recorded,
    }


def build_notes(built: Built, *, lock: str) -> Iterator[str]:
    """What a person is told after a build: what was made, what it took, and what to type next."""
    yield f"{built.id}: {built.digest}, {size_text(built.size)} in {count_text(built.layers, 'layer')}"
    packed = f"packed {count_text(built.written, 'layer')} ({size_text(built.written_bytes)}), the others were there"
    yield packed if built.output.kind == "oci" else f"{packed}; sent {size_text(built.sent_bytes)} to Docker"
    yield "no token in the config, the history, or any layer but the base's and the weights' own"
    if built.recorded:
        yield f"{lock}: layer digests recorded, commit it"
    if built.output.kind == "oci":
        yield f"next: bake verify {built.reference.partition('@')[0]}"
    elif built.runs:
        yield f"next: docker run --rm --gpus all --shm-size 10g {built.output.place} data.train_files=…"


def verify_lines(verified: Verified) -> Iterator[str]:
    if verified.fault_count:
        yield from verified.lines()
        return
    for model in verified.models:
        took = f"({verified.level}, {verified.seconds:.2f} s)"
        yield f"ok  {model.name}: {count_text(model.files, 'file')}, {size_text(model.size)}, {_compared(model)} {took}"
    if verified.read is not None:
        yield f"    read {size_text(verified.read)} from the registry"
    if verified.unread:
        yield f"    not looked into: {count_text(verified.unread, 'layer')} above the base; --level full reads them"


def _compared(model: VerifiedModel) -> str:
    if not model.is_seen:
        return "in layers that are compressed, or not as bake packs them, so only their presence is known"
    return f"as in {model.against}" if model.against else "structure only: there is no record to compare with"


def verify_document(verified: Verified) -> dict[str, Any]:
    return {
        "target": verified.target,
        "level": verified.level,
        "ok": not verified.fault_count,
        "seconds": round(verified.seconds, 3),
        "image_faults": list(verified.image_faults),
        "unread_layers": verified.unread,
        "read_bytes": verified.read,
        "models": [
            {
                "model": model.name,
                "against": model.against,
                "folder": model.folder,
                "files": model.files,
                "size": model.size,
                "seen": model.is_seen,
                "faults": [fault.document() for fault in model.faults],
            }
            for model in verified.models
        ],
    }


def pull_document(pulled: Pulled) -> dict[str, Any]:
    return {
        "model": pulled.model,
        "reference": pulled.reference,
        "folder": str(pulled.folder),
        "files": pulled.files,
        "size": pulled.size,
        "fetched_files": pulled.fetched,
        "fetched_bytes": pulled.fetched_size,
    }


def pull_notes(pulled: Pulled) -> Iterator[str]:
    files = f"{count_text(pulled.files, 'file')}, {size_text(pulled.size)}"
    yield f"{pulled.model}: {files}, each as the record of {pulled.reference} has it"
    there = pulled.files - pulled.fetched
    yield f"fetched {count_text(pulled.fetched, 'file')} ({size_text(pulled.fetched_size)}), {there:,} were there"

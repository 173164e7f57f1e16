"""Values as people and programs read them:

lines of text, and JSON documents. Pure; the command line prints what comes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.entrypoint.fault import printable
from bake.units import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.api import Built, Forecast, Verified
    from bake.lock import Lock, LockedModel
    from bake.store import Usage

_DIGEST_SHOWN = 19  # sha256: and twelve digits


def columns(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> list[str]:
    """Rows aligned in columns two spaces apart; `right` are the numbers of those that line up at their right side."""
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


# --- list


def list_lines(lock: Lock) -> list[str]:
    if not lock.models:
        return []
    rows = [("MODEL", "SIZE", "FILES", "BASE", "SOURCE", "COMMIT")]
    rows += [
        (
            str(model.id),
            size_text(model.size) if model.is_locked else "-",
            str(len(model.files)) if model.is_locked else "-",
            model.base,
            model.source,
            _state(model),
        )
        for model in lock.models
    ]
    return columns(rows, right=frozenset({1, 2}))


def list_document(lock: Lock) -> list[dict[str, Any]]:
    return [_summary(model) for model in lock.models]


def _state(model: LockedModel) -> str:
    if not model.is_locked:
        return "not resolved: bake lock"
    if model.is_stale:
        return "edited since it was resolved"
    return model.commit[:12] if model.commit else "-"


def _summary(model: LockedModel) -> dict[str, Any]:
    return {
        "model": str(model.id),
        "source": model.source,
        "revision": model.revision,
        "commit": model.commit,
        "base": model.base,
        "files": len(model.files),
        "size": model.size,
        "locked": model.is_locked,
        "stale": model.is_stale,
        "set_digest": str(model.set_digest) if model.set_digest else None,
    }


# --- show


def show_lines(model: LockedModel, forecast: Forecast | None) -> Iterator[str]:
    yield str(model.id)
    yield from (f"  {line}" for line in columns(_facts(model)))
    if model.files:
        yield ""
        yield f"{count_text(len(model.files), 'file')}, {size_text(model.size)}"
        rows = [(file.path, size_text(file.size), f"sha256:{file.digest.hex}") for file in model.files]
        yield from (f"  {line}" for line in columns(rows, right=frozenset({1})))
    if model.excluded:
        yield ""
        yield f"left out ({count_text(len(model.excluded), 'file')})"
        left = [
            (printable(item.path), size_text(item.size) if item.size is not None else "-", item.reason)
            for item in model.excluded
        ]
        yield from (f"  {line}" for line in columns(left, right=frozenset({1})))
    if forecast:
        yield ""
        yield f"{count_text(len(forecast.layers), 'layer')} of weights, configuration and tokenizer"
        yield from (f"  {line}" for line in columns(_layer_rows(forecast), right=frozenset({0, 1})))


def show_document(model: LockedModel, forecast: Forecast | None) -> dict[str, Any]:
    return _summary(model) | {
        "license": model.license,
        "gated": model.gated,
        "trust_remote_code": model.trust_remote_code,
        "overrides": list(model.overrides),
        "critic": str(model.critic) if model.critic else None,
        "reward_model": str(model.reward_model) if model.reward_model else None,
        "include": list(model.include),
        "exclude": list(model.exclude),
        "files": [{"path": file.path, "size": file.size, "sha256": file.digest.hex} for file in model.files],
        "excluded": [{"path": item.path, "size": item.size, "reason": item.reason} for item in model.excluded],
        "layers": _layer_documents(forecast) if forecast else [],
    }


def _facts(model: LockedModel) -> list[tuple[str, str]]:
    facts = {
        "source": model.source,
        "revision": model.revision,
        "commit": model.commit,
        "base": model.base,
        "critic": model.critic,
        "reward model": model.reward_model,
        "license": model.license,
        "overrides": " ".join(model.overrides),
        "gated": "yes: the Hub asks for a token" if model.gated else None,
        "include": ", ".join(model.include),
        "exclude": ", ".join(model.exclude),
        "set digest": model.set_digest,
        "state": None if model.is_locked and not model.is_stale else _state(model),
    }
    return [(key, str(value)) for key, value in facts.items() if value]


# --- plan


def plan_lines(forecast: Forecast) -> Iterator[str]:
    base = forecast.plan.base
    yield f"{forecast.plan.id} -> {forecast.output.shown}"
    if base is None:
        yield "base     scratch: an image of weights alone"
    else:
        size = size_text(forecast.base) if forecast.base is not None else "size not known here"
        yield f"base     {base.image}{f'@{base.digest}' if base.digest else ''} ({size})"
    yield from (f"  {line}" for line in columns(_layer_rows(forecast), right=frozenset({0, 1})))
    total = size_text(forecast.size + (forecast.base or 0))
    layers = count_text(len(forecast.layers), "layer")
    yield f"total    {total} in {layers}{' on the base' if base else ''}, and a small one for record and entrypoint"
    to_do = {"fetch": forecast.fetch, "read": forecast.read, "write": forecast.write}
    yield f"to do    {', '.join(f'{verb} {size_text(size)}' for verb, size in to_do.items())}"


def plan_document(forecast: Forecast) -> dict[str, Any]:
    base = forecast.plan.base
    return {
        "model": str(forecast.plan.id),
        "output": str(forecast.output),
        "base": {"name": base.name, "image": base.image, "digest": str(base.digest) if base.digest else None}
        if base
        else None,
        "base_size": forecast.base,
        "size": forecast.size,
        "fetch": forecast.fetch,
        "read": forecast.read,
        "write": forecast.write,
        "layers": _layer_documents(forecast),
    }


def _layer_rows(forecast: Forecast) -> list[tuple[str, ...]]:
    return [
        (
            f"{number}",
            size_text(item.plan.size),
            str(item.diff_id)[:_DIGEST_SHOWN] if item.diff_id else "(not packed yet)",
            item.state,
            _paths([file.path for file in item.plan.files]),
        )
        for number, item in enumerate(forecast.layers, start=1)
    ]


def _layer_documents(forecast: Forecast) -> list[dict[str, Any]]:
    return [
        {
            "diff_id": str(item.diff_id) if item.diff_id else None,
            "size": item.plan.size,
            "files": [item.plan.target(file) for file in item.plan.files],
            "state": item.state,
            "fetch": item.fetch,
        }
        for item in forecast.layers
    ]


def _paths(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


# --- build and verify


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
        compared = f"as in {model.against}" if model.against else "structure only: there is no record to compare with"
        yield (
            f"ok  {model.name}: {count_text(model.files, 'file')}, {size_text(model.size)}, {compared} "
            f"({verified.level}, {verified.seconds:.2f} s)"
        )


def verify_document(verified: Verified) -> dict[str, Any]:
    return {
        "target": verified.target,
        "level": verified.level,
        "ok": not verified.fault_count,
        "seconds": round(verified.seconds, 3),
        "image_faults": list(verified.image_faults),
        "models": [
            {
                "model": model.name,
                "against": model.against,
                "folder": model.folder,
                "files": model.files,
                "size": model.size,
                "faults": [fault.document() for fault in model.faults],
            }
            for model in verified.models
        ],
    }


# --- cache


def cache_lines(usage: Sequence[Usage], *, root: str) -> Iterator[str]:
    yield root
    rows = [
        (
            item.kind,
            f"{item.count:,}",
            size_text(item.size),
            f"{size_text(item.shared)} of it also in an image layout" if item.shared else "",
        )
        for item in usage
    ]
    yield from (f"  {line}" for line in columns(rows, right=frozenset({1, 2})))


def cache_document(usage: Sequence[Usage], *, root: str) -> dict[str, Any]:
    return {
        "path": root,
        "kinds": {item.kind: {"count": item.count, "size": item.size, "shared": item.shared} for item in usage},
    }

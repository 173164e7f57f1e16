"""The lock as people and programs read it: `list` and `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.entrypoint.fault import printable
from bake.units import count_text, size_text
from bake.views.plans import layer_documents, layer_rows
from bake.views.table import columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.api import Forecast
    from bake.lock import Lock, LockedModel, Resharded


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


def show_lines(model: LockedModel, forecast: Forecast | None) -> Iterator[str]:
    yield str(model.id)
    yield from (f"  {line}" for line in columns(_facts(model)))
    if model.files:
        yield ""
        yield f"{count_text(len(model.files), 'file')}, {size_text(model.size)}"
        rows = [(file.path, size_text(file.size), f"sha256:{file.digest.hex}") for file in model.files]
        yield from (f"  {line}" for line in columns(rows, right=frozenset({1})))
    if model.resharded:
        yield ""
        yield f"re-sharded to {model.max_shard_size} a file at most, every tensor as it is"
        yield from (f"  {line}" for item in model.resharded for line in _resharded_lines(item))
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
        yield from (f"  {line}" for line in columns(layer_rows(forecast), right=frozenset({0, 1})))


def _resharded_lines(item: Resharded) -> Iterator[str]:
    yield f"{item.source.path}  {size_text(item.source.size)}  sha256:{item.source.digest.hex}"
    yield from (f"  -> {path}" for path in item.files)


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
        "max_shard_size": model.max_shard_size,
        "files": [{"path": file.path, "size": file.size, "sha256": file.digest.hex} for file in model.files],
        "resharded": [
            {
                "path": item.source.path,
                "size": item.source.size,
                "sha256": item.source.digest.hex,
                "files": list(item.files),
            }
            for item in model.resharded
        ],
        "excluded": [{"path": item.path, "size": item.size, "reason": item.reason} for item in model.excluded],
        "layers": layer_documents(forecast) if forecast else [],
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
        "max shard size": model.max_shard_size,
        "set digest": model.set_digest,
        "state": None if model.is_locked and not model.is_stale else _state(model),
    }
    return [(key, str(value)) for key, value in facts.items() if value]

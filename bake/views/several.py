"""Several images as people and programs read of them: `build` and `plan` of more than one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from bake.api import Pushed
from bake.units import count_text, size_text
from bake.views.images import build_document
from bake.views.plans import plan_document, plan_lines
from bake.views.table import columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bake.api import Built, Foretold, Outcome
    from bake.errors import BakeError
    from bake.lock import ModelId


def outcome_lines(outcomes: Sequence[Outcome], *, seconds: float) -> Iterator[str]:
    """What became of each image, and all of it together; `seconds` is how long that took."""
    rows = [("MODEL", "OUTCOME", "LAYERS", "BYTES", "SECONDS")]
    rows += [
        (str(item.id), item.state, layers_text([item]), size_text(moved_bytes(item)), f"{item.seconds:.1f}")
        if item.made
        else (str(item.id), _unmade(item), "-", "-", f"{item.seconds:.1f}" if item.error else "-")
        for item in outcomes
    ]
    yield from columns(rows, right=frozenset({3, 4}))
    yield f"{totals_text(outcomes)}, {seconds:.1f} s"


def totals_text(outcomes: Sequence[Outcome]) -> str:
    """`3 images: 2 built, 1 failed; 4 sent, 2 mounted, 18.4 kB`."""
    states = ", ".join(f"{count} {state}" for state, count in Counter(item.state for item in outcomes).items())
    told = f"{count_text(len(outcomes), 'image')}: {states}"
    if not any(item.made for item in outcomes):
        return told
    return f"{told}; {layers_text(outcomes)}, {size_text(sum(map(moved_bytes, outcomes)))}"


def layers_text(outcomes: Iterable[Outcome]) -> str:
    """Layers that were sent, mounted or packed: `3 sent, 2 mounted`."""
    made = [item.made for item in outcomes if item.made]
    pushed = [item for item in made if isinstance(item, Pushed)]
    counts = {
        "sent": sum(item.sent for item in pushed) if pushed else None,
        "mounted": sum(item.mounted for item in pushed) or None,
        "packed": sum(item.written for item in made if not isinstance(item, Pushed))
        if len(made) > len(pushed)
        else None,
    }
    return ", ".join(f"{count} {how}" for how, count in counts.items() if count is not None)


def moved_bytes(outcome: Outcome) -> int:
    """Bytes that were sent; or written, where the image went into a folder."""
    made = outcome.made
    if made is None:
        return 0
    return made.sent_bytes if isinstance(made, Pushed) or made.output.kind == "docker" else made.written_bytes


def outcome_documents(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    return [
        (_made_document(item.made) if item.made else {"model": str(item.id), "output": str(item.output)})
        | {"outcome": item.state, "model_bytes": item.size, "seconds": round(item.seconds, 3)}
        | ({"error": error_document(item.error)} if item.error else {})
        for item in outcomes
    ]


def error_document(error: BakeError) -> dict[str, Any]:
    return {"message": error.message, "hint": error.hint, "exit_code": error.code}


def failure_lines(model: ModelId, error: BakeError) -> Iterator[str]:
    yield f"error: {model}: {error.message}"
    if error.hint:
        yield f"hint: {error.hint}"


def foretold_lines(foretold: Sequence[Foretold]) -> Iterator[str]:
    """Each plan, and what all of them add up to; a layer that images share is in it once."""
    for item in foretold:
        if item.forecast:
            yield from plan_lines(item.forecast)
        else:
            yield f"{item.id} -> {item.output.shown}"
            yield f"failed   {item.error.message}" if item.error else f"left out {size_text(item.size)}, too large"
        yield ""
    yield f"together {foretold_totals(foretold)}"


def foretold_totals(foretold: Sequence[Foretold]) -> str:
    """`3 images: upload 18.4 kB, fetch 0 B`."""
    found = [item.forecast for item in foretold if item.forecast]
    pushes = [forecast.push for forecast in found if forecast.push]
    if pushes:
        sums = {"upload": sum(push.upload for push in pushes), "fetch": sum(push.fetch for push in pushes)}
    else:
        sums = {verb: sum(getattr(item, verb) for item in found) for verb in ("fetch", "read", "write")}
    told = ", ".join(f"{verb} {size_text(size)}" for verb, size in sums.items())
    return f"{count_text(len(found), 'image')}: {told}"


def foretold_documents(foretold: Iterable[Foretold]) -> list[dict[str, Any]]:
    return [
        (plan_document(item.forecast) if item.forecast else {"model": str(item.id), "output": str(item.output)})
        | {"outcome": "planned" if item.forecast else "failed" if item.error else "too large"}
        | {"model_bytes": item.size}
        | ({"error": error_document(item.error)} if item.error else {})
        for item in foretold
    ]


def _made_document(made: Built | Pushed) -> dict[str, Any]:
    return made.document() if isinstance(made, Pushed) else build_document(made)


def _unmade(outcome: Outcome) -> str:
    return outcome.state if outcome.error else f"{outcome.state} ({size_text(outcome.size)})"

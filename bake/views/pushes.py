"""What a push would do, as people and programs read it: `plan --to REF`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.units import count_text, size_text, time_text
from bake.views.table import DIGEST_SHOWN, columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bake.api.foreseeing import Foreseen, ForeseenLayer


def push_lines(push: Foreseen) -> Iterator[str]:
    below = [layer for layer in push.layers if layer.part == "base"]
    if below:
        yield f"         {count_text(len(below), 'layer')}: {_arrivals(below)}"
    own = [layer for layer in push.layers if layer.part != "base"]
    rows = [
        (
            f"{number}",
            size_text(layer.size) if layer.size is not None else "-",
            str(layer.digest)[:DIGEST_SHOWN] if layer.digest else "(not packed yet)",
            _ARRIVALS[layer.arrival],
            layer.what,
        )
        for number, layer in enumerate(own, start=1)
    ]
    yield from (f"  {line}" for line in columns(rows, right=frozenset({0, 1})))
    yield f"to do    upload {size_text(push.upload)}, fetch {size_text(push.fetch)}"
    if push.seconds is not None and push.rate is not None:
        yield f"time     {time_text(push.seconds)} at {size_text(push.rate)}/s, if nothing else is the limit"
    yield f"image    {_image_to_come(push)}"
    yield from (f"note     {note}" for note in push.notes)
    yield from (f"refused  {fault}" for fault in push.faults)


_ARRIVALS = {"there": "there", "mount": "to mount", "upload": "to upload"}


def _arrivals(layers: Sequence[ForeseenLayer]) -> str:
    """`3 there, 2 to upload (1.2 GB)`."""
    found = {name: [layer.size or 0 for layer in layers if layer.arrival == name] for name in _ARRIVALS}
    return ", ".join(
        f"{len(sizes)} {_ARRIVALS[name]} ({size_text(sum(sizes))})" for name, sizes in found.items() if sizes
    )


def _image_to_come(push: Foreseen) -> str:
    if push.digest is None:
        unknown = sum(layer.digest is None for layer in push.layers)
        return f"its digest is not known before {count_text(unknown, 'layer')} {'is' if unknown == 1 else 'are'} packed"
    return f"{push.digest}{', which is there: nothing to do' if push.is_there else ''}"


def push_document(push: Foreseen) -> dict[str, Any]:
    return {
        "registry": push.registry,
        "digest": str(push.digest) if push.digest else None,
        "is_there": push.is_there,
        "upload": push.upload,
        "fetch": push.fetch,
        "rate": push.rate,
        "seconds": push.seconds,
        "faults": list(push.faults),
        "notes": list(push.notes),
        "layers": [
            {
                "part": layer.part,
                "what": layer.what,
                "size": layer.size,
                "digest": str(layer.digest) if layer.digest else None,
                "arrival": layer.arrival,
                "fetch": layer.fetch,
            }
            for layer in push.layers
        ],
    }

"""The scan that every build ends with: no token in what was built. A find fails it before anything names the image."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bake import hub
from bake.digest import CHUNK
from bake.errors import CheckFailed
from bake.scan import Scanner, holds_token

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from bake.digest import Digest
    from bake.image import Blobs, Image

_SHORTEST = 8
"""Characters of what can be a token; what is shorter (`none`, `test`) stands for none."""

_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_HINT = "a token in an image is everybody's who can pull it: revoke it, find where it came from, and build again"


def known_tokens() -> tuple[str, ...]:
    """The Hub tokens of this user: from the environment and from the login file."""
    stored = hub.token_file()
    try:
        text = stored.read_text(encoding="utf-8", errors="replace") if stored else ""
    except OSError:
        text = ""
    found = [token.strip() for token in (*(os.environ.get(variable, "") for variable in _VARIABLES), text)]
    return tuple(dict.fromkeys(token for token in found if len(token) >= _SHORTEST))


def refuse_tokens(image: Image, blobs: Blobs, *, proven: Collection[Digest], public: Collection[Digest] = ()) -> None:
    """Search an image's config, with its history, its manifest, and every layer but those that are `proven`.

    These are the base's, and layers of weights alone, which are the locked bytes and nothing else. In `public` layers,
    whose bytes everybody has, this user's own tokens are looked for. Raises CheckFailed.
    """
    documents = {"config and history": image.config.dumps(), "manifest": image.manifest.dumps()}
    refuse_tokens_in(documents.items())
    tokens = known_tokens()
    for layer in image.manifest.layers:
        if layer.digest in proven:
            continue
        scanner = Scanner(tokens, shaped=layer.digest not in public)
        with blobs.open(layer.digest) as stream:
            while content := stream.read(CHUNK):
                scanner.show(content)
        if scanner.found:
            raise token_fault(f"layer {layer.digest}")


def token_fault(place: str) -> CheckFailed:
    """What to raise for a token; it names the place, and never the token."""
    return CheckFailed(f"a token lies in {place}", hint=_HINT)


def refuse_tokens_in(documents: Iterable[tuple[str, bytes]]) -> None:
    """Search some texts by name. Raises CheckFailed that names the place, and never the token."""
    tokens = [token.encode() for token in known_tokens()]
    for place, content in documents:
        if holds_token(content, tokens):
            raise token_fault(f"the image's {place}")

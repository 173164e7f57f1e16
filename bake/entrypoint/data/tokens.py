"""Tokens: how many tokens a prompt is for the model that was baked: its own template, its own tokenizer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.table import one_line
from bake.entrypoint.data.template import Template, load_template
from bake.entrypoint.document import read_object

if TYPE_CHECKING:
    from bake.entrypoint.preflight.situation import Situation


class TokenizerError(ValueError):
    """Prompts cannot be rendered here. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """`template` is None for a model that has none, `backend` where tokens cannot be counted: `trouble` says why."""

    folder: Path
    template: Template | None
    backend: Any
    trouble: str = ""

    def count(self, text: str) -> int | None:
        """The tokens of a rendered prompt, as transformers counts them."""
        return None if self.backend is None else len(self.backend.encode(text, add_special_tokens=False).ids)


def load_tokenizer(situation: Situation) -> Tokenizer:
    """The tokenizer that verl will count with. Raises TokenizerError, or TemplateError for a broken template.

    A template of the user's takes the model's place: data.apply_chat_template_kwargs, then custom_chat_template.
    """
    settings = situation.settings
    folder = _folder(situation)
    given = settings.get("data.apply_chat_template_kwargs")
    variables = {str(name): value for name, value in given.items()} if isinstance(given, dict) else {}
    own = variables.pop("chat_template", None) or settings.get("actor_rollout_ref.model.custom_chat_template")
    try:
        template = load_template(folder, own=own if isinstance(own, str) else None, variables=_free(variables))
    except ImportError as error:
        raise TokenizerError(f"this image has no {error.name}") from error
    if template is None and _is_own_code(folder):
        raise TokenizerError(f"the tokenizer in {folder} renders prompts with code of its own")
    try:
        return Tokenizer(folder=folder, template=template, backend=_backend(folder))
    except TokenizerError as error:
        return Tokenizer(folder=folder, template=template, backend=None, trouble=str(error))


def _is_own_code(folder: Path) -> bool:
    """A class that comes with the model, or Mistral's own library, may need no template."""
    return "auto_map" in read_object(folder / "tokenizer_config.json") or (folder / "tekken.json").is_file()


def _free(variables: dict[str, Any]) -> dict[str, Any]:
    """Without what the template is always given, or what asks transformers for something else than tokens."""
    taken = ("messages", "tools", "documents", "add_generation_prompt", "tokenize", "return_dict", "return_tensors")
    return {name: value for name, value in variables.items() if name not in taken}


def _folder(situation: Situation) -> Path:
    """actor_rollout_ref.model.tokenizer_path where it is given, else the actor's model."""
    given = situation.settings.get("actor_rollout_ref.model.tokenizer_path")
    if isinstance(given, str) and os.path.isdir(given):  # noqa: PTH112 - a Path would raise where it may not look
        return Path(given)
    model = situation.model("actor")
    if model is None:
        raise TokenizerError("no model was baked for the actor")
    return situation.folder(model)


def _backend(folder: Path) -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise TokenizerError(f"this image has no {error.name}") from error
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise TokenizerError(f"{folder} has no tokenizer.json")
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library, written in Rust, raises Exception itself and nothing finer
        raise TokenizerError(f"{path} cannot be read: {one_line(error)}") from error
    backend.no_truncation()
    backend.no_padding()
    return backend

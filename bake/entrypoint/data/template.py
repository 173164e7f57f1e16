"""Template: a model's chat template, found and rendered as transformers does it, without importing transformers.

transformers/utils/chat_template_utils.py: jinja2's immutable sandbox, trim_blocks, lstrip_blocks, loop controls, and
`raise_exception`, `strftime_now` and a `tojson` that escapes no HTML. Importing transformers itself takes seconds.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.table import one_line
from bake.entrypoint.document import read_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The tokens that a template may name (transformers/tokenization_utils_base.py, SPECIAL_TOKENS_ATTRIBUTES)."""


class TemplateError(ValueError):
    """A template that is not there, is none, or refuses the messages. The message says which."""


@dataclass(frozen=True, slots=True)
class Template:
    """`variables` are what a template finds beside its messages: the special tokens and the user's own."""

    compiled: Any
    variables: Mapping[str, Any]

    def render(self, messages: Sequence[object]) -> str:
        """The prompt as text, with the start of the answer. Raises TemplateError where the template refuses it."""
        import jinja2

        try:
            text = self.compiled.render(
                messages=messages, tools=None, documents=None, add_generation_prompt=True, **self.variables
            )
        except jinja2.TemplateError as error:
            raise TemplateError(one_line(error)) from error
        # A template is a program: whatever Python raises over odd messages, it may raise.
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise TemplateError(f"{type(error).__name__}: {one_line(error)}") from error
        return _whole(str(text))


def _whole(text: str) -> str:
    """JSON may write half of a character, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TemplateError(f"holds half a character, {text[error.start]!a}") from error
    return text


def load_template(folder: Path, *, own: str | None, variables: Mapping[str, Any]) -> Template | None:
    """The template of a model's folder, or `own` in its place; None where it has none.

    Raises TemplateError for one that jinja cannot compile, ImportError without jinja2.
    """
    config = read_object(folder / "tokenizer_config.json")
    text = own or _text(folder, config)
    if text is None:
        return None
    return Template(_compile(text), {**_special_tokens(folder, config), **variables})


def _compile(text: str) -> Any:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_generation(), jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    try:
        return environment.from_string(text)
    except jinja2.TemplateError as error:
        raise TemplateError(f"the chat template is broken: {one_line(error)}") from error


def _generation() -> Any:
    """`{% generation %}…{% endgeneration %}`, which marks answers for training and prints what is inside."""
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012 - jinja's own convention

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    return Generation


def _raise_exception(message: str) -> None:
    import jinja2

    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.datetime.now().strftime(form)  # noqa: DTZ005 - as transformers has it


def _tojson(value: object, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **options})


def _text(folder: Path, config: Mapping[str, Any]) -> str | None:
    """chat_template.jinja before tokenizer_config.json; then chat_template.json, which a processor brings."""
    return (
        _read(folder / "chat_template.jinja")
        or _default(config.get("chat_template"))
        or _default(read_object(folder / "chat_template.json").get("chat_template"))
    )


def _default(value: object) -> str | None:
    """One template, or of several by name the default one."""
    if isinstance(value, list):
        pairs = [item for item in value if isinstance(item, dict)]
        value = next((item.get("template") for item in pairs if item.get("name") == "default"), None)
    return value if isinstance(value, str) and value else None


def _special_tokens(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """verl makes the end of text the padding where a tokenizer has none (verl/utils/tokenizer.py)."""
    named = {**read_object(folder / "special_tokens_map.json"), **config}
    tokens = {name: token for name in SPECIAL if (token := _token(named.get(name))) is not None}
    if "eos_token" in tokens:
        tokens.setdefault("pad_token", tokens["eos_token"])
    return tokens


def _token(value: object) -> str | None:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None

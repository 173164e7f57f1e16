"""Encoding: a loaded tokenizer at work: texts there and back, the token that ends an answer, the chat template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.entrypoint.fault import Fault
from bake.entrypoint.load.attempt import attempt
from bake.entrypoint.load.vocabulary import wrong_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.entrypoint.load.documents import Documents

PLAIN = (
    "The quick brown fox jumps over 13 lazy dogs.",
    "Let x = 0123456789, so 3.14159 * 2 = 6.28318.",
    "def square(x):\n    return x ** 2  # a comment\n",
)
"""Texts that every tokenizer of a language model must give back."""

FOREIGN = ("Grüße, naïve café", "你好世界", "Привет, мир", "😀 ∑ ≠")
"""Texts that must become tokens; a small vocabulary may lack their letters."""

_FILE = "tokenizer.json"
_WHOLE = "fetch the tokenizer's files again, all from one commit; else it needs another version of transformers"
_ASKED, _ANSWERED = "What is 2 + 3?", "It is 5."


def encoding_faults(tokenizer: Any, *, rows: int | None, exact: bool) -> Iterator[Fault]:
    """A text that becomes nothing, another text, or ids that the embedding has no row for. `rows` may be unknown.

    `exact` asks that plain texts come back: the tokenizers of some reward models fold case or spaces.
    """
    for text in (*PLAIN, *FOREIGN):
        ids = tokenizer.encode(text, add_special_tokens=False)
        if not ids:
            found = f"no token at all; the tokenizer knows {len(tokenizer):,}"
            yield _fault(f"{text!r} to become tokens", found, _WHOLE)
            return
        if rows is not None and max(ids) >= rows:
            yield _too_high(f"ids below {rows:,}, the embedding's rows", f"{max(ids):,} for {text!r}")
            return
        back = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if exact and text in PLAIN and back.strip() != text.strip():
            yield _fault(f"{text!r} to come back from its tokens", repr(back), _WHOLE)
            return


def special_faults(tokenizer: Any, *, rows: int | None) -> Iterator[Fault]:
    """The tokens that verl ends and fills sequences with: one token each, with a row in the embedding."""
    if tokenizer.eos_token_id is None:
        yield Fault(
            path="tokenizer_config.json",
            kind="tokenizer",
            expected="an eos_token, which ends an answer",
            found="none",
            hint="name the token that ends an answer in tokenizer_config.json, and lock the model again",
        )
        return
    for name in ("eos_token", "pad_token"):
        text, number = getattr(tokenizer, name), getattr(tokenizer, f"{name}_id")
        if text is None or number is None:  # verl fills with eos_token then (utils/tokenizer, set_pad_token_id)
            continue
        if rows is not None and number >= rows:
            yield _too_high(f"{name} {text!r} with an id below {rows:,}, the embedding's rows", f"{number:,}")
        ids = tokenizer.encode(text, add_special_tokens=False)
        if ids != [number]:
            yield _fault(f"{name} {text!r} to be the one token {number}", str(ids), _WHOLE)


def template_faults(tokenizer: Any, documents: Documents, *, rows: int | None) -> Iterator[Fault]:
    """The chat template as verl uses it, and whether anything ends an answer with the tokenizer's eos_token."""
    asked = _rendered(tokenizer, documents, answered=False)
    if isinstance(asked, Fault):
        yield asked
        return
    if _ASKED not in asked:
        expected = f"a chat template that writes the user's words, {_ASKED!r}"
        yield _template_fault(documents, expected, repr(asked[:80]))
    ids = tokenizer.encode(asked, add_special_tokens=False)
    if rows is not None and ids and max(ids) >= rows:
        yield _too_high(f"a rendered chat with ids below {rows:,}, the embedding's rows", f"{max(ids):,}")
    text, number = tokenizer.eos_token, tokenizer.eos_token_id
    if text is None or not documents.stops or number in documents.stops:
        return
    answered = _rendered(tokenizer, documents, answered=True)
    if isinstance(answered, str) and text not in answered.rpartition(_ANSWERED)[2]:
        yield wrong_end(documents, text=text, number=number)


def _rendered(tokenizer: Any, documents: Documents, *, answered: bool) -> str | Fault:
    """A question with a system prompt; without one where the template refuses it, as those of Gemma and Mistral do."""
    question = {"role": "user", "content": _ASKED}
    turns = [question, {"role": "assistant", "content": _ANSWERED}] if answered else [question]
    system = {"role": "system", "content": "You are a helpful assistant."}
    fault = _template_fault(documents, "a chat template that renders a question and an answer", "")

    def render(chat: list[dict[str, str]]) -> str | Fault:
        return attempt(
            lambda: str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=not answered)), fault
        )

    text = render([system, *turns])
    return render(turns) if isinstance(text, Fault) else text


def _template_fault(documents: Documents, expected: str, found: str) -> Fault:
    return Fault(
        path="chat_template.jinja" if "chat_template.jinja" in documents.names else "tokenizer_config.json",
        kind="chat-template",
        expected=expected,
        found=found,
        hint="mend the template, or train with another in actor_rollout_ref.model.custom_chat_template",
    )


def _too_high(expected: str, found: str) -> Fault:
    return _fault(expected, found, "take the tokenizer and the weights from the same commit")


def _fault(expected: str, found: str, hint: str) -> Fault:
    return Fault(path=_FILE, kind="tokenizer", expected=expected, found=found, hint=hint)

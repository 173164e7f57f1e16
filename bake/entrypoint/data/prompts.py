"""Prompts: whether a row's prompt is what a chat template takes: a list of messages with a role and a content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bake.entrypoint.data.columns import parsed
from bake.entrypoint.data.flaws import Flaw, Kind, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

ROLES = frozenset({"system", "user", "assistant", "tool", "developer", "function", "ipython", "environment"})
"""The roles that published chat templates know."""

_FAILS = (
    "verl either fails in a worker once the models are loaded, or, with data.filter_overlong_prompts, drops such rows "
    "without a word of error and may be left with none"
)
_CHAT = 'prompt must be a list of messages, as [{"role": "user", "content": "…"}]'


def _kind(text: str, todo: str = _CHAT) -> Kind:
    return Kind(check="data-prompts", severity="error", text=text, why=_FAILS, todo=todo, filtered=True)


NULL = _kind("is null", "leave such rows out of the file")
OTHER = _kind("is no list of messages")
EMPTY = _kind("is an empty list", "leave such rows out of the file")
SHAREGPT = _kind(
    "has messages of {from, value}, not {role, content}",
    "rename from to role and value to content, human to user and gpt to assistant, and leave out the answer",
)
KEYS = _kind("has a message without role or content")
ROLE = _kind("has a message whose role is null or no text")
CONTENT = _kind("has a message whose content is null or no text")
NULL_EXTRA = Kind(
    check="data-prompts",
    severity="error",
    text="is null",
    why="this verl takes an extra_info that is not there, and fails over a null: 'NoneType' has no attribute 'get'",
    todo="leave the column out, or give each row an object",
)
UNKNOWN = Kind(
    check="data-prompts",
    severity="warning",
    text="has a role that chat templates do not know",
    why="most templates print it as it is, and the model meets a word it was never trained on",
    todo="use system, user, assistant or tool",
)
ANSWERED = Kind(
    check="data-prompts",
    severity="warning",
    text="ends with a message of the assistant's",
    why="verl asks for one more answer after it: often this is the answer that was to be learned",
    todo="leave the last message out of the prompt, unless the model is to go on from it",
)


def string(column: str) -> Kind:
    return _kind("is a string, not a list of messages", f"--map prompt={column} makes it one message of the user's")


def json_text(column: str) -> Kind:
    todo = f"--map prompt={column} reads the messages from it"
    return _kind("is the JSON text of a list of messages, not the list", todo)


def check_prompt(value: object, *, column: str, place: str) -> Iterator[Flaw]:
    """At most one error a row: what comes first explains the rest."""
    kind, found = _first(value, column)
    if kind is not None:
        yield Flaw(kind, column, place, found)
        return
    assert isinstance(value, list)  # noqa: S101 - _first said so
    roles = [message["role"] for message in value]
    if unknown := [role for role in roles if role not in ROLES]:
        yield Flaw(UNKNOWN, column, place, shown(unknown[0]))
    if roles[-1] == "assistant":
        yield Flaw(ANSWERED, column, place)


def _first(value: object, column: str) -> tuple[Kind | None, str]:
    if value is None:
        return NULL, ""
    if isinstance(value, str):
        return (json_text if parsed(value) else string)(column), shown(value)
    if not isinstance(value, list):
        return OTHER, shown(value)
    if not value:
        return EMPTY, ""
    return next((answer for message in value if (answer := _message(message))[0]), (None, ""))


def _message(message: Any) -> tuple[Kind | None, str]:
    if not isinstance(message, dict):
        return OTHER, shown(message)
    if "role" not in message or "content" not in message:
        sharegpt = "from" in message and "value" in message
        return (SHAREGPT if sharegpt else KEYS), shown(message)
    if not isinstance(message["role"], str):
        return ROLE, shown(message["role"])
    content = message["content"]
    called = content is None and message.get("tool_calls")  # an assistant's message that only calls a tool
    if not called and not isinstance(content, (str, list)):
        return CONTENT, shown(content)
    return None, ""

"""What GitHub's expressions of the workflow mean: a table. One that is not in it fails the test that meets it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What expressions speak of. `outputs` are those of the steps of this job, `needs` those of the jobs before it."""

    event: str
    ref: str
    owner: str
    actor: str
    token: str
    hub_token: str = ""
    matrix: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)


VALUES: dict[str, Callable[[Context], Any]] = {
    "github.repository_owner": lambda context: context.owner,
    "github.actor": lambda context: context.actor,
    "github.token": lambda context: context.token,
    "secrets.HF_TOKEN": lambda context: context.hub_token,
    "steps.matrix.outputs.matrix": lambda context: context.outputs["matrix"],
    "fromJSON(needs.changes.outputs.matrix)": lambda context: json.loads(context.needs["matrix"]),
    "matrix.name": lambda context: context.matrix["name"],
    "matrix.models": lambda context: context.matrix["models"],
    "matrix.runner": lambda context: context.matrix["runner"],
    "github.event_name == 'pull_request'": lambda context: context.event == "pull_request",
    "github.event.pull_request.number || github.ref": lambda context: context.ref,
    "github.ref == format('refs/heads/{0}', github.event.repository.default_branch)": (
        lambda context: context.ref == "refs/heads/main"
    ),
    "needs.changes.outputs.matrix != '{\"include\":[]}'": lambda context: context.needs["matrix"] != '{"include":[]}',
}


def condition(text: str, context: Context) -> bool:
    return bool(VALUES[text](context))


def evaluate(text: str, context: Context) -> Any:
    """A text with its expressions in place; one that is nothing but an expression keeps its type."""
    if whole := _EXPRESSION.fullmatch(text):
        return VALUES[whole[1]](context)
    return _EXPRESSION.sub(lambda found: str(VALUES[found[1]](context)), text)


def environment(values: Mapping[str, Any], context: Context) -> dict[str, str]:
    return {name: str(evaluate(str(text), context)) for name, text in values.items()}

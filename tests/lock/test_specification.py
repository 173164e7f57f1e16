"""docs/models-lock.md is the specification: its example is a lock, and what it computes is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bake.lock.dump import dumps
from bake.lock.parse import parse
from bake.record import set_digest

if TYPE_CHECKING:
    from bake.lock import LockedModel

PAGE = (Path(__file__).parents[2] / "docs" / "models-lock.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SESSIONS = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def model(name: str) -> LockedModel:
    return next(model for model in parse(EXAMPLE).models if model.id.name == name)


def test_the_example_is_a_lock_in_canonical_form() -> None:
    assert dumps(parse(EXAMPLE)) == EXAMPLE


def test_the_example_holds_a_model_that_is_resolved_and_one_that_is_not() -> None:
    assert (model("tiny").is_locked, model("tiny").is_stale, model("value").is_locked) == (True, False, False)


@pytest.mark.parametrize("session", SESSIONS)
def test_what_the_page_shows_on_a_terminal_is_what_happens(session: str, tmp_path: Path) -> None:
    commands = re.findall(r"^\$ (.*)$", session, re.MULTILINE)

    ran = subprocess.run(["bash", "-c", "\n".join(commands)], cwd=tmp_path, check=True, capture_output=True, text=True)

    assert (ran.stdout, ran.stderr) == (re.sub(r"^\$ .*\n", "", session, flags=re.MULTILINE), "")


def test_what_the_page_computes_in_python_is_true() -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert ran.stdout == f"{model('tiny').asked().hex}\n"


def test_the_page_computes_the_digests_of_the_example() -> None:
    shown = "\n".join(SESSIONS)

    assert set_digest(model("tiny").files).hex in shown
    assert model("tiny").asked().hex in shown


@pytest.mark.parametrize(
    "section",
    [
        "the-file",
        "the-formats-version",
        "basename",
        "model",
        "modelfile",
        "modelexcluded",
        "modelresharded",
        "modellayer",
        "comments",
    ],
)
def test_the_contents_lead_to_sections(section: str) -> None:
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)

    assert section in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert f"](#{section})" in PAGE

"""Headers against those that Go's archive/tar writes: from golden.json always, from Go itself where it is installed."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from tests.tar.golden import CASES, GOLDEN, Case, ask_go


def test_every_case_is_in_the_golden_file() -> None:
    held = [Case(line["kind"], line["name"], line["size"], line["target"]) for line in json.loads(GOLDEN.read_text())]

    assert held == list(CASES)


@pytest.mark.parametrize(("case", "line"), list(zip(CASES, json.loads(GOLDEN.read_text()), strict=True)), ids=str)
def test_a_header_is_the_one_that_go_writes(case: Case, line: dict[str, object]) -> None:
    header = case.header()

    assert (len(header), hashlib.sha256(header).hexdigest()) == (line["length"], line["sha256"])


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_go_itself_writes_the_same_headers() -> None:
    assert [case.header().hex() for case in CASES] == [header.hex() for header in ask_go()]

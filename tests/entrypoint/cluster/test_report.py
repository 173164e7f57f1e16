"""What a node says of itself, and in what two nodes differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bake.entrypoint.cluster import Report, differences, report_of
from bake.entrypoint.cluster.wire import Hello
from tests.entrypoint.files import model_files, recorded

EXPECTED = Report(host="head", models=(("a@v1", "sha256:1"), ("b@v2", "sha256:2")), software=(("ray", "2.60.0"),))


def test_a_report_names_each_model_by_its_content() -> None:
    model = recorded(model_files())

    report = report_of([model], faults=["bad"], environ={"RAY_AUTH_MODE": "token"})

    assert (report.models, report.faults) == ((("tiny@v1", str(model.set_digest)),), ("bad",))
    assert report.software[-1] == ("RAY_AUTH_MODE", "token")


def test_a_node_that_is_the_same_has_no_differences() -> None:
    assert differences(EXPECTED, replace(EXPECTED, host="w1")) == ()


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (replace(EXPECTED, models=EXPECTED.models[:1]), ("b@v2 is not there (expected sha256:2)",)),
        (replace(EXPECTED, models=(*EXPECTED.models, ("c@v3", "sha256:3"))), ("c@v3 is not on the head",)),
        (
            replace(EXPECTED, models=(("a@v1", "sha256:7"), ("b@v2", "sha256:8"))),
            ("a@v1 is sha256:7 (expected sha256:1)", "b@v2 is sha256:8 (expected sha256:2)"),
        ),
        (replace(EXPECTED, faults=("x: missing",)), ("x: missing",)),
        (replace(EXPECTED, software=(("ray", "2.49.0"),)), ("ray is 2.49.0 (expected 2.60.0)",)),
        (replace(EXPECTED, software=()), ("ray is unknown (expected 2.60.0)",)),
    ],
)
def test_every_difference_is_a_line(found: Report, lines: tuple[str, ...]) -> None:
    assert differences(EXPECTED, found) == lines


def test_a_report_comes_over_the_wire_as_it_was() -> None:
    hello = Hello(report=replace(EXPECTED, faults=("naïve: missing",)), address="10.0.0.2")

    assert Hello.parse(hello.line()) == hello


def test_a_report_of_many_faults_is_cut_short_and_says_so() -> None:
    hello = Hello(report=replace(EXPECTED, faults=("x" * 1000,) * 60), address="10.0.0.2")

    faults = Hello.parse(hello.line()).report.faults

    assert faults == ("x" * 500,) * 50 + ("and 10 more lines: see its own log",)

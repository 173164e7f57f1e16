"""What `build --summary` appends for a page of CI: all that became of the images, and no foreign markup."""

from __future__ import annotations

import pytest

from tests.cli.place import Bake, Place, Ran, error, files_below
from tests.cli.several import LOCKED, add_models, alter, commit


@pytest.fixture
def three(place: Place, bake: Bake) -> Place:
    """`a@v1`, `b@v1` and `c@v1` in the lock, which share nothing."""
    add_models(place, bake, "a", "b", "c")
    return place


def test_a_summary_is_appended_for_a_page_of_ci(three: Place, bake: Bake) -> None:
    (three.root / "summary.md").write_text("before\n")
    why = alter(three, "b")

    ran = bake("-q", "build", "a@v1", "b@v1", "--summary", "summary.md")

    digest = ran.out.strip().rpartition("@")[2]
    assert (three.root / "summary.md").read_text().splitlines() == [
        "before",
        "### bake build",
        "",
        "| model | image | outcome | layers | bytes |",
        "| --- | --- | --- | --- | --- |",
        f"| <code>a&#64;v1</code> | <code>oci:dist/a-v1</code><br><code>{digest}</code> | built | 2 packed | 9.2 kB |",
        "| <code>b&#64;v1</code> | <code>oci:dist/b-v1</code> | failed | - | - |",
        "",
        "2 images: 1 built, 1 failed; 2 packed, 9.2 kB",
        "",
        "**Failed**",
        "",
        f"<pre>b@v1: {why}",
        f"hint: {LOCKED}</pre>",
    ]


def test_nothing_in_a_summary_is_taken_for_markup(three: Place, bake: Bake) -> None:
    bake("-q", "build", "a@v1", "--to", "oci:x|`y`<b>*_", "--summary", "summary.md")

    cell = "<code>oci:x&#124;&#96;y&#96;&#60;b&#62;&#42;&#95;</code>"
    assert cell in (three.root / "summary.md").read_text()


def test_a_message_with_markup_is_shown_as_it_is(three: Place, bake: Bake) -> None:
    path = three.root / "<i>|`.json"
    path.write_text("{}")
    bake("-q", "build", "a@v1", "--to", "oci:<i>|`.json", "--summary", "summary.md")

    text = (three.root / "summary.md").read_text()
    assert "<pre>a@v1: &lt;i&gt;|`.json exists and is no OCI layout\nhint: " in text


def test_that_nothing_changed_is_summarised_too(three: Place, bake: Bake) -> None:
    commit(three)

    bake("build", "--changed-since", "HEAD", "--summary", "summary.md")

    assert (three.root / "summary.md").read_text() == "### bake build\n\nNo image changes.\n"


def test_a_summary_that_cannot_be_written_is_told_before_anything_is_built(three: Place, bake: Bake) -> None:
    ran = bake("build", "--all", "--summary", "nowhere/summary.md")

    assert ran == Ran(7, "", error("cannot write nowhere/summary.md: No such file or directory"))
    assert files_below(three.root / "dist") == {}

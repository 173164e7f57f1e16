"""A lock that others change while bake resolves a model: what they wrote stays, or bake says that it cannot go on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bake.lock.parse import parse
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, error, finish

if TYPE_CHECKING:
    from tests.hub_server import FakeHub

SLOW = "hub/org/name/resolve/*"
COMMENT = "# checked by hand\n"
ASKED = '\n[[model]]\nname = "tiny"\nversion = "v1"\nsource = "hf://org/name"\n'


def once_resolving(hub: FakeHub) -> None:
    """Wait until a bake asks for a file: it has read the lock, and will write it later."""
    until = time.monotonic() + 20
    while not hub.requested(SLOW):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_an_add_keeps_what_was_written_meanwhile_by_another_bake_and_by_hand(
    hub: FakeHub, place: Place, bake: Bake
) -> None:
    place.add_model()
    hub.fault(SLOW, slow=1.0)
    slow = place.start("-q", "add", "slow@v1", "hf://org/name", environ={"BAKE_CACHE": f"{place.store}-2"})
    once_resolving(hub)

    assert bake("-q", "add", "quick@v1", "dir://m").code == 0
    place.write_lock(place.lock.read_text() + COMMENT)

    assert finish(slow).code == 0
    assert [str(model.id) for model in parse(place.lock.read_text()).models] == ["quick@v1", "slow@v1"]
    assert COMMENT in place.lock.read_text()


def test_a_version_that_was_added_meanwhile_is_not_added_twice(hub: FakeHub, place: Place, bake: Bake) -> None:
    place.add_model()
    hub.fault(SLOW, slow=1.0)
    slow = place.start("-q", "add", "tiny@v1", "hf://org/name")
    once_resolving(hub)
    bake("-q", "add", "tiny@v1", "dir://m")
    before = place.lock.read_text()

    ran = finish(slow)

    hint = "add it under another version, or resolve it anew with: bake lock --upgrade tiny@v1"
    assert ran == Ran(3, "", error("tiny@v1 is in the lock already, and a version is immutable", hint=hint))
    assert place.lock.read_text() == before


def test_a_lock_keeps_what_was_written_meanwhile(hub: FakeHub, place: Place, bake: Bake) -> None:
    place.add_model()
    place.write_lock(EMPTY_LOCK + ASKED)
    hub.fault(SLOW, slow=1.0)
    slow = place.start("-q", "lock")
    once_resolving(hub)

    assert bake("-q", "add", "quick@v1", "dir://m").code == 0
    place.write_lock(place.lock.read_text() + COMMENT)

    assert finish(slow) == Ran(0, "tiny@v1\n", "")
    assert [model.is_locked for model in parse(place.lock.read_text()).models] == [True, True]
    assert COMMENT in place.lock.read_text()


def test_a_record_that_was_changed_while_it_was_resolved_is_left_as_it_is(hub: FakeHub, place: Place) -> None:
    place.write_lock(EMPTY_LOCK + ASKED)
    hub.fault(SLOW, slow=1.0)
    slow = place.start("-q", "lock")
    once_resolving(hub)
    changed = EMPTY_LOCK + ASKED + 'exclude = ["*.txt"]\n'
    place.write_lock(changed)

    ran = finish(slow)

    assert ran == Ran(3, "", error("tiny@v1 was changed in models.lock while it was resolved", hint="bake lock"))
    assert place.lock.read_text() == changed

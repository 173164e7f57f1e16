"""`bake build` of several models stopped: all end soon, nothing is half written, and the next run completes it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli.place import Bake, Place, whole
from tests.cli.pushed import faults_in
from tests.cli.several import add_models
from tests.cli.test_interrupts import left_over, once_it_says, stopped
from tests.entrypoint.files import model_files

if TYPE_CHECKING:
    from tests.hub_server import FakeHub
    from tests.registry.server import FakeRegistry

pytestmark = pytest.mark.slow

ENDINGS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
"""Each signal, with the exit code and the last word."""

Ending = tuple[signal.Signals, int, str]


@pytest.fixture
def three(place: Place, bake: Bake) -> Place:
    """`a@v1`, `b@v1` and `c@v1` in the lock, which share nothing."""
    add_models(place, bake, "a", "b", "c")
    return place


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_all_of_them_end_while_the_registry_is_silent(
    three: Place, bake: Bake, registry: FakeRegistry, jobs: str, ending: Ending
) -> None:
    registry.fault("PUT */blobs/uploads/*", times=99, silent=True)
    words = ("build", "--all", "--to", f"{registry.host}/org/{{name}}")
    started = three.start(*words, "--jobs", jobs)
    once_it_says(started, "pushing")

    ran = stopped(started, ending[0], after=0.5)

    assert (ran.code, ran.err.splitlines()[-1], ran.out) == (*ending[1:], "")
    assert "Traceback" not in ran.err
    registry.mend()
    assert bake("-q", *words).code == 0
    assert [faults_in(registry, name=f"org/{name}") for name in "abc"] == [(), (), ()]


@pytest.mark.parametrize("ending", ENDINGS)
def test_all_of_them_end_while_the_registry_asks_to_wait(three: Place, registry: FakeRegistry, ending: Ending) -> None:
    registry.fault("PUT */blobs/uploads/*", times=99, status=429, headers={"Retry-After": "100"})
    started = three.start("build", "--all", "--jobs", "3", "--to", f"{registry.host}/org/{{name}}")
    once_it_says(started, "next try in 100.0 s")

    ran = stopped(started, ending[0], after=0.3)

    assert (ran.code, ran.err.splitlines()[-1], ran.out) == (*ending[1:], "")
    assert "failed" not in ran.err


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_folder_is_half_written_while_the_hub_is_silent(
    hub: FakeHub, place: Place, bake: Bake, ending: Ending
) -> None:
    for name in ("a", "b"):
        hub.add_repo(f"org/{name}", model_files() | {"config.json": b'{"model_type": "%s"}' % name.encode()})
        assert bake("-q", "add", f"{name}@v1", f"hf://org/{name}", "--base", "scratch").code == 0
    lock = place.lock.read_bytes()
    hub.fault("cdn/*", times=99, slow=60)
    started = place.start("build", "--all", "--jobs", "2")
    once_it_says(started, "packing")

    ran = stopped(started, ending[0], after=0.5)

    assert (ran.code, ran.err.splitlines()[-1], ran.out) == (*ending[1:], "")
    assert list((place.root / "dist").glob("*")) == []
    assert (left_over(place), place.lock.read_bytes()) == ([], lock)


def test_what_was_stopped_is_completed_by_the_next_run(place: Place, bake: Bake) -> None:
    for name in ("a", "b"):
        place.add_large_model(66 << 20, name=name)
        (place.root / name / "config.json").write_text(f'{{"model_type": "{name}"}}')
        assert bake("-q", "add", f"{name}@v1", f"dir://{name}").code == 0
    started = place.start("build", "--all", "--jobs", "2")
    once_it_says(started, "packing")
    stopped(started, signal.SIGINT, after=0.0)

    assert bake("-q", "build", "--all").code == 0
    assert whole(place.root / "dist" / "a-v1") + whole(place.root / "dist" / "b-v1") == ()
    assert left_over(place) == []

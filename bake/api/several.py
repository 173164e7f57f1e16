"""`build` for several images: those that share weights one after another, others at once. A failure stops no other.

What was learned or sent for one is used for the next: a shared layer is read, packed and sent once.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bake.api.building import Built, build
from bake.api.buildkit import build_with_buildkit
from bake.api.choosing import chains
from bake.api.labelled import labelled
from bake.api.pushing import Pushed, push
from bake.api.traffic import Traffic
from bake.api.workers import Halt, StoppedError, results
from bake.daemon import Daemon
from bake.errors import BakeError, ImageError
from bake.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bake.api.choosing import Wanted
    from bake.api.outputs import Output
    from bake.api.workspace import Workspace
    from bake.digest import Digest
    from bake.lock import ModelId

JOBS = 2
"""Images at once. One alone keeps the line and the cores busy; the second fills the time in which it asks and ends.

More would share one line, and a registry that ends a slow upload would end them all.
"""

_GRACE = 2.0
"""Seconds that images have to tidy up after Ctrl-C; without a silent host they take a fraction of it."""

State = Literal["built", "there already", "failed", "too large"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How images are built: by bake itself, or by BuildKit on a builder by name or on the one in use."""

    kind: Literal["direct", "docker"] = "direct"
    builder: str | None = None
    frozen: bool = False
    quiet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an image: `made` where it is there, `error` where it failed. `size` is in bytes, of its models."""

    id: ModelId
    output: Output
    state: State
    size: int
    seconds: float = 0.0
    made: Built | Pushed | None = None
    error: BakeError | None = None


def build_several(
    workspace: Workspace, images: Sequence[Wanted], *, way: Way, jobs: int = JOBS, max_size: int | None = None
) -> tuple[Outcome, ...]:
    """Build images, `jobs` of them at once, and leave out those whose models have more than `max_size` bytes.

    Returns what became of each, in their order. Docker is given one at a time. What fails is told when it does.
    """
    fitting = [image for image in images if max_size is None or image.size <= max_size]
    groups = chains(fitting)
    build_one = functools.partial(_build_one, workspace, way=way, traffic=Traffic(), telling=threading.Lock())
    in_turn = way.kind == "docker" or any(image.output.kind == "docker" for image in fitting)
    at_once = 1 if in_turn else min(jobs, len(groups))
    found = _build_at_once(groups, build_one, at_once) if at_once > 1 else _build_in_turn(groups, build_one)
    made = {outcome.id: outcome for outcome in found}
    return tuple(made.get(image.id) or _too_large(image) for image in images)


def exit_code(errors: Iterable[BakeError]) -> int:
    """0 without errors; the code that all of them have; 1 where they have several."""
    codes = {error.code for error in errors}
    return codes.pop() if len(codes) == 1 else min(len(codes), 1)


def _too_large(image: Wanted) -> Outcome:
    return Outcome(id=image.id, output=image.output, state="too large", size=image.size)


def _build_in_turn(groups: Iterable[Iterable[Wanted]], build_one: Callable[[Wanted], Outcome]) -> list[Outcome]:
    return [build_one(image) for group in groups for image in group]


def _build_at_once(
    groups: Sequence[Sequence[Wanted]], build_one: Callable[[Wanted], Outcome], count: int
) -> list[Outcome]:
    """Each group in a thread of its own. Ctrl-C comes to this thread, and stops them all."""
    halt = Halt()

    def build_group(group: Sequence[Wanted]) -> list[Outcome]:
        with halt.joined():
            return [build_one(image) for image in group]

    pool = ThreadPoolExecutor(count)
    begun = [pool.submit(build_group, group) for group in groups]
    try:
        return [outcome for outcomes in results(begun) for outcome in outcomes]
    except BaseException:
        halt.stop()
        pool.shutdown(wait=False, cancel_futures=True)
        wait([future for future in begun if not future.cancelled()], timeout=_GRACE)
        raise
    finally:
        pool.shutdown(wait=False)


def _build_one(workspace: Workspace, image: Wanted, *, way: Way, traffic: Traffic, telling: threading.Lock) -> Outcome:
    own = labelled(workspace, image, telling)
    since = time.monotonic()
    outcome = functools.partial(Outcome, id=image.id, output=image.output, size=image.size)
    try:
        state, made = _make(own, image, way, traffic)
    except StoppedError:
        raise
    except BakeError as error:
        own.progress.warn(f"{image.id} failed: {error.message}{f' (hint: {error.hint})' if error.hint else ''}")
        return outcome(state="failed", error=error, seconds=time.monotonic() - since)
    return outcome(state=state, made=made, seconds=time.monotonic() - since)


def _make(workspace: Workspace, image: Wanted, way: Way, traffic: Traffic) -> tuple[State, Built | Pushed]:
    if image.output.kind == "registry":
        pushed = push(workspace, image.id, output=image.output, frozen=way.frozen, traffic=traffic)
        return "built" if pushed.changed else "there already", pushed
    held = _held(image.output)
    if way.kind == "docker":
        built = build_with_buildkit(workspace, image.id, output=image.output, builder=way.builder, quiet=way.quiet)
    else:
        built = build(workspace, image.id, output=image.output, frozen=way.frozen)
    return "there already" if built.digest == held else "built", built


def _held(output: Output) -> Digest | None:
    """The image that a folder or the daemon has in an output's place, if there is one."""
    if output.kind == "docker":
        with contextlib.closing(Daemon.connect()) as daemon:
            found = daemon.image(output.place)
            return found.id if found else None
    try:
        return Layout(Path(output.place)).image().descriptor.digest
    except ImageError:
        return None

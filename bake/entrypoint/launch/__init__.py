"""Launch: the command that starts verl's PPO training on the baked models. Decides only; `__main__` executes it.

Overrides stand in this order, the last one wins: defaults, baked paths, the lock's, the profile's, the command line's.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.launch import check
from bake.entrypoint.launch.baked import baked_models, contradictions, distrusted, needless
from bake.entrypoint.launch.compose import compose
from bake.entrypoint.launch.defaults import Draft, decide
from bake.entrypoint.launch.flags import split
from bake.entrypoint.launch.given import TYPED, Given, parse
from bake.entrypoint.launch.installed import find_verl
from bake.entrypoint.launch.profile import HINT, load_profile
from bake.entrypoint.launch.ray import ray_environ
from bake.entrypoint.launch.refusal import ELSEWHERE, Refusal, fail
from bake.entrypoint.launch.resume import resumed
from bake.entrypoint.launch.shell import masked
from bake.entrypoint.override import Override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bake.entrypoint.launch.composed import Composed
    from bake.entrypoint.launch.flags import Flags
    from bake.entrypoint.settings import Settings
    from bake.record import Record

__all__ = ["PROFILE", "Launch", "masked", "plan_launch"]

PROFILE = Path("/etc/bake/train.yaml")
"""Overrides for every training on a machine, where a cluster's operator mounts a file."""

_MODULE = "verl.trainer.main_ppo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How verl is started. `release` is verl's, as (0, 9), None where it does not say.

    `environ` is the whole environment; `notes` say what the entrypoint decided and why, one line each. `composed` is
    what `with_overrides` goes on from. `inspects`: Hydra only says something (--cfg, --help), and nothing is trained.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str]
    settings: Settings
    release: tuple[int, int] | None
    notes: tuple[str, ...]
    composed: Composed = field(repr=False, compare=False)
    inspects: bool = False

    def with_overrides(self, overrides: Sequence[Override]) -> Launch:
        """These after the user's own, so that they win. Raises LaunchError for a key that verl does not have."""
        from omegaconf.errors import OmegaConfBaseException

        if not overrides:
            return self
        try:
            composed = self.composed.with_overrides(overrides)
        except OmegaConfBaseException as error:
            text, why = " ".join(map(str, overrides)), str(error).partition("\n")[0]
            todo = "report it, with the version of verl in this image"
            raise fail([Refusal(text=text, source="the entrypoint", why=why, todo=todo)]) from error
        return replace(
            self,
            command=(*self.command, *map(str, overrides)),
            settings=composed.settings(self.settings.given),
            composed=composed,
        )


def plan_launch(
    words: Sequence[str],
    *,
    record: Record,
    environ: Mapping[str, str],
    gpus: int,
    cluster: bool = False,
    profile: Path = PROFILE,
) -> Launch:
    """How to start verl as the user's `words` say: Hydra's options, and overrides.

    `gpus` are those that this container sees; `cluster`: Ray was started here by ray-head. Nothing of verl is imported.
    Raises LaunchError with everything that is wrong, ImageError where the image is not whole.
    """
    installed = find_verl()
    baked, refusals = baked_models(record, environ)
    flags, typed = split(words)
    given, unread = _read(record.overrides, profile, typed)
    composed, values, refused = compose(installed, flags, given)
    paths = tuple(Override(key, path) for key, path in baked.paths(composed.stock).items())
    composed = composed.with_overrides(paths)
    unfit = tuple(check.put_all(composed, values, installed))
    settings = composed.settings(frozenset(key for choice in given for key, _ in choice.leaves()))
    against = tuple(contradictions(baked, composed=composed, settings=settings, given=values))
    verls, notes = ray_environ(environ, cluster=cluster)
    defaults = decide(Draft(settings=settings, installed=installed, baked=baked, environ=environ, gpus=gpus))
    composed = composed.with_overrides([override for override, _ in defaults])
    settings = composed.settings(settings.given)
    refusals += [
        *unread,
        *refused,
        *against,
        *(one for one in unfit if one.text not in {other.text for other in against}),
        *distrusted(baked, settings, values),
        *check.joined_ray(settings, values, verls),
        *check.lost(composed, given, settings.given),
        *(() if flags.inspects else check.missing(settings)),
    ]
    if refusals:
        raise fail(refusals)
    return Launch(
        command=_command(flags, [*(override for override, _ in defaults), *paths], given),
        environ=verls,
        settings=settings,
        release=installed.release,
        notes=(
            *(f"{override} ({why})" for override, why in defaults),
            *notes,
            *needless(baked, settings),
            *check.unlisted(composed.stock, values),
            *(f"{text}: {ELSEWHERE}" for choice in given if (text := masked(choice.text)) != choice.text),
            *resumed(settings),
        ),
        composed=composed,
        inspects=flags.inspects,
    )


def _read(lock: Sequence[str], profile: Path, typed: Sequence[str]) -> tuple[tuple[Given, ...], tuple[Refusal, ...]]:
    """All that people gave, in the order in which the last one wins."""
    broken: tuple[Refusal, ...] = ()
    try:
        shared = load_profile(profile)
    except ValueError as error:
        shared, broken = (), (Refusal(text=str(error), source=str(profile), why="it is no profile", todo=HINT),)
    sources = ((lock, "the lock"), (shared, str(profile)), (typed, TYPED))
    found = [one for texts, source in sources for one in parse(texts, source=source)]
    return (
        tuple(one for one in found if isinstance(one, Given)),
        (*broken, *(one for one in found if isinstance(one, Refusal))),
    )


def _command(flags: Flags, ours: Sequence[Override], given: Sequence[Given]) -> tuple[str, ...]:
    """Hydra takes all overrides in one run, so that its options stand in front."""
    texts = [*map(str, ours), *(choice.text for choice in given)]
    return (sys.executable, "-m", _MODULE, *flags.words, *texts)

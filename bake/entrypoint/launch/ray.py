"""Ray: which cluster verl joins, said in the environment, since Ray's own guesses take a run elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def ray_environ(environ: Mapping[str, str], *, cluster: bool) -> tuple[dict[str, str], tuple[str, ...]]:
    """The whole environment for verl, and a note for each variable that was decided (seen with Ray 2.60).

    Without RAY_ADDRESS, ray.init() joins whatever a killed `ray start` left in /tmp/ray. Without RAY_AUTH_MODE some of
    Ray's commands turn token authentication on and others do not.
    """
    decided: dict[str, tuple[str, str]] = {}
    if cluster:
        decided["RAY_ADDRESS"] = ("auto", "the cluster that ray-head started here")
    elif not environ.get("RAY_ADDRESS"):
        decided["RAY_ADDRESS"] = ("local", "a Ray of this training's own, whatever /tmp/ray names")
    if not environ.get("RAY_AUTH_MODE"):
        decided["RAY_AUTH_MODE"] = ("disabled", "Ray turns tokens on for some of its commands and not for others")
    changed = {name: value for name, (value, _) in decided.items()}
    notes = tuple(f"{name}={value} ({why})" for name, (value, why) in decided.items())
    return {**environ, **changed}, notes

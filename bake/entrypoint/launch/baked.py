"""Baked: the folders of the models that this image carries, which nothing may contradict, and whose code may run.

VERL_MODEL_PATH and its like are bake's own words, which verl reads nowhere: they become verl's Hydra overrides here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bake.entrypoint.launch.given import IN_FILE, last_of, leaves
from bake.entrypoint.launch.names import here
from bake.entrypoint.launch.refusal import Refusal
from bake.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.entrypoint.launch.composed import Composed
    from bake.entrypoint.launch.given import Given
    from bake.entrypoint.settings import Settings
    from bake.record import Record, RecordedModel

VARIABLES = {"actor": "VERL_MODEL_PATH", "critic": "VERL_CRITIC_MODEL_PATH", "reward_model": "VERL_REWARD_MODEL_PATH"}

ACTOR_PATH = "actor_rollout_ref.model.path"
CRITIC_PATH = "critic.model.path"
REWARD_PATH = "reward.reward_model.model_path"

LEAVE_OUT = "leave this out; to train another model, bake it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baked:
    """The model for each role. verl does not derive the critic's from the actor's, so that both are said."""

    actor: RecordedModel
    critic: RecordedModel
    reward_model: RecordedModel | None

    def paths(self, settings: Settings) -> dict[str, str]:
        """Each model's folder by the key of the verl that is there. A file of the user's may have no critic."""
        paths = {ACTOR_PATH: self.actor.path, CRITIC_PATH: self.critic.path}
        if self.reward_model is not None:
            paths[here(REWARD_PATH, settings.has)] = self.reward_model.path
        return {key: path for key, path in paths.items() if settings.has(key)}

    def trusted(self, settings: Settings) -> Iterator[str]:
        """Every key that lets the code of a model run whose lock says that it may.

        data.* is the driver's tokenizer (0.5 to 0.8). From 0.7 on no key says it for a reward model.
        """
        if self.actor.trust_remote_code:
            yield "actor_rollout_ref.model.trust_remote_code"
            yield "data.trust_remote_code"
        if self.critic.trust_remote_code:
            yield "critic.model.trust_remote_code"
        if self.reward_model is not None and self.reward_model.trust_remote_code and not settings.has(REWARD_PATH):
            yield "reward_model.model.trust_remote_code"

    def of(self, key: str) -> RecordedModel | None:
        """The model that a key is about: the actor's for all that names neither critic nor reward model."""
        if key.startswith("critic."):
            return self.critic
        return self.reward_model if key.startswith(("reward.", "reward_model.")) else self.actor


def baked_models(record: Record, environ: Mapping[str, str]) -> tuple[Baked, list[Refusal]]:
    """The models as the image's variables name them; a variable that names no baked folder is refused.

    Raises ImageError where the image does not say which model to train.
    """
    by_path = {model.path: model for model in record.models}
    named: dict[str, RecordedModel] = {}
    refusals = []
    for role, variable in VARIABLES.items():
        if value := environ.get(variable):
            if value in by_path:
                named[role] = by_path[value]
            else:
                refusals.append(_refused_variable(variable, value, by_path))
    actor = named.get("actor") or next((model for model in record.models if "actor" in model.roles), None)
    if actor is None or not environ.get(VARIABLES["actor"]):
        raise ImageError(
            f"{VARIABLES['actor']} is not set", hint="the image sets it; start the image without emptying it"
        )
    return Baked(actor=actor, critic=named.get("critic", actor), reward_model=named.get("reward_model")), refusals


def contradictions(
    baked: Baked, *, composed: Composed, settings: Settings, given: Sequence[Given]
) -> Iterator[Refusal]:
    """Where what was given, in whatever way, leaves a path at another model than the baked one, or takes it away.

    A file's value counts as it is written: `settings` has the baked paths over it.
    """
    if not composed.stock.has(ACTOR_PATH):
        why = f"it has no {ACTOR_PATH}, where the model of this image goes"
        yield Refusal(text="defaults:", source=IN_FILE, why=why, todo="begin it with `defaults: [ppo_trainer, _self_]`")
    for key, path in baked.paths(composed.stock).items():
        why = f"it contradicts the model that this image carries, {key}={path!r}"
        last = last_of(given, key)
        if last is not None and settings.get(key) != path:
            yield last.refuse(why, LEAVE_OUT)
        elif key in composed.own and (found := composed.stock.get(key)) not in (None, path):
            yield Refusal(text=f"{key}: {found}", source=IN_FILE, why=why, todo=LEAVE_OUT)
    legacy = "reward_model.model.path"  # verl 0.7 and 0.8 put it over the newer key
    if baked.reward_model is not None and settings.get(legacy) not in (None, baked.reward_model.path):
        why = f"it contradicts the reward model that this image carries, {baked.reward_model.path!r}"
        if last := last_of(given, legacy):
            yield last.refuse(why, LEAVE_OUT)


def distrusted(baked: Baked, settings: Settings, given: Sequence[Given]) -> Iterator[Refusal]:
    """Every trust_remote_code that is true for a model with code of which its lock does not say that it may run."""
    for key, model in _trusting(baked, settings):
        if model is not None and (model.trust_remote_code or not has_code(model)):
            continue
        last = last_of(given, key)
        yield Refusal(
            text=f"{key}: true" if last is None else last.text,
            source=IN_FILE if last is None else last.source,
            why="no reward model was baked"
            if model is None
            else f"models.lock does not say that the code of {model.name}@{model.version} may run",
            todo="leave it out; if you read and trust that code, say trust_remote_code = true in models.lock and bake",
        )


def needless(baked: Baked, settings: Settings) -> Iterator[str]:
    """A note for every trust_remote_code that is true for a model in which there is no code to trust."""
    for key, model in _trusting(baked, settings):
        if model is not None and not has_code(model):
            yield f"{key} changes nothing: {model.name}@{model.version} has no code of its own"


def has_code(model: RecordedModel) -> bool:
    """Whether transformers would run Python of the model's own: `auto_map` names it. A file that cannot be read has
    none, and verify tells it.
    """
    if any(file.path.endswith(".py") for file in model.files):
        return True
    try:
        return b'"auto_map"' in (Path(model.path) / "config.json").read_bytes()
    except OSError:
        return False


def _trusting(baked: Baked, settings: Settings) -> Iterator[tuple[str, RecordedModel | None]]:
    """Every trust_remote_code that a person made true. Keys that nobody gave follow these by interpolation."""
    for key, value in leaves(settings.tree):
        if key.rpartition(".")[2] == "trust_remote_code" and value and key in settings.given:
            yield key, baked.of(key)


def _refused_variable(variable: str, value: str, by_path: Mapping[str, RecordedModel]) -> Refusal:
    return Refusal(
        text=f"{variable}={value}",
        source="the environment",
        why=f"this image was baked with {' and '.join(sorted(by_path))}",
        todo=f"leave {variable} as the image sets it; to train another model, bake it",
    )

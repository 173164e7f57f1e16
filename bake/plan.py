"""ImagePlan: a base and its ordered layers, decided from the lock alone. Planning is pure and needs no weights on disk.

The order is base, weights, then one small layer with the entrypoint and the record, so that base and entrypoint can
each be replaced by editing a manifest. Within a model, configuration and tokenizer come first, then weights, in path
order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bake import tar
from bake.digest import Digest
from bake.errors import LockError
from bake.record import Record, RecordedModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bake.lock import Base, Lock, LockedLayer, LockedModel, ModelId
    from bake.record import RecordedFile

PACKER = 1
"""The version of the packing rules: which files share a layer, and the tar bytes of a layer. Stamped into the lock."""

LARGE = 64 << 20
"""A file of this many bytes or more has a layer of its own."""

MAX_LAYERS = 60
"""Weight layers in one image. containerd and overlay2 stop near 127 with the base's own; SBOM scanners near 70."""

_SMALL_PER_LAYER = 128
_SMALL_LAYERS = 5
_WEIGHTS = (".safetensors", ".bin", ".pth", ".pt", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx")

MODELS = "opt/models"
ENVIRONMENT = {"actor": "VERL_MODEL_PATH", "critic": "VERL_CRITIC_MODEL_PATH", "reward_model": "VERL_REWARD_MODEL_PATH"}
WORKDIR = "/outputs"
RECORD = "opt/bake/record.json"
SITE = "opt/bake/site"

BASE_LAYERS = "dev.bake.base.layers"
"""The label that says how many of an image's layers are its base's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """One layer to be packed: files of one model below one folder of the image, in tar order."""

    model: ModelId
    folder: str
    files: tuple[RecordedFile, ...]
    diff_id: Digest | None = None

    @property
    def size(self) -> int:
        """Bytes of the tar: headers, bodies, padding and the two blocks at the end."""
        headers = sum(len(tar.directory_header(path)) for path in self.directories)
        bodies = sum(
            len(tar.file_header(self.target(file), size=file.size)) + file.size + tar.padding(file.size)
            for file in self.files
        )
        return headers + bodies + len(tar.TRAILER)

    @property
    def directories(self) -> tuple[str, ...]:
        found = {folder for file in self.files for folder in tar.parents(self.target(file))}
        return tuple(sorted(found, key=tar.tree_order))

    @property
    def key(self) -> Digest:
        """What decides the layer's bytes: the packer, and each file's path in the image, size and sha256."""
        content = [[self.target(file), file.size, file.digest.hex] for file in self.files]
        return Digest.of(json.dumps([PACKER, content], ensure_ascii=False, separators=(",", ":")).encode())

    def target(self, file: RecordedFile) -> str:
        """A file's path in the image, without the leading slash."""
        return f"{self.folder}/{file.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """A model in an image: where it goes, and what it is for."""

    model: LockedModel
    roles: tuple[str, ...]

    @property
    def folder(self) -> str:
        return folder_of(self.model.id)

    @property
    def path(self) -> str:
        """The absolute folder, without a slash at the end (verl refuses one: verl/utils/fs.py, copy_to_local)."""
        return f"/{self.folder}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """Everything that decides an image but the base's own bytes. `base` is None for an image of weights alone."""

    id: ModelId
    base: Base | None
    models: tuple[PlannedModel, ...]
    layers: tuple[LayerPlan, ...]

    @property
    def digest(self) -> Digest:
        """What decides the image, bake's own program and the base's bytes left out: it is known before any layer is."""
        content = {
            "base": str(self.base.digest) if self.base else None,
            "wheels": self.wheels,
            "layers": [layer.key.hex for layer in self.layers],
            "record": self.record.dumps().decode(),
            "environment": self.environment,
            "search_path": self.search_path,
            "labels": self.labels,
        }
        return Digest.of(json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode())

    @property
    def wheels(self) -> list[tuple[str, str, str]]:
        """Name, version and sha256 of what is unpacked on top of the base, in the order in which it is packed."""
        wheels = sorted(self.base.wheels if self.base else (), key=lambda wheel: wheel.name)
        return [(wheel.name, wheel.version, wheel.digest.hex) for wheel in wheels]

    @property
    def record(self) -> Record:
        return Record(
            models=tuple(_record(planned) for planned in self.models), overrides=self.models[0].model.overrides
        )

    @property
    def environment(self) -> dict[str, str]:
        paths = {ENVIRONMENT[role]: planned.path for planned in self.models for role in planned.roles}
        if self.base is None:
            return paths
        return paths | {
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HOME": "/tmp/huggingface",  # noqa: S108 - the one folder that any uid can write, in every base
            "RAY_AUTH_MODE": "disabled",  # unset, Ray turns token auth on for some of its commands and not for others
        }

    @property
    def search_path(self) -> dict[str, str]:
        """Search paths to put folders in front of: Python's, where the base lacks packages."""
        return {"PYTHONPATH": f"/{SITE}"} if self.base and self.base.wheels else {}

    @property
    def labels(self) -> dict[str, str]:
        actor = self.models[0].model
        labels = {
            "org.opencontainers.image.title": actor.id.name,
            "org.opencontainers.image.version": actor.id.version,
            "org.opencontainers.image.revision": actor.commit or "",
            "org.opencontainers.image.licenses": actor.license or "",
            "org.opencontainers.image.base.name": self.base.image if self.base else "",
            "org.opencontainers.image.base.digest": str(self.base.digest) if self.base and self.base.digest else "",
            "dev.bake.model": str(actor.id),
            "dev.bake.source": actor.source,
            "dev.bake.set-digest": str(actor.set_digest),
            "dev.bake.size": str(sum(planned.model.size for planned in self.models)),
            "dev.bake.packer": str(PACKER),
        }
        return {key: value for key, value in labels.items() if value}


def folder_of(model: ModelId) -> str:
    """Where a model goes in an image, without the leading slash.

    The version is not in it: a new one takes the place.
    """
    return f"{MODELS}/{model.name}"


def plan_image(lock: Lock, model: ModelId) -> ImagePlan:
    """Plan the image of one model. Raises LockError where an entry is not locked, is stale, or two models collide."""
    planned = _roles(lock, lock.find(model))
    budget = MAX_LAYERS // len(planned)
    layers = [layer for item in planned for layer in plan_layers(item.model, folder=item.folder, budget=budget)]
    return ImagePlan(id=model, base=lock.find_base(planned[0].model.base), models=planned, layers=tuple(layers))


def plan_layers(model: LockedModel, *, folder: str, budget: int = MAX_LAYERS) -> tuple[LayerPlan, ...]:
    """Divide a model's files into layers.

    Which files share a layer depends on paths and on which files are large, never on other files' bytes or exact
    sizes: a shard that changes leaves every other layer as it was. Beyond the budget, neighbours share a layer in
    equal numbers.
    """
    small = [file for file in model.files if file.size < LARGE]
    large = [file for file in model.files if file.size >= LARGE]
    configuration = [file for file in small if not is_weights(file.path)]
    weights = [file for file in small if is_weights(file.path)]
    groups = [*_few(configuration), *_few(weights)]
    groups += _divide(large, per=-(-len(large) // max(1, budget - len(groups))))
    known = {layer.files: layer for layer in model.layers} if model.packer == PACKER else {}
    return tuple(_layer(model, group, folder=folder, known=known) for group in groups)


def is_weights(path: str) -> bool:
    return path.endswith(_WEIGHTS)


def remember_layers(model: LockedModel, layers: Sequence[LockedLayer]) -> LockedModel:
    """The model with its layers' digests known, stamped with this packer."""
    return replace(model, packer=PACKER, layers=tuple(layers)) if layers else model


def _few(files: list[RecordedFile]) -> Iterator[list[RecordedFile]]:
    return _divide(files, per=max(_SMALL_PER_LAYER, -(-len(files) // _SMALL_LAYERS)))


def _divide(files: list[RecordedFile], *, per: int) -> Iterator[list[RecordedFile]]:
    for start in range(0, len(files), max(1, per)):
        yield files[start : start + per]


def _layer(
    model: LockedModel, group: list[RecordedFile], *, folder: str, known: Mapping[tuple[str, ...], LockedLayer]
) -> LayerPlan:
    files = tuple(sorted(group, key=lambda file: tar.tree_order(file.path)))
    layer = LayerPlan(model=model.id, folder=folder, files=files)
    locked = known.get(tuple(file.path for file in files))
    return replace(layer, diff_id=locked.diff_id) if locked and locked.size == layer.size else layer


def _roles(lock: Lock, actor: LockedModel) -> tuple[PlannedModel, ...]:
    wanted = {"actor": actor.id, "critic": actor.critic, "reward_model": actor.reward_model}
    roles: dict[ModelId, tuple[str, ...]] = {}
    for role, model in wanted.items():
        if model is not None:
            roles[model] = (*roles.get(model, ()), role)
    planned = tuple(PlannedModel(model=_ready(lock.find(model)), roles=held) for model, held in roles.items())
    folders: dict[str, ModelId] = {}
    for item in planned:
        if (other := folders.setdefault(item.folder, item.model.id)) != item.model.id:
            raise LockError(
                f"{actor.id}: {other} and {item.model.id} would both be baked into {item.path}",
                hint="give one of them another name",
            )
    return planned


def _ready(model: LockedModel) -> LockedModel:
    if not model.is_locked:
        raise LockError(f"{model.id} is not resolved yet", hint=f"bake lock {model.id}")
    if model.is_stale:
        raise LockError(
            f"{model.id}: what is asked (source, revision, include, exclude or max_shard_size) was edited after it was "
            "resolved",
            hint=f"a version is immutable: add a new one, or resolve this one anew: bake lock --upgrade {model.id}",
        )
    return model


def _record(planned: PlannedModel) -> RecordedModel:
    model = planned.model
    if model.set_digest is None:  # _ready has seen to it
        raise LockError(f"{model.id} is not resolved yet", hint=f"bake lock {model.id}")
    return RecordedModel(
        name=model.id.name,
        version=model.id.version,
        roles=planned.roles,
        path=planned.path,
        source=model.source,
        commit=model.commit,
        set_digest=model.set_digest,
        files=model.files,
        trust_remote_code=model.trust_remote_code,
    )

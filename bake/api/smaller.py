"""Smaller: what to type where a registry would refuse a layer of weights for its size."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bake.plan import LARGE, MAX_LAYERS
from bake.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bake.lock import LockedModel
    from bake.plan import ImagePlan

_USUAL = "5GB"


def smaller_shards(image_plan: ImagePlan) -> str:
    """What to type where a registry would refuse the largest layer for its size, or why there is nothing to type."""
    layer = max(image_plan.layers, key=lambda one: one.size)
    if len(layer.files) > 1 and max(file.size for file in layer.files) < LARGE:
        return "bake divides large files, and this layer holds small ones"
    if len(layer.files) > 1:
        return f"an image has {MAX_LAYERS} layers of weights at most, so these shards share them"
    if not layer.files[0].path.endswith(".safetensors"):
        return f"bake divides safetensors files, and {layer.files[0].path} is none: convert the model"
    (model,) = (planned.model for planned in image_plan.models if planned.model.id == layer.model)
    size = _USUAL if model.shard_limit is None or model.shard_limit > parse_size(_USUAL) else "SIZE"
    command = f"bake add {model.id.name}@NEW_VERSION {shlex.join(_asked(model))} --max-shard-size {size}"
    also = f" (and a new version of {image_plan.id} that names it)" if model.id != image_plan.id else ""
    return f"{command} divides its weights, tensor by tensor{also}"


def _asked(model: LockedModel) -> Iterator[str]:
    """What `bake add` was told of a model, but for its name and size of shards."""
    yield model.source
    once = {"--revision": model.revision, "--critic": model.critic, "--reward-model": model.reward_model}
    for option, value in {"--base": model.base, **once}.items():
        if value is not None:
            yield from (option, str(value))
    for option, values in {
        "--include": model.include,
        "--exclude": model.exclude,
        "--override": model.overrides,
    }.items():
        for value in values:
            yield from (option, value)
    if model.trust_remote_code:
        yield "--trust-remote-code"

"""Configuration: what config.json must say so that verl and the image's transformers read it as it was meant.

The silent faults lie here: transformers takes its own defaults for keys that it does not know.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bake.entrypoint.fault import FETCH_AGAIN, Fault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from bake.entrypoint.launch.installed import Installed
    from bake.entrypoint.load.documents import Documents
    from bake.record import RecordedModel

_THETA = 10_000.0
_OTHER_THETA = {
    "apertus": 12_000_000.0,
    "bitnet": 500_000.0,
    "ernie4_5": 500_000.0,
    "ernie4_5_moe": 500_000.0,
    "falcon_h1": 100_000.0,
    "flex_olmo": 500_000.0,
    "gemma3_text": 1_000_000.0,
    "gemma3n_text": 1_000_000.0,
    "gpt_oss": 150_000.0,
    "helium": 100_000.0,
    "lfm2": 1_000_000.0,
    "llama4_text": 500_000.0,
    "minimax": 1_000_000.0,
    "mixtral": 1_000_000.0,
    "persimmon": 25_000.0,
    "phimoe": 1_000_000.0,
    "qwen2_5_vl_text": 1_000_000.0,
    "qwen2_vl_text": 1_000_000.0,
    "qwen3_vl_moe_text": 5_000_000.0,
    "qwen3_vl_text": 5_000_000.0,
    "smollm3": 2_000_000.0,
}
"""The rope_theta that transformers 4.55 and 4.57 take where config.json has none: their classes' defaults, all read."""

_ASSERTS_ONE = (0, 6)
"""The first verl with HFModelConfig, which asserts one architecture; 0.5 asks for none (read: workers/config)."""

_OTHER_SCALING = {"apertus": "llama3", "gpt_oss": "yarn"}
"""The same for the kind of rope_scaling, which is none for all others."""


def configuration_faults(
    model: RecordedModel,
    documents: Documents,
    *,
    transformers: str | None,
    known: Collection[str] | None,
    verl: Installed | None,
) -> Iterator[Fault]:
    """`known` are the model types that this transformers has; None where that is not known, or where no verl is."""
    if not documents.config:
        if "config.json" in documents.names:  # else verify tells it
            yield _fault("a JSON object with the model's configuration", "an empty one, or no object", FETCH_AGAIN)
        return
    yield from _type_faults(model, documents.config, known=known)
    yield from _code_faults(model, documents)
    if set(model.roles) != {"reward_model"} and (verl is None or verl.since(*_ASSERTS_ONE)):
        yield from _architecture_faults(documents.config)
    if release(transformers)[0] == 4:
        yield from _rope_faults(documents.config, transformers=str(transformers))


def release(version: str | None) -> tuple[int, int]:
    """The first two numbers of a version, as (5, 10) of `5.10.4`; (0, 0) where there are none."""
    numbers = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _type_faults(model: RecordedModel, config: Mapping[str, Any], *, known: Collection[str] | None) -> Iterator[Fault]:
    kind, own_code = config.get("model_type"), "AutoConfig" in _auto_map(config)
    if not isinstance(kind, str):
        if not own_code:
            yield _fault(
                "a model_type, by which transformers finds the architecture",
                "none",
                "fetch config.json again; that of an adapter or of another format does not serve",
            )
    elif known is not None and kind not in known and not own_code:
        yield _fault(
            "a model_type that the image's transformers knows",
            f"{kind!r}, which it does not know",
            "build on a base image with a transformers that has this model, which its model card names",
        )
    elif known is not None and kind not in known and not model.trust_remote_code:
        yield _fault(
            f"a model_type that transformers knows, or trust_remote_code = true in the lock for the code of {kind!r}",
            "code of the model's own (auto_map), which may not run",
            "read the model's *.py files; if you trust them, set trust_remote_code = true for it in models.lock",
        )


def _auto_map(config: Mapping[str, Any]) -> Mapping[str, Any]:
    value = config.get("auto_map")
    return value if isinstance(value, dict) else {}


def _code_faults(model: RecordedModel, documents: Documents) -> Iterator[Fault]:
    """Code that may run must be there: in the image no other repository can be asked for it."""
    if not model.trust_remote_code:
        return
    references = {value for value in _auto_map(documents.config).values() if isinstance(value, str)}
    for reference in sorted(references):
        module = reference.partition(".")[0]
        if "--" in reference:
            found, todo = f"{reference!r}, in another repository", "put that code beside config.json, and name it there"
        elif f"{module}.py" not in documents.names:
            found, todo = f"no {module}.py", "lock the model again with its *.py files"
        else:
            continue
        yield _fault(f"the code that auto_map names, {reference!r}, in the model's folder", found, todo)


def _architecture_faults(config: Mapping[str, Any]) -> Iterator[Fault]:
    """verl 0.6 up: `Expect only one architecture` (workers/config/model.py, HFModelConfig)."""
    value = config.get("architectures")
    if not (isinstance(value, list) and len(value) == 1 and isinstance(value[0], str)):
        yield _fault(
            "exactly one name in architectures, as verl asserts",
            "none" if not value else repr(value),
            'keep the one to train in config.json, such as "architectures": ["Qwen2ForCausalLM"]',
        )


def _rope_faults(config: Mapping[str, Any], *, transformers: str) -> Iterator[Fault]:
    """transformers 4 does not know `rope_parameters`, and says nothing: rotary embeddings take the class's defaults."""
    for place, holder in (("", config), ("text_config.", config.get("text_config"))):
        rope = holder.get("rope_parameters") if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(rope, dict) and "rope_theta" not in holder:
            lost = _lost(holder, rope)
            if lost:
                yield _fault(
                    f"rope_theta and rope_scaling, which transformers {transformers} reads",
                    f"{place}rope_parameters of transformers 5, so that {lost} would be lost without a word",
                    f'write "rope_theta" (and "rope_scaling") into {place or "the top of "}config.json beside it, '
                    "or build on a base image with transformers 5",
                )


def _lost(holder: Mapping[str, Any], rope: Mapping[str, Any]) -> str:
    """What transformers 4 would read otherwise, as `rope_theta 500000.0`; empty where its defaults are the same."""
    if isinstance(full := rope.get("full_attention"), dict):  # by kind of layer, as Gemma 3 has it
        rope = full
    kind = str(holder.get("model_type"))
    theta, scaling = _OTHER_THETA.get(kind, _THETA), _OTHER_SCALING.get(kind, "default")
    found = []
    if rope.get("rope_theta", theta) != theta:
        found.append(f"rope_theta {rope['rope_theta']}")
    if rope.get("rope_type", scaling) != scaling and "rope_scaling" not in holder:
        found.append(f"the {rope['rope_type']} scaling")
    if rope.get("partial_rotary_factor", 1.0) != 1.0 and "partial_rotary_factor" not in holder:
        found.append(f"partial_rotary_factor {rope['partial_rotary_factor']}")
    return " and ".join(found)


def _fault(expected: str, found: str, hint: str) -> Fault:
    return Fault(path="config.json", kind="config", expected=expected, found=found, hint=hint)

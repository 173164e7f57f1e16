"""Architecture: the model as transformers builds it from config.json, against the tensors that the weights hold.

transformers itself compares them: its `from_pretrained` is given tensors without bytes, so that tied weights, renamed
and merged tensors, prefixes and the names that a class ignores are treated as in a training.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bake.entrypoint.fault import Fault
from bake.entrypoint.load.weights import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

Head = Literal["baked", "new"]

_DIGITS = re.compile(r"\d+")
_AUTO = {
    "ForCausalLM": "AutoModelForCausalLM",
    "ForVision2Seq": "AutoModelForImageTextToText",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
}
"""verl 0.9.1, utils/model.py, _architecture_to_auto_class; 0.6 to 0.8 have the same."""


_ASKS_FOR_NUMBERS = re.compile(r"[Mm]eta tensors?\b|meta device|register_meta")
"""What torch 2.13 says where a tensor on the meta device is asked for its numbers: by `allclose`, `item` and `to`, by
`numpy`, and by `nonzero`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A class to build from a configuration. A `new` head may lack its tensors: verl trains one from nothing."""

    model_class: Any
    config: Any
    head: Head


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Tensors by the class's own names: those that the weights lack, those of the weights without a place, and of the
    latter those that should have one. `shapes` are the model's and the weights'; `rows` are the embedding's.
    """

    class_name: str
    missing: tuple[str, ...]
    unplaced: tuple[str, ...]
    misfits: tuple[str, ...]
    shapes: Mapping[str, tuple[tuple[int, ...], tuple[int, ...] | None]]
    rows: int | None


def build_for(role: str, config: Any, *, folder: Path, trust: bool) -> Build | None:
    """What verl builds of a model in a role; None where the image's transformers has no class for it.

    A reward model that vLLM or SGLang serves may be of a class that only these have.
    """
    import transformers

    name = (getattr(config, "architectures", None) or [""])[0]
    if role == "actor":
        found = _actor_class(config, name, folder=folder, trust=trust)
        return Build(model_class=found, config=config, head="baked") if found else None
    if role == "critic":
        critic = copy.deepcopy(config)
        critic.num_labels = 1  # verl 0.9.1, workers/engine/fsdp/transformer_impl.py, _build_module
        found = _mapped("AutoModelForTokenClassification", critic)
        head: Head = "baked" if name.endswith("ForTokenClassification") else "new"
        return Build(model_class=found, config=critic, head=head) if found else None
    found = getattr(transformers, name, None)
    return Build(model_class=found, config=config, head="baked") if found else None


def _actor_class(config: Any, name: str, *, folder: Path, trust: bool) -> Any:
    """As verl 0.9.1, utils/model.py, get_hf_auto_model_class."""
    auto_map = getattr(config, "auto_map", None) or {}
    reference = next((value for value in auto_map.values() if name and name in value), None)
    if trust and reference:
        from transformers.dynamic_module_utils import get_class_from_dynamic_module

        return get_class_from_dynamic_module(reference, str(folder), local_files_only=True)
    picture = _mapped("AutoModelForImageTextToText", config)
    fallback = "AutoModel" if name else "AutoModelForCausalLM"  # verl 0.5 builds the latter, and asks for no name
    auto = next((auto for key, auto in _AUTO.items() if key in name), fallback)
    return picture or _mapped(auto, config)


def _mapped(auto: str, config: Any) -> Any:
    """The class that an Auto class has for a configuration, or None. verl reads `_model_mapping` too."""
    import transformers

    mapping = getattr(transformers, auto)._model_mapping
    if type(config) not in mapping:
        return None
    found = mapping[type(config)]
    if not isinstance(found, (list, tuple)):
        return found
    named = {candidate.__name__: candidate for candidate in found}
    return named.get((config.architectures or [""])[0], found[0])


def compare(build: Build, tensors: Mapping[str, Any]) -> Comparison | None:
    """Let transformers load the tensors. Raises whatever it raises.

    None where the class reads numbers while it is built or loaded: tensors without bytes have none. No model's fault.
    """
    try:
        return _compare(build, tensors)
    except (RuntimeError, TypeError) as error:  # NotImplementedError is among them; torch has no class for this alone
        if _ASKS_FOR_NUMBERS.search(str(error)):
            return None
        raise


def _compare(build: Build, tensors: Mapping[str, Any]) -> Comparison:
    with _on_meta():
        module, told = build.model_class.from_pretrained(
            None,
            config=build.config,
            state_dict=dict(tensors),
            device_map={"": "meta"},
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    own = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    missing = tuple(sorted(told["missing_keys"]))
    if build.head == "new":
        missing = tuple(name for name in missing if name.startswith(f"{module.base_model_prefix}."))
    wrong = (item if isinstance(item, tuple) else (item, None) for item in told["mismatched_keys"])
    return Comparison(
        class_name=build.model_class.__name__,
        missing=missing,
        unplaced=tuple(sorted(told["unexpected_keys"])),
        misfits=tuple(sorted(_misfits(told["unexpected_keys"], own, module, build.config))),
        shapes={name: (own[name], _shape(name, rest[0], tensors)) for name, *rest in wrong},
        rows=_rows(module),
    )


def _on_meta() -> Any:
    """A mode in which every tensor is made without bytes: transformers 4 makes missing ones on the CPU.

    Two of one shape are equal: transformers 5 asks it of tied tensors that the weights hold twice, as each .bin file
    does. Tied or not, the names and shapes are the same.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    class OnMeta(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            if function is torch.equal:
                return args[0].shape == args[1].shape
            given = dict(kwargs or {})
            if given.get("device") is not None:
                given["device"] = "meta"
            return function(*args, **given)

    return OnMeta()


def _shape(name: str, told: Any, tensors: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The shape that the weights hold: transformers 5 says it, 4 names the tensor alone."""
    if told is not None:
        return tuple(told)
    held = next((tensors[key] for key in (name, name.partition(".")[2]) if key in tensors), None)
    return None if held is None else tuple(held.shape)


def _misfits(unexpected: Iterable[str], own: Mapping[str, object], module: Any, config: Any) -> Iterator[str]:
    """Tensors without a place in the model that show weights of another configuration.

    A tensor of a part that the class does not have at all is none of these: a value head, a drafter's layers (MTP), a
    picture encoder. One beside tensors that it has is: a bias that config.json switches off, a layer too many.
    """
    parts = {name for name, _ in module.named_modules()}
    families = {_DIGITS.sub("*", name) for name in own}
    drafter = bool(getattr(config, "num_nextn_predict_layers", 0))
    for name in unexpected:
        part = name.rpartition(".")[0]
        if (part and part in parts) or (_DIGITS.sub("*", name) in families and not drafter):
            yield name


def _rows(module: Any) -> int | None:
    try:
        return int(module.get_input_embeddings().weight.shape[0])
    except (AttributeError, NotImplementedError):  # no text goes into this model
        return None


def comparison_faults(comparison: Comparison, *, transformers: str) -> Iterator[Fault]:
    """What differs, each kind once."""
    who = f"{comparison.class_name} of transformers {transformers}"
    if comparison.missing:
        yield _fault(
            f"all tensors of {who}",
            f"none for {listed(comparison.missing)}"
            + (f"; without a place are {listed(comparison.unplaced)}" if comparison.unplaced else ""),
            "take config.json and all weights from the same commit; the missing ones would be random numbers",
        )
    elif comparison.misfits:
        yield _fault(
            f"no more tensors than {who} has with this config.json",
            listed(comparison.misfits),
            "take config.json and the weights from the same commit; these would be left out without an error",
        )
    if comparison.shapes:
        name = min(comparison.shapes)
        wanted, held = comparison.shapes[name]
        count = len(comparison.shapes)
        yield _fault(
            f"{name} of shape {list(wanted)}, as {who} builds it",
            f"{list(held) if held else 'another shape'}" + (f", and {count - 1:,} more" if count > 1 else ""),
            "take config.json and the weights from the same commit",
        )


def _fault(expected: str, found: str, hint: str) -> Fault:
    return Fault(path="config.json", kind="weights", expected=expected, found=found, hint=hint)

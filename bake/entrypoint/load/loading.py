"""Loading: configuration, tensors and tokenizer through the image's transformers, as verl goes about them.

Runs inside `quiet`. What a static fault has told already is not looked at again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bake.entrypoint.fault import Fault
from bake.entrypoint.load.architecture import build_for, compare, comparison_faults
from bake.entrypoint.load.attempt import attempt
from bake.entrypoint.load.encoding import encoding_faults, special_faults, template_faults
from bake.entrypoint.load.weights import listed, packed_faults, state_dict
from bake.entrypoint.speech import tell

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from bake.entrypoint.load.architecture import Build, Comparison
    from bake.entrypoint.load.documents import Documents
    from bake.record import RecordedModel

_TARGET = re.compile(r"destined for ([\w.*-]*\w)")
"""transformers 5 names a merged tensor that did not come together in its loading report alone."""


def loaded_faults(
    model: RecordedModel, documents: Documents, static: Collection[Fault], *, messages: Sequence[str]
) -> Iterator[Fault]:
    """`messages` are what transformers says meanwhile."""
    config = _config(model, documents)
    if isinstance(config, Fault):
        if not any(fault.kind == "config" for fault in static):
            yield config
        return
    rows = None
    if _comparable(config, static):
        comparisons = list(_comparisons(model, documents, config, messages=messages))
        rows = next((found.rows for found in comparisons if not isinstance(found, Fault)), None)
        for found in comparisons:
            yield from [found] if isinstance(found, Fault) else comparison_faults(found, transformers=_version())
    if not any(fault.kind == "tokenizer" for fault in static):
        yield from _tokenizer_faults(model, documents, rows=rows)


def _version() -> str:
    import transformers

    return str(transformers.__version__)


def _comparable(config: Any, static: Collection[Fault]) -> bool:
    """Not the tensors of a quantized model: what they become is its quantizer's affair, which may need a GPU."""
    told = any(fault.kind in {"config", "weights"} and fault.path in {"config.json", "."} for fault in static)
    return not told and getattr(config, "quantization_config", None) is None


def _config(model: RecordedModel, documents: Documents) -> Any:
    import transformers

    return attempt(
        lambda: transformers.AutoConfig.from_pretrained(
            str(documents.folder), local_files_only=True, trust_remote_code=model.trust_remote_code
        ),
        Fault(
            path="config.json",
            kind="config",
            expected=f"a configuration that transformers {_version()} reads",
            found="",
            hint="fetch config.json again, or build on a base image whose transformers has this model",
        ),
    )


def _comparisons(
    model: RecordedModel, documents: Documents, config: Any, *, messages: Sequence[str]
) -> Iterator[Comparison | Fault]:
    """One for each class that verl would build of this model."""
    fault = Fault(
        path="config.json",
        kind="weights",
        expected=f"config.json and weights that transformers {_version()} makes one model of",
        found="",
        hint="take config.json and all weights from the same commit; else build on another version of transformers",
    )
    tensors = attempt(lambda: state_dict(documents.folder), fault)
    if tensors is None:  # verify has told why
        return
    if isinstance(tensors, Fault):
        yield tensors
        return
    yield from packed_faults(tensors)
    for build in _builds(model, documents, config):
        found = build if isinstance(build, Fault) else _compared(build, tensors, fault, messages=messages)
        if found is not None:
            yield found


def _builds(model: RecordedModel, documents: Documents, config: Any) -> Iterator[Build | Fault]:
    names = ", ".join(getattr(config, "architectures", None) or ["none"])
    for role in model.roles:
        fault = Fault(
            path="config.json",
            kind="config",
            expected=f"an architecture that transformers {_version()} builds",
            found=f"{names} of model_type {config.model_type!r}",
            hint="build on a base image whose transformers has this model",
        )
        build = attempt(
            lambda role=role: build_for(  # type: ignore[misc]
                role, config, folder=documents.folder, trust=model.trust_remote_code
            ),
            fault,
        )
        if build is not None:
            yield build
        elif role == "actor":
            yield fault


def _compared(
    build: Build, tensors: Mapping[str, Any], fault: Fault, *, messages: Sequence[str]
) -> Comparison | Fault | None:
    """None where the class cannot be compared without numbers, which is said."""
    found = attempt(lambda: compare(build, tensors), fault)
    if found is None:
        name = build.model_class.__name__
        tell(f"note: config.json and the weights were not compared: {name} cannot be loaded without the weights' bytes")
    targets = {name for message in messages for name in _TARGET.findall(message)}
    if isinstance(found, Fault) and targets:
        incomplete = f"weights that {listed(targets)} cannot be put together from: one is missing, or of another shape"
        return Fault(path=found.path, kind=found.kind, expected=found.expected, found=incomplete, hint=found.hint)
    return found


def _tokenizer_faults(model: RecordedModel, documents: Documents, *, rows: int | None) -> Iterator[Fault]:
    import transformers

    fault = Fault(
        path="tokenizer.json",
        kind="tokenizer",
        expected=f"a tokenizer that transformers {_version()} loads",
        found="",
        hint="lock the model again with all files of its tokenizer; if its own code is needed and you trust it, "
        "set trust_remote_code = true for it in models.lock",
    )
    tokenizer = attempt(
        lambda: transformers.AutoTokenizer.from_pretrained(
            str(documents.folder), local_files_only=True, trust_remote_code=model.trust_remote_code
        ),
        fault,
    )
    if isinstance(tokenizer, Fault):
        yield tokenizer
        return
    found = attempt(lambda: list(_working_faults(model, documents, tokenizer, rows=rows)), fault)
    yield from [found] if isinstance(found, Fault) else found


def _working_faults(model: RecordedModel, documents: Documents, tokenizer: Any, *, rows: int | None) -> Iterator[Fault]:
    """A tokenizer that does not encode is not asked for more."""
    actor = "actor" in model.roles
    faults = tuple(encoding_faults(tokenizer, rows=rows, exact=actor))
    yield from faults
    if actor and not faults:
        yield from special_faults(tokenizer, rows=rows)
        if documents.template is not None:
            yield from template_faults(tokenizer, documents, rows=rows)

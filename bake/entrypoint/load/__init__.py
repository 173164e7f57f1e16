"""Load: whether a baked model would load and work in verl, found before verl starts. No weight is read.

`static_faults` reads the small files alone and takes some milliseconds: it runs before every training. `load_faults`
also lets the image's own transformers build the model on the meta device, tokenize and render: some seconds.

    fault                                                  without it, in verl                          told by
    no config.json, broken JSON, a git-lfs pointer         an error, late                               verify
    no weights, a missing shard, shards without index      an error, late                               verify
    model_type missing, or unknown to this transformers    an error, late                               static
    auto_map without trust_remote_code, or without code    an error, late                               static
    architectures of none or two, verl 0.6 and up          an assertion without a file's name           static
    rope_parameters of transformers 5 under 4              nothing: other rotary embeddings             static
    no vocabulary (Qwen2: a tokenizer of two tokens)       nothing: every prompt is empty               static
    no tokenizer_config.json                               nothing: another token ends an answer        static
    TokenizersBackend, extra_special_tokens under 4        an error that names a class                  static
    LlamaTokenizer over a byte-level file, 5.3 to 5.11     nothing: every text loses its spaces         static
    eos_token null, or one that no other file knows        nothing: no answer ends                      static, load
    no chat template (actor)                               every sample fails, or is skipped            static
    an adapter alone, weights of another name              an error, late                               static
    consolidated*.safetensors (no critic's)                vLLM takes the model for Mistral's format    static
    a file that this uid may not read                      PermissionError                              static
    tensors missing, left over, of another shape           nothing (random numbers), or an error        load
    8-bit weights without quantization_config              nothing: scales are left out                 load
    a tokenizer that does not give texts back              nothing                                      load
    ids beyond the embedding's rows                        a CUDA assertion                             load
    a chat template that does not render                   every sample fails                           load

What is no fault, because real models have it and verl trains them: float weights of several dtypes, or of another than
config.json's (verl gives the dtype itself); config.json's `dtype` under transformers 4 (the same); several eos ids; a
chat template whose last token is no eos (the Qwen2.5 base models); a value head, MTP layers or a picture encoder that
the class does not have; no pad_token (verl takes eos_token); quantized weights, whose tensors are not compared.
A critic needs no chat template and may lack its head; of a reward model nothing is compared that only vLLM or SGLang
has a class for. Sources: verl 0.5.0 to 0.9.1, workers/config/model.py, utils/model.py, utils/tokenizer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bake.entrypoint.launch.installed import find_verl
from bake.entrypoint.load.attempt import first_line, quiet
from bake.entrypoint.load.configuration import configuration_faults
from bake.entrypoint.load.documents import read_documents
from bake.entrypoint.load.installed import model_types
from bake.entrypoint.load.loading import loaded_faults
from bake.entrypoint.load.storage import storage_faults
from bake.entrypoint.load.vocabulary import vocabulary_faults
from bake.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bake.entrypoint.fault import Fault
    from bake.entrypoint.launch.installed import Installed
    from bake.entrypoint.load.documents import Documents
    from bake.record import RecordedModel


def static_faults(
    model: RecordedModel, folder: Path, *, transformers: str | None, chat_template: bool = False
) -> tuple[Fault, ...]:
    """What the small files show, sorted. `transformers` is the version that will read them, None where there is none.

    `chat_template` says that the settings bring one (actor_rollout_ref.model.custom_chat_template).
    """
    documents = read_documents(folder)
    return tuple(sorted(_static(model, documents, transformers=transformers, chat_template=chat_template)))


def load_faults(model: RecordedModel, folder: Path, *, chat_template: bool = False) -> tuple[Fault, ...]:
    """The static ones, and what the image's transformers and torch find, sorted. One fault for one cause.

    Raises ImageError where the image lacks one of the two. The model's own code runs only with trust_remote_code.
    """
    version = _transformers()
    documents = read_documents(folder)
    static = tuple(_static(model, documents, transformers=version, chat_template=chat_template))
    if not documents.config or documents.broken or any(fault.kind == "unreadable" for fault in static):
        return tuple(sorted(static))
    with quiet() as messages:
        return tuple(sorted({*static, *loaded_faults(model, documents, static, messages=messages)}))


def _static(
    model: RecordedModel, documents: Documents, *, transformers: str | None, chat_template: bool
) -> Iterator[Fault]:
    yield from storage_faults(model, documents)
    if documents.names and not documents.broken:  # else verify tells it
        yield from configuration_faults(
            model, documents, transformers=transformers, known=model_types(transformers), verl=_verl()
        )
        yield from vocabulary_faults(model, documents, transformers=transformers, chat_template=chat_template)


def _verl() -> Installed | None:
    """None where the image lacks it, as one that only serves or checks models does."""
    try:
        return find_verl()
    except ImageError:
        return None


def _transformers() -> str:
    """The version of transformers, once it and torch are imported."""
    for name in ("torch", "transformers"):
        try:
            import_module(name)
        except ImportError as error:
            absent = isinstance(error, ModuleNotFoundError) and error.name == name
            raise ImageError(
                f"this image has no {name}" if absent else f"{name} cannot be imported: {first_line(error)}",
                hint="--level full needs neither torch nor transformers; to train, build on a base image that has verl",
            ) from error
    return str(import_module("transformers").__version__)

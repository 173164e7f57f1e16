from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bake.entrypoint.fault import Fault
from bake.entrypoint.load import static_faults
from tests.entrypoint.files import write
from tests.entrypoint.load.folders import faults_of, model_of, tiny_llama, without

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_an_adapter_alone_is_told(tmp_path: Path) -> None:
    files = {name: content for name, content in tiny_llama().items() if not name.startswith("model")}

    assert faults_of(tmp_path, {**files, "adapter_model.safetensors": b"x"}) == (
        Fault(
            path=".",
            kind="weights",
            expected="model.safetensors, pytorch_model.bin or one of their indexes: no other name is looked for",
            found="adapter_model.safetensors",
            hint="merge an adapter into its base model; rename a single weights file to model.safetensors",
        ),
    )


def test_shards_without_an_index_and_no_weights_at_all_are_left_to_verify(tmp_path: Path) -> None:
    shards = without(tiny_llama(), "model.safetensors.index.json")
    none = {name: content for name, content in tiny_llama().items() if not name.startswith("model")}

    assert faults_of(tmp_path / "shards", shards) == ()
    assert faults_of(tmp_path / "none", none) == ()


def test_a_second_copy_in_mistrals_format_is_told(tmp_path: Path) -> None:
    assert faults_of(tmp_path, {**tiny_llama(), "consolidated.safetensors": b"x"}) == (
        Fault(
            path="consolidated.safetensors",
            kind="weights",
            expected="the weights once, as transformers names them",
            found="1 file in Mistral's format, by which vLLM takes the model for one of that format",
            hint='drop them: add "consolidated*" to exclude for this model in models.lock, and lock it again',
        ),
    )


@pytest.mark.parametrize("roles", [("actor", "critic"), ("reward_model",)])
def test_it_is_told_in_every_role_that_vllm_serves(tmp_path: Path, roles: tuple[str, ...]) -> None:
    faults = faults_of(tmp_path, {**tiny_llama(), "consolidated.safetensors": b"x"}, roles=roles)

    assert [fault.path for fault in faults] == ["consolidated.safetensors"]


def test_a_critic_is_never_served_and_may_have_such_a_copy(tmp_path: Path) -> None:
    assert faults_of(tmp_path, {**tiny_llama(), "consolidated.safetensors": b"x"}, roles=("critic",)) == ()


@pytest.fixture
def nobodys_view() -> Iterator[Path]:
    """A folder that another user can enter, seen as that user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    os.seteuid(65534)
    yield folder
    os.seteuid(0)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_of_another_user_is_told(nobodys_view: Path) -> None:
    os.seteuid(0)
    write(nobodys_view, tiny_llama())
    (nobodys_view / "model-00001-of-00003.safetensors").chmod(0o600)
    os.seteuid(65534)

    assert static_faults(model_of(tiny_llama()), nobodys_view, transformers="5.10.4") == (
        Fault(
            path="model-00001-of-00003.safetensors",
            kind="unreadable",
            expected="a file that uid 65534 may read",
            found="mode 0600, owned by uid 0",
            hint="run `chmod -R a+rX` on the model's folder, or run the container as its owner",
        ),
    )

"""What holds for `static_faults` as a whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bake.entrypoint.load import static_faults
from tests.entrypoint.load.folders import faults_of, model_of, tiny_llama, without

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("transformers", ["4.55.4", "4.57.3", "5.10.4", None])
def test_a_model_that_reads_the_same_everywhere_has_no_fault(tmp_path: Path, transformers: str | None) -> None:
    assert faults_of(tmp_path, tiny_llama(), transformers=transformers) == ()


def test_an_absent_folder_is_left_to_verify(tmp_path: Path) -> None:
    assert static_faults(model_of(tiny_llama()), tmp_path / "absent", transformers="5.10.4") == ()


MEGABYTES = b"[" + b"0, " * 300_000 + b"0]"


@pytest.mark.parametrize("content", [MEGABYTES, b"version https://git-lfs.github.com/spec/v1", b""])
def test_a_file_that_no_rule_reads_hides_no_fault(tmp_path: Path, content: bytes) -> None:
    files = {**without(tiny_llama(), "tokenizer.json"), "freqs.json": content}

    assert [fault.path for fault in faults_of(tmp_path, files)] == ["tokenizer.json"]


@pytest.mark.parametrize("content", [MEGABYTES, b" \n{" + b'"a": 0, ' * 200_000 + b'"b": 0}\n'])
def test_a_large_document_of_any_layout_hides_no_fault(tmp_path: Path, content: bytes) -> None:
    files = {**without(tiny_llama(), "chat_template.jinja"), "tokenizer.json": content}

    assert [fault.kind for fault in faults_of(tmp_path, files)] == ["chat-template"]


@pytest.mark.parametrize("content", [b"x" * 2_000_000, b"{" + b"0, " * 600_000])
def test_a_large_document_that_is_cut_off_is_left_to_verify(tmp_path: Path, content: bytes) -> None:
    files = {**without(tiny_llama(), "chat_template.jinja"), "tokenizer.json": content}

    assert faults_of(tmp_path, files) == ()


def test_nothing_of_a_third_party_is_imported() -> None:
    script = (
        "import sys; from pathlib import Path; from bake.entrypoint.load import static_faults;"
        "from tests.entrypoint.load.folders import TINY_LLAMA, model_of, tiny_llama;"
        "static_faults(model_of(tiny_llama()), TINY_LLAMA, transformers='5.10.4');"
        "print([name for name in ('torch', 'transformers', 'tokenizers', 'numpy', 'jinja2') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    assert run.stdout == "[]\n"


def test_an_image_without_torch_is_told_as_the_images_fault() -> None:
    script = (
        "from bake.entrypoint.load import load_faults; from bake.errors import ImageError;"
        "from tests.entrypoint.load.folders import TINY_LLAMA, model_of, tiny_llama\n"
        "try: load_faults(model_of(tiny_llama()), TINY_LLAMA)\n"
        "except ImageError as error: print(error.message, error.hint, sep='; ')"
    )
    without_packages = [sys.executable, "-S", "-c", script]
    run = subprocess.run(without_packages, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT)})

    assert run.stdout == (
        "this image has no torch; --level full needs neither torch nor transformers; to train, build on a base image "
        "that has verl\n"
    )

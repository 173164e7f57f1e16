"""The entrypoint as it lies in an image: a copy of its files alone, run by a bare interpreter."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import bake
from bake.entrypoint.__main__ import USAGE
from bake.record import Record, RecordedModel
from tests.entrypoint.files import recorded, write
from tests.entrypoint.image import put_entrypoint
from tests.entrypoint.load.folders import tiny_llama, with_keys

ROOT = Path(bake.__file__).parents[1]
IMPORTED = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "bake/entrypoint").rglob("*.py")
    if path.name != "__init__.py"
)
FILES = tiny_llama()
FIRST = "model-00001-of-00003.safetensors"
SIZE = len(FILES["config.json"])
UNCHECKED = ("--no-preflight=all",)
CONFIG = b"""\
data: {train_files: null, val_files: null}
actor_rollout_ref: {model: {path: null}, rollout: {name: vllm}}
critic: {model: {path: null}}
trainer: {nnodes: 1, n_gpus_per_node: 8, total_epochs: 30, device: cuda}
"""
STUB = "import json, os, sys\nprint(json.dumps([os.getpid(), *sys.argv[1:]]))\nsys.exit(7)\n"


@dataclass(frozen=True)
class Image:
    """A root file system with the entrypoint, one model, and verl's place."""

    root: Path
    models: tuple[RecordedModel, ...]

    @property
    def model(self) -> Path:
        return Path(self.models[0].path)

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "error", str(self.root / "opt/bake"), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(self.root / "wheels"),
                "VERL_MODEL_PATH": str(self.model),
                **environ,
            },
        )

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, **environ)
        stdout, stderr = process.communicate(timeout=60)
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)


def make_image(root: Path, *names: str) -> Image:
    put_entrypoint(root)
    models = tuple(
        replace(recorded(FILES, path=str(write(root / "models" / name, FILES))), name=name) for name in names
    )
    write(
        root,
        {
            "opt/bake/record.json": Record(models=models).dumps(),
            "wheels/flash_attn/__init__.py": b"",
            "wheels/verl/__init__.py": b"",
            "wheels/verl/trainer/__init__.py": b"",
            "wheels/verl/trainer/main_ppo.py": STUB.encode(),
            "wheels/verl/trainer/config/ppo_trainer.yaml": CONFIG,
        },
    )
    return Image(root, models)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return make_image(tmp_path, "tiny")


def untimed(text: str) -> str:
    """Whatever took however long took 0.1 s."""
    return re.sub(r"\d+\.\d s", "0.1 s", text)


def paths(model: Path, *, critic: Path | None = None) -> list[str]:
    return [f"actor_rollout_ref.model.path='{model}'", f"critic.model.path='{critic or model}'"]


@pytest.mark.parametrize("words", [("train",), ()])
def test_train_verifies_and_then_verl_takes_the_process_over(image: Image, words: tuple[str, ...]) -> None:
    process = image.start(*words, *UNCHECKED)
    stdout, stderr = process.communicate(timeout=60)

    assert json.loads(stdout) == [process.pid, *paths(image.model)]
    assert process.returncode == 7
    assert untimed(stderr).splitlines()[-4:] == [
        "tiny@v1: 9 files are as recorded (quick, 0.1 s)",
        "warning: no preflight: neither the machine nor the data are checked (--no-preflight=all)",
        "checked in 0.1 s",
        f"starting verl: {sys.executable} -m verl.trainer.main_ppo {shlex.join(paths(image.model))}",
    ]


@pytest.mark.parametrize("words", [("train", "trainer.total_epochs=1"), ("trainer.total_epochs=1",)])
def test_overrides_come_after_the_baked_paths(image: Image, words: tuple[str, ...]) -> None:
    assert json.loads(image.run(*words, *UNCHECKED).stdout)[1:] == [*paths(image.model), "trainer.total_epochs=1"]


def test_an_option_may_come_first(image: Image) -> None:
    assert image.run(*UNCHECKED, "trainer.total_epochs=1").returncode == 7


def test_a_dry_run_prints_the_command_and_starts_nothing(image: Image) -> None:
    result = image.run("train", "--dry-run", *UNCHECKED, "trainer.total_epochs=1")

    command = [sys.executable, "-m", "verl.trainer.main_ppo", *paths(image.model), "trainer.total_epochs=1"]
    assert (result.returncode, result.stdout) == (
        0,
        f"RAY_ADDRESS=local RAY_AUTH_MODE=disabled {shlex.join(command)}\n",
    )


def test_a_dry_run_prints_json_for_programs(image: Image) -> None:
    result = image.run("train", "--dry-run", "--json", *UNCHECKED)

    checked, launch = map(json.loads, result.stdout.splitlines())
    assert checked["findings"] == []
    assert [model["faults"] for model in checked["models"]] == [[]]
    assert launch["command"] == [sys.executable, "-m", "verl.trainer.main_ppo", *paths(image.model)]
    assert launch["environment"] == {"RAY_ADDRESS": "local", "RAY_AUTH_MODE": "disabled"}


@pytest.mark.parametrize("word", ["train", "preflight"])
def test_what_verl_would_refuse_is_a_launch_error(image: Image, word: str) -> None:
    result = image.run(word, *UNCHECKED, "trainer.learning_rate=1e-5")

    assert (result.returncode, result.stdout) == (12, "")
    assert "trainer.learning_rate" in result.stderr


def test_an_override_that_contradicts_the_baked_path_is_refused(image: Image) -> None:
    result = image.run("train", *UNCHECKED, "actor_rollout_ref.model.path=/other")

    assert (result.returncode, result.stdout) == (12, "")
    assert str(image.model) in result.stderr


def test_a_machine_without_gpus_is_told_before_training(image: Image) -> None:
    result = image.run("train", CUDA_VISIBLE_DEVICES="")

    assert (result.returncode, result.stdout) == (11, "")
    assert "error: gpus: " in result.stderr
    assert "error: preflight: " in result.stderr


def test_preflight_prints_its_findings_as_json(image: Image) -> None:
    result = image.run("preflight", "--json", CUDA_VISIBLE_DEVICES="")

    checked, refusal = map(json.loads, result.stdout.splitlines())
    (gpus,) = [finding for finding in checked["findings"] if finding["check"] == "gpus"]
    assert (result.returncode, refusal["error"]["code"]) == (11, 11)
    assert gpus["severity"] == "error"
    assert set(gpus) == {"check", "severity", "what", "why", "todo"}


def test_a_check_is_left_out_by_its_name_and_that_is_said(image: Image) -> None:
    result = image.run("preflight", "--no-preflight=gpus", "--no-preflight", "shm,limits", CUDA_VISIBLE_DEVICES="")

    assert "error: gpus: " not in result.stderr
    assert "warning: check gpus is left out (--no-preflight=gpus)\n" in result.stderr
    assert "warning: check limits is left out (--no-preflight=limits)\n" in result.stderr


def test_a_check_that_does_not_exist_cannot_be_left_out(image: Image) -> None:
    result = image.run("preflight", "--no-preflight=gpu")

    assert result.returncode == 2
    assert "error: no preflight check is called 'gpu'\n" in result.stderr


def test_a_faulty_model_is_told_and_not_trained(image: Image) -> None:
    (image.model / "config.json").unlink()
    (image.model / FIRST).chmod(0o600)

    result = image.run("train", *UNCHECKED)

    assert (result.returncode, result.stdout) == (10, "")
    assert result.stderr.endswith(
        f"{image.model}/config.json: missing\n"
        f"  expected: {SIZE} bytes\n"
        "  found:    no such file\n"
        "  to do:    fetch or copy this file again, and mount nothing over it\n"
        f"{image.model}/{FIRST}: mode\n"
        "  expected: a file that every user may read, such as 0444\n"
        "  found:    mode 0600\n"
        "  to do:    run `chmod a+r` on it; a container may run as any user\n"
        "error: faults: 2 in tiny@v1\n"
        "hint: training was not started; each fault above says what to do\n"
    )


def test_a_faulty_model_is_told_as_json(image: Image) -> None:
    (image.model / "config.json").unlink()

    result = image.run("preflight", "--json")

    checked, refusal = map(json.loads, result.stdout.splitlines())
    assert [fault["kind"] for fault in checked["models"][0]["faults"]] == ["missing"]
    assert (result.returncode, refusal["error"]["code"]) == (10, 10)


def test_a_model_that_would_not_load_is_not_trained(image: Image) -> None:
    files = with_keys(FILES, "config.json", architectures=["A", "B"])
    write(image.model, files)
    record = Record(models=(recorded(files, path=str(image.model)),))
    write(image.root, {"opt/bake/record.json": record.dumps()})

    result = image.run("train", *UNCHECKED)

    assert (result.returncode, result.stdout) == (10, "")
    assert f"{image.model}/config.json: config\n" in result.stderr


def alter(image: Image) -> None:
    content = (image.model / FIRST).read_bytes()
    write(image.model, {FIRST: content[:-1] + bytes([content[-1] ^ 1])})


@pytest.mark.parametrize(("level", "code"), [("quick", 7), ("full", 10), ("off", 7)])
def test_the_level_says_how_train_verifies(image: Image, level: str, code: int) -> None:
    alter(image)

    assert image.run("train", *UNCHECKED, BAKE_VERIFY=level).returncode == code
    assert image.run("train", *UNCHECKED, "--level", level, BAKE_VERIFY="full").returncode == code


def test_training_without_verification_warns(image: Image) -> None:
    assert "warning: the models are not verified (level off)\n" in image.run("--level=off", *UNCHECKED).stderr


def test_another_word_in_bake_verify_is_refused(image: Image) -> None:
    result = image.run("train", BAKE_VERIFY="yes")

    assert (result.returncode, result.stderr) == (
        2,
        "error: BAKE_VERIFY is 'yes' (expected quick, full, load or off)\n",
    )


def test_a_map_that_says_nothing_is_refused(image: Image) -> None:
    result = image.run("train", "--map", "prompt")

    assert (result.returncode, result.stderr) == (
        2,
        "error: --map: expected FIELD=COLUMN, found 'prompt'\nhint: for example --map prompt=question\n",
    )


def test_a_field_that_is_mapped_twice_is_refused(image: Image) -> None:
    result = image.run("train", "--map=prompt=a", "--map=prompt=b")

    assert (result.returncode, result.stderr) == (2, "error: --map: prompt is a and b\nhint: give it once\n")


def test_data_is_converted_even_where_no_check_is_made(image: Image) -> None:
    rows = b'{"question": "1 + 1?", "answer": "2"}\n'
    write(image.root, {"rows.jsonl": rows})
    maps = ("--map=prompt=question", "--map=ground_truth=answer", "--map=data_source=openai/gsm8k")

    result = image.run(
        *UNCHECKED, *maps, f"data.train_files={image.root}/rows.jsonl", BAKE_SCRATCH=str(image.root / "s")
    )

    (written,) = (image.root / "s").glob("*.parquet")
    assert f"data.train_files=['{written}']" in json.loads(result.stdout)


def test_a_dry_run_writes_no_data(image: Image) -> None:
    write(image.root, {"rows.jsonl": b'{"question": "1 + 1?"}\n'})
    words = (*UNCHECKED, "--dry-run", "--map=prompt=question", f"data.train_files={image.root}/rows.jsonl")

    assert image.run(*words, BAKE_SCRATCH=str(image.root / "s")).returncode == 0
    assert not (image.root / "s").exists()


def test_a_question_about_verl_s_configuration_is_verl_s_to_answer(image: Image) -> None:
    result = image.run("train", "--cfg", "job")

    assert (result.returncode, json.loads(result.stdout)[1:3]) == (7, ["--cfg", "job"])


def test_several_nodes_are_not_trained_by_one(image: Image) -> None:
    result = image.run(*UNCHECKED, "trainer.nnodes=2")

    assert (result.returncode, result.stdout) == (12, "")
    assert result.stderr.endswith(
        "error: trainer.nnodes is 2, and a training that `train` starts has this node alone\n"
        "hint: say `ray-head` here in place of `train`, and `ray-worker HOST` on the other nodes\n"
    )


def test_a_token_in_an_override_is_not_told(image: Image) -> None:
    result = image.run(*UNCHECKED, "+trainer.wandb_api_key=sk-secret")

    assert "sk-secret" not in result.stderr
    assert "+trainer.wandb_api_key=sk-secret" in json.loads(result.stdout)


def test_bake_verify_is_the_level_of_verify_too(image: Image) -> None:
    alter(image)

    assert image.run("verify", BAKE_VERIFY="full").returncode == 10
    assert image.run("verify", BAKE_VERIFY="off").returncode == 0


def test_an_image_without_verl_says_so(image: Image) -> None:
    shutil.rmtree(image.root / "wheels/verl")

    result = image.run("train")

    assert (result.returncode, result.stdout, result.stderr) == (
        8,
        "",
        (
            "error: verl is not installed in this image\n"
            "hint: build the image with a base in models.lock that names a verl version\n"
        ),
    )


def test_verl_in_the_current_folder_is_found(image: Image) -> None:
    shutil.move(image.root / "wheels/verl", image.root / "verl")

    assert image.run("train", *UNCHECKED).returncode == 7


def test_the_entrypoint_loads_with_the_standard_library_alone() -> None:
    script = (
        f"import sys; before = set(sys.modules); import {', '.join(IMPORTED)}\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'bake'}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout == "[]\n"


def test_verify_prints_what_it_found_in_each_model(tmp_path: Path) -> None:
    image = make_image(tmp_path, "tiny", "judge")
    (tmp_path / "models/judge/config.json").unlink()

    result = image.run("verify")

    assert (result.returncode, untimed(result.stdout), result.stderr) == (
        10,
        (
            "tiny@v1: 9 files are as recorded (quick, 0.1 s)\n"
            f"{tmp_path}/models/judge/config.json: missing\n"
            f"  expected: {SIZE} bytes\n"
            "  found:    no such file\n"
            "  to do:    fetch or copy this file again, and mount nothing over it\n"
        ),
        "error: faults: 1 in judge@v1\nhint: each fault says what to do\n",
    )


def test_verify_full_hashes_every_byte(image: Image) -> None:
    alter(image)

    assert image.run("verify").returncode == 0
    assert image.run("verify", "--level", "full").returncode == 10


def test_verify_prints_json_for_programs(image: Image) -> None:
    (image.model / "config.json").unlink()

    result = image.run("verify", "--json")

    assert (result.returncode, json.loads(result.stdout.splitlines()[0])) == (
        10,
        [
            {
                "name": "tiny",
                "version": "v1",
                "roles": ["actor"],
                "path": str(image.model),
                "set_digest": str(image.models[0].set_digest),
                "faults": [
                    {
                        "path": "config.json",
                        "kind": "missing",
                        "expected": f"{SIZE} bytes",
                        "found": "no such file",
                        "hint": "fetch or copy this file again, and mount nothing over it",
                    }
                ],
            }
        ],
    )


def test_verify_looks_for_the_models_below_another_root(image: Image, tmp_path: Path) -> None:
    mounted = tmp_path / "mnt"
    (mounted / "opt/models").mkdir(parents=True)
    shutil.move(image.model, mounted / "opt/models/tiny")
    (mounted / "opt/models/tiny/config.json").chmod(0o600)
    write(tmp_path, {"other.json": Record(models=(recorded(FILES),)).dumps()})

    result = image.run("verify", "--record", str(tmp_path / "other.json"), "--root", str(mounted))

    assert (result.returncode, untimed(result.stdout)) == (0, "tiny@v1: 9 files are as recorded (quick, 0.1 s)\n")


def test_an_image_without_a_record_says_so(image: Image) -> None:
    record = image.root / "opt/bake/record.json"
    record.unlink()

    result = image.run("verify")

    assert (result.returncode, result.stderr) == (
        8,
        (
            f"error: cannot read the record of baked files {record}: No such file or directory\n"
            "hint: name one with --record, or build the image again with `bake build`\n"
        ),
    )


def test_exec_runs_another_command(image: Image) -> None:
    result = image.run("exec", "sh", "-c", "echo $0 $1; exit 5", "a", "b")

    assert (result.returncode, result.stdout) == (5, "a b\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("bash",),
            "unknown word 'bash' (expected train, preflight, verify, ray-head, ray-worker, shell, exec or help)",
        ),
        (("exec",), "exec: no command"),
        (("exec", "no-such-command"), "cannot run 'no-such-command': No such file or directory"),
        (("verify", "--fast"), "verify: unrecognized arguments: --fast"),
    ],
)
def test_a_command_line_that_says_nothing_is_a_usage_error(image: Image, words: tuple[str, ...], message: str) -> None:
    result = image.run(*words)

    assert (result.returncode, result.stderr.splitlines()[0]) == (2, f"error: {message}")


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help_names_every_word(image: Image, word: str) -> None:
    result = image.run(word)

    assert (result.returncode, result.stdout) == (0, USAGE)


def test_sigterm_stops_a_verification(image: Image) -> None:
    record = image.root / "record"
    os.mkfifo(record)
    process = image.start("verify", "--record", str(record))

    with record.open("wb"):  # opens once the entrypoint reads it, and leaves it waiting
        process.terminate()
        process.communicate(timeout=60)

    assert process.returncode == 143


def test_sigterm_stops_a_head_that_waits_for_its_workers(image: Image) -> None:
    process = image.start("ray-head", *UNCHECKED, "trainer.nnodes=2", BAKE_RAY_PORT="26379")

    assert process.stderr
    assert any(line.startswith("cluster: expecting 1 worker") for line in process.stderr)
    process.terminate()
    process.communicate(timeout=60)

    assert process.returncode == 143

"""The entrypoint as it lies in an image: a copy of its files alone, run by a bare interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import bake
from bake.entrypoint.__main__ import USAGE
from bake.entrypoint.launch import Override
from bake.record import Record, RecordedModel
from tests.entrypoint.files import FIRST, model_files, recorded, write

IN_IMAGE = ("__init__.py", "errors.py", "digest.py", "record.py", "entrypoint")
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
    package = root / "opt/bake/bake"
    package.mkdir(parents=True)
    source = Path(bake.__file__).parent
    for name in IN_IMAGE:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, package / name)
    models = tuple(
        replace(recorded(model_files(), path=str(write(root / "models" / name, model_files()))), name=name)
        for name in names
    )
    write(
        root,
        {
            "opt/bake/__main__.py": b"from bake.entrypoint.__main__ import run\n\nrun()\n",
            "opt/bake/record.json": Record(models=models).dumps(),
            "wheels/verl/__init__.py": b"",
            "wheels/verl/trainer/__init__.py": b"",
            "wheels/verl/trainer/main_ppo.py": STUB.encode(),
        },
    )
    return Image(root, models)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return make_image(tmp_path, "tiny")


def paths(model: Path, *, critic: Path | None = None) -> list[str]:
    return [f"actor_rollout_ref.model.path='{model}'", f"critic.model.path='{critic or model}'"]


@pytest.mark.parametrize("words", [("train",), ()])
def test_train_verifies_and_then_verl_takes_the_process_over(image: Image, words: tuple[str, ...]) -> None:
    process = image.start(*words)
    stdout, stderr = process.communicate(timeout=60)

    assert json.loads(stdout) == [process.pid, *paths(image.model)]
    assert process.returncode == 7
    assert stderr.startswith("tiny@v1: 4 files are as recorded\nverified in ")


@pytest.mark.parametrize("words", [("train", "trainer.total_epochs=1"), ("trainer.total_epochs=1",)])
def test_overrides_come_after_the_baked_paths(image: Image, words: tuple[str, ...]) -> None:
    assert json.loads(image.run(*words).stdout)[1:] == [*paths(image.model), "trainer.total_epochs=1"]


def test_hydra_s_own_flags_stay_in_front_of_all_overrides(image: Image) -> None:
    result = image.run("train", "--config-name", "ppo_megatron_trainer", "a=1", "~b")

    assert json.loads(result.stdout)[1:] == ["--config-name", "ppo_megatron_trainer", *paths(image.model), "a=1", "~b"]


def test_a_critic_of_its_own_is_passed_to_verl(tmp_path: Path) -> None:
    image = make_image(tmp_path, "tiny", "judge")
    critic = tmp_path / "models" / "judge"

    result = image.run("train", VERL_CRITIC_MODEL_PATH=str(critic))

    assert json.loads(result.stdout)[1:] == paths(image.model, critic=critic)


@pytest.mark.parametrize(
    ("version", "key"),
    [
        ("0.9.1", "reward.reward_model.model_path"),
        ("0.7.0", "reward.reward_model.model_path"),
        ("0.6.1", "reward_model.model.path"),
        ("0.5.0", "reward_model.model.path"),
        (None, "reward.reward_model.model_path"),
    ],
)
def test_a_reward_model_goes_into_the_key_of_the_verl_that_is_there(
    tmp_path: Path, version: str | None, key: str
) -> None:
    image = make_image(tmp_path, "tiny", "judge")
    metadata = f"Metadata-Version: 2.1\nName: verl\nVersion: {version}\n".encode()
    write(tmp_path, {f"wheels/verl-{version}.dist-info/METADATA": metadata} if version else {})
    judge = tmp_path / "models" / "judge"

    result = image.run("train", VERL_REWARD_MODEL_PATH=str(judge))

    assert json.loads(result.stdout)[1:] == [*paths(image.model), f"{key}='{judge}'"]


@pytest.mark.parametrize(
    "override",
    [
        "actor_rollout_ref.model.path=/other",
        "+actor_rollout_ref.model.path=/other",
        "++actor_rollout_ref.model.path='/other'",
        "critic.model.path=Qwen/Qwen3-8B",
        "~actor_rollout_ref.model.path",
        "~critic.model",
        "actor_rollout_ref.model={path: /other}",
    ],
)
def test_an_override_that_contradicts_the_baked_path_is_refused(image: Image, override: str) -> None:
    result = image.run("train", override)

    key = "critic.model.path" if "critic" in override else "actor_rollout_ref.model.path"
    assert (result.returncode, result.stdout, result.stderr) == (
        2,
        "",
        (
            f"error: {override!r} contradicts the model that this image carries, {key}={str(image.model)!r}\n"
            "hint: leave this override out; to train another model, bake it\n"
        ),
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("/opt/models/llama3-8b@v1.0.0", "k='/opt/models/llama3-8b@v1.0.0'"),
        ("2024_01", "k='2024_01'"),
        ("it's", r"k='it\'s'"),
        ("a\\b", r"k='a\b'"),
        ("a\\'b", r"k='a\\\'b'"),
        ("end\\", r"k='end\\'"),
    ],
)
def test_an_override_is_quoted_as_hydra_reads_it(value: str, text: str) -> None:
    assert str(Override("k", value)) == text


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_an_override_that_repeats_the_baked_path_passes(image: Image, quote: str) -> None:
    override = f"critic.model.path={quote}{image.model}{quote}"

    assert json.loads(image.run(override).stdout)[1:] == [*paths(image.model), override]


def test_a_variable_that_names_another_model_is_refused(image: Image) -> None:
    result = image.run("train", VERL_MODEL_PATH="/other")

    assert (result.returncode, result.stdout, result.stderr) == (
        2,
        "",
        (
            f"error: VERL_MODEL_PATH is '/other', and this image was baked with {image.model}\n"
            "hint: leave VERL_MODEL_PATH as the image sets it; to train another model, bake it\n"
        ),
    )


def test_a_faulty_model_is_told_and_not_trained(image: Image) -> None:
    (image.model / "config.json").unlink()
    (image.model / FIRST).chmod(0o600)

    result = image.run("train")

    assert (result.returncode, result.stdout, result.stderr) == (
        1,
        "",
        (
            f"{image.model}/config.json: missing\n"
            "  expected: 23 bytes\n"
            "  found:    no such file\n"
            "  to do:    fetch or copy this file again, and mount nothing over it\n"
            f"{image.model}/{FIRST}: mode\n"
            "  expected: a file that every user may read, such as 0444\n"
            "  found:    mode 0600\n"
            "  to do:    run `chmod a+r` on it; a container may run as any user\n"
            "error: faults: 2 in tiny@v1\n"
            "hint: training was not started; each fault above says what to do\n"
        ),
    )


def alter(image: Image) -> None:
    content = (image.model / FIRST).read_bytes()
    write(image.model, {FIRST: content[:-1] + b"\x08"})


@pytest.mark.parametrize(("level", "code"), [("quick", 7), ("full", 1), ("off", 7)])
def test_bake_verify_says_how_train_verifies(image: Image, level: str, code: int) -> None:
    alter(image)

    assert image.run("train", BAKE_VERIFY=level).returncode == code


def test_training_without_verification_warns(image: Image) -> None:
    assert image.run("train", BAKE_VERIFY="off").stderr == "warning: BAKE_VERIFY=off: the models are not verified\n"


def test_another_word_in_bake_verify_is_refused(image: Image) -> None:
    result = image.run("train", BAKE_VERIFY="yes")

    assert (result.returncode, result.stderr) == (2, "error: BAKE_VERIFY is 'yes' (expected quick, full or off)\n")


def test_an_image_without_verl_says_so(image: Image) -> None:
    (image.root / "wheels/verl/__init__.py").unlink()

    result = image.run("train", BAKE_VERIFY="off")

    assert (result.returncode, result.stdout, result.stderr) == (
        8,
        "",
        (
            "warning: BAKE_VERIFY=off: the models are not verified\n"
            "error: verl is not installed in this image\n"
            "hint: build the image with a base in models.lock that names a verl version\n"
        ),
    )


def test_verl_in_the_current_folder_is_found(image: Image) -> None:
    shutil.move(image.root / "wheels/verl", image.root / "verl")

    assert image.run("train").returncode == 7


def test_verify_prints_what_it_found_in_each_model(tmp_path: Path) -> None:
    image = make_image(tmp_path, "tiny", "judge")
    (tmp_path / "models/judge/config.json").unlink()

    result = image.run("verify")

    assert (result.returncode, result.stdout, result.stderr) == (
        1,
        (
            "tiny@v1: 4 files are as recorded\n"
            f"{tmp_path}/models/judge/config.json: missing\n"
            "  expected: 23 bytes\n"
            "  found:    no such file\n"
            "  to do:    fetch or copy this file again, and mount nothing over it\n"
        ),
        "error: faults: 1 in judge@v1\nhint: each fault says what to do\n",
    )


def test_verify_full_hashes_every_byte(image: Image) -> None:
    alter(image)

    assert image.run("verify").returncode == 0
    assert image.run("verify", "--level", "full").returncode == 1


def test_verify_prints_json_for_programs(image: Image) -> None:
    (image.model / "config.json").unlink()

    result = image.run("verify", "--json")

    assert (result.returncode, json.loads(result.stdout)) == (
        1,
        [
            {
                "name": "tiny",
                "version": "v1",
                "roles": ["actor"],
                "path": str(image.model),
                "faults": [
                    {
                        "path": "config.json",
                        "kind": "missing",
                        "expected": "23 bytes",
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
    write(tmp_path, {"other.json": Record(models=(recorded(model_files()),)).dumps()})

    result = image.run("verify", "--record", str(tmp_path / "other.json"), "--root", str(mounted))

    assert (result.returncode, result.stdout) == (0, "tiny@v1: 4 files are as recorded\n")


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
        (("bash",), "unknown word 'bash' (expected train, verify, exec or help)"),
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

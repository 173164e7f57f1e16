"""`bake matrix`: which images CI must build, in a real git repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bake as package
from bake.digest import Digest
from bake.lock import Base, Lock, LockedModel, ModelId
from bake.lock.dump import dumps
from tests.builders import locked, sized
from tests.cli.place import Bake, Place, Ran, error
from tests.history import SETTINGS, History

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bake.record import RecordedFile

GB = 1000**3
ZEROS = "0" * 40
VLLM = Base(name="vllm", image="verlai/verl:latest", digest=Digest.of(b"base"))
SMALL, HUGE, CRITIC = ModelId("small", "v1"), ModelId("huge", "v1"), ModelId("critic", "v1")

TABLE = """\
MODEL      WHY      SIZE  JOB
huge@v1    new  150.0 GB    1
critic@v1  new    5.0 GB    1
small@v1   new    2.0 GB    2
"""


def shard(size: int, name: str = "model") -> RecordedFile:
    return sized(f"{name}.safetensors", size)


def models(**changes: LockedModel) -> Lock:
    """`huge` bakes in `critic`, so that they share a layer; `small` is on no base."""
    held = {
        "critic": locked([shard(5 * GB)], model=CRITIC, base="vllm"),
        "huge": locked([shard(145 * GB)], model=HUGE, base="vllm", critic=CRITIC),
        "small": locked([shard(2 * GB)], model=SMALL),
    }
    return Lock(bases=(VLLM,), models=tuple((held | changes).values()))


OTHER_SMALL = locked([shard(3 * GB)], model=SMALL)
OTHER_CRITIC = locked([shard(6 * GB)], model=CRITIC, base="vllm")


@pytest.fixture
def history(place: Place, monkeypatch: pytest.MonkeyPatch) -> History:
    """The place as a repository, with three models committed."""
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    place.write_lock(dumps(models()))
    history = History.begin(place.root)
    history.commit()
    return history


def change(place: Place, **changes: LockedModel) -> None:
    place.write_lock(dumps(models(**changes)))


# --- what people read


@pytest.mark.usefixtures("history")
def test_nothing_changed_is_one_line(bake: Bake) -> None:
    assert bake("matrix", "--since", "HEAD") == Ran(0, "no image changes since HEAD\n", "")


@pytest.mark.usefixtures("history")
def test_a_change_that_is_not_committed_counts(place: Place, bake: Bake) -> None:
    change(place, small=OTHER_SMALL)

    assert bake("matrix", "--since", "main").out == (
        "MODEL     WHY      SIZE  JOB\n"
        "small@v1  files  3.0 GB    1\n"
        "1 of 3 images changes since main: 3.0 GB in 1 job\n"
    )


def test_a_critic_that_changed_brings_the_images_that_bake_it_in(history: History, place: Place, bake: Bake) -> None:
    change(place, critic=OTHER_CRITIC)
    history.commit()

    assert bake("matrix", "--since", "HEAD~1").out == (
        "MODEL      WHY        SIZE  JOB\n"
        "huge@v1    files  151.0 GB    1\n"
        "critic@v1  files    6.0 GB    1\n"
        "2 of 3 images change since HEAD~1: 151.0 GB in 1 job\n"
    )


@pytest.mark.usefixtures("history")
def test_without_a_revision_every_model_is_listed(bake: Bake) -> None:
    assert bake("matrix").out == (
        "MODEL          SIZE  JOB\n"
        "huge@v1    150.0 GB    1\n"
        "critic@v1    5.0 GB    1\n"
        "small@v1     2.0 GB    2\n"
        "3 images: 152.0 GB in 2 jobs\n"
    )


@pytest.mark.usefixtures("place")
def test_an_empty_lock_needs_nothing(bake: Bake) -> None:
    assert bake("matrix") == Ran(0, "the lock has no models\n", "")
    assert bake("matrix", "--format", "github") == Ran(0, '{"include":[]}\n', "")


@pytest.mark.usefixtures("history")
def test_models_that_are_gone_are_told(place: Place, bake: Bake) -> None:
    place.write_lock(dumps(replace(models(), models=models().models[:2])))

    assert bake("matrix", "--since", "HEAD").out == "no image changes since HEAD; removed: small@v1\n"


# --- the revision


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("since", [ZEROS, ""], ids=["zeros", "empty"])
def test_a_first_push_makes_every_model_new(bake: Bake, since: str) -> None:
    assert bake("matrix", "--since", since) == Ran(0, f"{TABLE}3 images: 152.0 GB in 2 jobs\n", "")


@pytest.mark.usefixtures("place")
def test_a_first_push_needs_no_repository(bake: Bake) -> None:
    assert bake("matrix", "--since", ZEROS) == Ran(0, "the lock has no models\n", "")


@pytest.mark.usefixtures("history")
def test_a_revision_without_the_lock_makes_every_model_new(place: Place, bake: Bake) -> None:
    place.lock.rename(place.root / "other.lock")

    ran = bake("--lock", "other.lock", "matrix", "--since", "HEAD")
    assert ran == Ran(0, f"{TABLE}3 of 3 images change since HEAD: 152.0 GB in 2 jobs\n", "")


def test_a_lock_in_a_folder_below_is_compared_with_itself(
    history: History, place: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.root / "sub" / "deeper").mkdir(parents=True)
    place.lock.rename(place.root / "sub" / "models.lock")
    history.commit()
    monkeypatch.chdir("sub/deeper")

    assert bake("matrix", "--since", "HEAD").out == "no image changes since HEAD\n"


def test_a_lock_that_is_a_link_is_compared_where_it_lies(history: History, place: Place, bake: Bake) -> None:
    place.lock.rename(place.root / "shared.lock")
    place.lock.symlink_to("shared.lock")
    history.commit()

    assert bake("matrix", "--since", "HEAD").out == "no image changes since HEAD\n"


def test_three_dots_leave_out_what_the_other_branch_has_got_since(history: History, place: Place, bake: Bake) -> None:
    history.run("switch", "-q", "-c", "topic")
    history.run("switch", "-q", "main")
    change(place, small=OTHER_SMALL)
    history.commit()
    history.run("switch", "-q", "topic")

    assert bake("matrix", "--since", "main...").out == "no image changes since main...\n"
    assert "small@v1" in bake("matrix", "--since", "main").out


@pytest.mark.usefixtures("history")
def test_an_unknown_revision_exits_with_2(place: Place, bake: Bake) -> None:
    hint = (
        "git fetch brings a branch that is not here yet; a commit that was pushed away by force is gone: "
        "leave the revision out, and every model is taken"
    )

    for_nope = Ran(2, "", error(f"unknown revision 'nope' in {place.root}", hint=hint))
    assert bake("matrix", "--since", "nope") == for_nope


def test_outside_a_repository_exits_with_2(place: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(place.root.parent))

    hint = "a revision can only be compared with inside one; leave it out, and every model is taken"
    assert bake("matrix", "--since", "HEAD") == Ran(
        2, "", error(f"expected a git repository around {place.root}, found none", hint=hint)
    )


OLDER = "compare with an older revision, or with none: bake matrix without --since, bake build --all"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"version = 1\n<<<<<<< ours\n", "line 2 is a merge conflict marker: <<<<<<< ours"),
        (b"version = 2\n", "version: this bake reads format 1, found 2"),
        (b"version = 1 # \xff\n", "expected UTF-8, found byte 0xff"),
    ],
    ids=["conflict", "newer", "not UTF-8"],
)
def test_a_lock_that_could_not_be_read_then_is_told_with_its_revision(
    history: History, place: Place, bake: Bake, content: bytes, fault: str
) -> None:
    place.lock.write_bytes(content)
    commit = history.commit()
    change(place)

    assert bake("matrix", "--since", commit) == Ran(3, "", error(f"models.lock at {commit}: {fault}", hint=OLDER))


def test_a_token_in_the_older_lock_is_no_fault(history: History, place: Place, bake: Bake) -> None:
    place.lock.write_text(f"# hf_{'a' * 34}\n" + dumps(models()))
    history.commit()
    change(place)

    assert bake("matrix", "--since", "HEAD").out == "no image changes since HEAD\n"


@pytest.mark.usefixtures("history")
def test_a_model_that_is_not_resolved_now_exits_with_3(place: Place, bake: Bake) -> None:
    change(place, small=LockedModel(id=SMALL, source="dir://small"))

    assert bake("matrix", "--since", "HEAD") == Ran(
        3, "", error("small@v1 is not resolved yet", hint="bake lock small@v1")
    )


# --- what programs read


@pytest.mark.usefixtures("history")
def test_json_has_all_that_is_known(place: Place, bake: Bake) -> None:
    held = models(critic=OTHER_CRITIC)
    place.write_lock(dumps(replace(held, models=held.models[:2])))

    document = {
        "since": "HEAD",
        "models": [
            {"model": "huge@v1", "reasons": ["files"], "bytes": 151000007168, "job": 1},
            {"model": "critic@v1", "reasons": ["files"], "bytes": 6000003072, "job": 1},
        ],
        "jobs": [
            {"name": "huge@v1 and 1 more", "models": ["huge@v1", "critic@v1"], "bytes": 151000007168, "size": "large"}
        ],
        "bytes": 151000007168,
        "unchanged": 0,
        "removed": ["small@v1"],
    }
    assert bake("matrix", "--since", "HEAD", "--json").document == document
    assert bake("matrix", "--since", "HEAD", "--format", "json").document == document


@pytest.mark.usefixtures("history")
def test_github_gets_one_line(bake: Bake) -> None:
    ran = bake("matrix", "--format", "github")

    assert ran.out.count("\n") == 1
    assert ran.document == {
        "include": [
            {
                "name": "huge@v1 and 1 more",
                "models": "huge@v1 critic@v1",
                "bytes": 150000007168,
                "size": "large",
                "runner": "ubuntu-24.04",
            },
            {"name": "small@v1", "models": "small@v1", "bytes": 2000003072, "size": "small", "runner": "ubuntu-24.04"},
        ]
    }


@pytest.mark.usefixtures("history")
def test_github_gets_an_empty_matrix_where_nothing_changed(bake: Bake) -> None:
    assert bake("matrix", "--since", "HEAD", "--format", "github") == Ran(0, '{"include":[]}\n', "")


@pytest.mark.parametrize(
    ("size", "expected"),
    [(10 * GB - 10000, "small"), (10 * GB, "medium"), (100 * GB - 10000, "medium"), (100 * GB, "large")],
)
def test_the_size_of_a_job_is_that_of_its_weights(place: Place, bake: Bake, size: int, expected: str) -> None:
    place.write_lock(dumps(Lock(models=(locked([shard(size)], model=SMALL),))))

    assert [job["size"] for job in bake("matrix", "--json").document["jobs"]] == [expected]


@pytest.mark.usefixtures("history")
def test_sizes_have_the_runners_that_are_named(bake: Bake) -> None:
    named = ("--runner", "large=self-hosted,big-disk", "--runner", "small=tiny")

    jobs = bake("matrix", "--format", "github", *named).document["include"]
    assert [job["runner"] for job in jobs] == [["self-hosted", "big-disk"], "tiny"]


def test_github_gets_no_more_jobs_than_a_matrix_takes(place: Place, bake: Bake) -> None:
    many = [locked([shard(100 + number)], model=ModelId(f"m{number:03}", "v1")) for number in range(260)]
    place.write_lock(dumps(Lock(models=tuple(many))))

    jobs = bake("matrix", "--format", "github").document["include"]
    assert len(jobs) == 256
    assert len({job["name"] for job in jobs}) == 256
    assert sorted(" ".join(job["models"] for job in jobs).split()) == [str(model.id) for model in many]


def pipeline(bake: Bake, *words: str) -> Any:
    return json.loads(bake("matrix", "--format", "gitlab", *words).out)


@pytest.mark.usefixtures("history")
def test_gitlab_gets_a_child_pipeline(bake: Bake) -> None:
    assert pipeline(bake, "--runner", "large=big-disk,fast") == {
        "include": [{"local": "/.gitlab/bake-job.yml"}],
        "huge@v1 and 1 more": {
            "extends": ".bake",
            "variables": {"MODELS": "huge@v1 critic@v1"},
            "tags": ["big-disk", "fast"],
        },
        "small@v1": {"extends": ".bake", "variables": {"MODELS": "small@v1"}},
    }


@pytest.mark.usefixtures("history")
def test_gitlab_finds_the_job_where_it_is_said_to_be(bake: Bake) -> None:
    assert pipeline(bake, "--template", "ci/job.yml")["include"] == [{"local": "/ci/job.yml"}]


@pytest.mark.usefixtures("history")
def test_gitlab_gets_one_idle_job_where_nothing_changed(bake: Bake) -> None:
    assert pipeline(bake, "--since", "HEAD", "--runner", "small=tiny") == {
        "no image changes": {
            "script": ["echo 'no image changes'"],
            "variables": {"GIT_STRATEGY": "none"},
            "tags": ["tiny"],
        }
    }


# --- what is refused


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("--json", "--format", "github"), "--json and --format github are two formats", "leave one out"),
        (
            ("--runner", "small=tiny"),
            "--runner is for a CI system",
            "add --format github or --format gitlab",
        ),
        (("--template", "ci.yml"), "--template names a file for GitLab", "add --format gitlab"),
        (
            ("--runner", "tiny=label"),
            "Invalid value for '--runner': expected small=LABEL, medium=LABEL or large=LABEL, found 'tiny=label'",
            "bake matrix --help",
        ),
        (
            ("--runner", "small=a,"),
            "Invalid value for '--runner': expected small=LABEL, medium=LABEL or large=LABEL, found 'small=a,'",
            "bake matrix --help",
        ),
    ],
)
def test_words_that_do_not_fit_are_told(bake: Bake, words: Sequence[str], message: str, hint: str) -> None:
    ran = bake("matrix", *words)

    assert (ran.code, ran.err) == (2, error(message, hint=hint))


# --- bake itself


def reasons(ran: Ran) -> dict[str, list[str]]:
    return {model["model"]: model["reasons"] for model in ran.document["models"]}


ALL = {"huge@v1": ["program"], "critic@v1": ["program"], "small@v1": ["program"]}
ON_A_BASE = {"huge@v1": ["program"], "critic@v1": ["program"]}


@pytest.fixture
def pinned(history: History) -> History:
    """A requirements file that pins bake, committed."""
    history.write("ci/requirements.txt", "bake @ git+https://example.com/bake@1\n")
    history.commit()
    return history


PINNED = ("matrix", "--json", "--since", "HEAD", "--pin", "ci/requirements.txt")


@pytest.mark.usefixtures("pinned")
def test_a_pin_that_is_the_same_chooses_nothing(bake: Bake) -> None:
    assert reasons(bake(*PINNED)) == {}


def test_a_pin_that_changed_chooses_every_image(pinned: History, bake: Bake) -> None:
    pinned.write("ci/requirements.txt", "bake @ git+https://example.com/bake@2\n")

    assert reasons(bake(*PINNED)) == ALL


def test_a_pin_that_is_new_or_gone_chooses_every_image(pinned: History, bake: Bake) -> None:
    pinned.write("new.txt", "")
    assert reasons(bake("matrix", "--json", "--since", "HEAD", "--pin", "new.txt")) == ALL

    (pinned.top / "ci" / "requirements.txt").unlink()
    assert reasons(bake(*PINNED)) == ALL


def test_a_pin_that_never_was_is_told(pinned: History, bake: Bake) -> None:
    pinned.write("ci/requirements.txt", "bake @ git+https://example.com/bake@2\n")

    ran = bake("matrix", "--since", "HEAD", "--pin", "ci/requirements.txt", "--pin", "nope.txt")
    assert ran == Ran(
        2, "", error("--pin nope.txt: no such file, neither now nor then", hint="it is the file that pins bake")
    )


@pytest.mark.usefixtures("pinned")
def test_a_pin_that_is_a_folder_is_told(bake: Bake) -> None:
    message = "--pin ci: cannot read it: Is a directory"

    ran = bake("matrix", "--since", "HEAD", "--pin", "ci")
    assert ran == Ran(2, "", error(message, hint="it is the file that pins bake"))


def test_a_pin_is_named_as_seen_from_the_working_folder(
    pinned: History, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned.write("ci/requirements.txt", "bake @ git+https://example.com/bake@2\n")
    monkeypatch.chdir("ci")

    assert reasons(bake("matrix", "--json", "--since", "HEAD", "--pin", "requirements.txt")) == ALL


def copy_bake(folder: Path) -> Path:
    """bake's own package, in another place."""
    source = Path(package.__file__).parent
    return Path(shutil.copytree(source, folder / "bake", ignore=shutil.ignore_patterns("__pycache__")))


def run_copy(place: Place, folder: Path) -> Ran:
    """The bake that lies in a folder, asked what changed since HEAD."""
    command = [sys.executable, "-m", "bake", "matrix", "--json", "--since", "HEAD"]
    environ = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, cwd=place.root, env=environ, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def checkout(history: History) -> Path:
    """bake's own package in the repository, committed."""
    copied = copy_bake(history.top / "src")
    history.commit()
    return copied


def run_checkout(place: Place, checkout: Path) -> Ran:
    return run_copy(place, checkout.parent)


def test_a_checkout_that_is_as_it_was_chooses_nothing(place: Place, checkout: Path) -> None:
    assert reasons(run_checkout(place, checkout)) == {}


def test_what_goes_into_no_image_chooses_nothing(place: Place, checkout: Path) -> None:
    with (checkout / "cli" / "ci.py").open("a") as stream:
        stream.write("# another\n")
    (checkout / "entrypoint" / "notes.txt").write_text("not packed")

    assert reasons(run_checkout(place, checkout)) == {}


@pytest.mark.parametrize("name", ["record.py", "entrypoint/verify.py", "__init__.py"])
def test_a_program_that_was_edited_changes_the_images_on_a_base(place: Place, checkout: Path, name: str) -> None:
    with (checkout / name).open("a") as stream:
        stream.write("# another\n")

    assert reasons(run_checkout(place, checkout)) == ON_A_BASE


def test_a_file_that_is_new_in_the_program_counts_though_nobody_added_it(place: Place, checkout: Path) -> None:
    (checkout / "entrypoint" / "new.py").write_text("")

    assert reasons(run_checkout(place, checkout)) == ON_A_BASE


def test_a_file_that_is_gone_from_the_program_counts(history: History, place: Place, checkout: Path) -> None:
    (checkout / "entrypoint" / "old.py").write_text("")
    history.commit()
    (checkout / "entrypoint" / "old.py").unlink()

    assert reasons(run_checkout(place, checkout)) == ON_A_BASE


@pytest.mark.parametrize("name", ["plan.py", "image.py", "api/contents.py"])
def test_what_decides_every_image_changes_every_image(place: Place, checkout: Path, name: str) -> None:
    with (checkout / name).open("a") as stream:
        stream.write("# another\n")

    assert reasons(run_checkout(place, checkout)) == ALL


@pytest.mark.slow
def test_a_bake_in_a_folder_that_git_ignores_says_nothing_of_the_revision(history: History, place: Place) -> None:
    history.write(".gitignore", ".venv\n")
    history.commit()
    copied = copy_bake(place.root / ".venv" / "lib")

    assert reasons(run_copy(place, copied.parent)) == {}


@pytest.mark.slow
def test_a_bake_in_a_submodule_says_nothing_of_the_revision(history: History, place: Place) -> None:
    other = History.begin(place.store.parent / "other")
    copy_bake(other.top)
    other.commit()
    history.run("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.top), "vendor")
    history.commit()

    assert reasons(run_copy(place, place.root / "vendor")) == {}


def install(place: Place, checkout: Path, *, url: str) -> Path:
    """bake as an installer leaves it in a folder outside of the repository, with what it writes down (PEP 610)."""
    site = place.store.parent / "site"
    shutil.copytree(checkout, site / "bake")
    written = site / "bake-1.dist-info"
    written.mkdir()
    (written / "METADATA").write_text("Metadata-Version: 2.1\nName: bake\nVersion: 1\n")
    (written / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {}}))
    return site


@pytest.mark.slow
def test_a_bake_that_was_installed_from_the_checkout_is_compared_with_it(
    history: History, place: Place, checkout: Path
) -> None:
    with (checkout / "entrypoint" / "verify.py").open("a") as stream:
        stream.write("# another\n")
    site = install(place, checkout, url=checkout.parent.as_uri())

    assert reasons(run_copy(place, site)) == ON_A_BASE
    history.commit()
    assert reasons(run_copy(place, site)) == {}


@pytest.mark.slow
@pytest.mark.usefixtures("checkout")
def test_a_bake_that_was_installed_from_elsewhere_says_nothing_of_the_revision(place: Place) -> None:
    elsewhere = copy_bake(place.store.parent / "elsewhere")
    with (elsewhere / "entrypoint" / "verify.py").open("a") as stream:
        stream.write("# another\n")

    assert reasons(run_copy(place, install(place, elsewhere, url=elsewhere.parent.as_uri()))) == {}

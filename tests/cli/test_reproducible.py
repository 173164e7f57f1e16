"""The same lock gives the same image: whoever builds it, where, when, and from which source."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.place import Bake, Place, without_layers
from tests.cli.users import NOBODY, needs_root
from tests.entrypoint.files import model_files, write

UMASK = ("sh", "-c", 'umask 077; exec "$0" "$@"')


def rebuilt(place: Place, **environ: str) -> str:
    """The digest of an image that is built with an empty store into an empty place by another process."""
    return place.run(
        "-q", "build", "tiny@v1", "--to", "oci:again", environ={"BAKE_CACHE": str(place.root / "s"), **environ}
    ).digest


@pytest.fixture
def digest(built: Place, bake: Bake) -> str:  # noqa: ARG001 - it must be there first
    """The digest of the image in dist/tiny-v1."""
    return bake("-q", "build", "tiny@v1").digest


@pytest.mark.parametrize(
    "environ",
    [
        {"TZ": "Pacific/Kiritimati"},
        {"TZ": "America/St_Johns"},
        {"LC_ALL": "C"},
        {"LC_ALL": "C.UTF-8"},
        {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "2"},
        {"SOURCE_DATE_EPOCH": "1234567890"},
        {"HOME": "/nonexistent", "USER": "someone", "HOSTNAME": "elsewhere"},
    ],
    ids=lambda environ: ",".join(f"{key}={value}" for key, value in environ.items()),
)
def test_the_environment_does_not_reach_the_image(built: Place, digest: str, environ: dict[str, str]) -> None:
    assert rebuilt(built, **environ) == digest


def test_the_umask_does_not_reach_the_image(built: Place, digest: str) -> None:
    ran = built.run(
        "-q", "build", "tiny@v1", "--to", "oci:again", before=UMASK, environ={"BAKE_CACHE": str(built.root / "s")}
    )

    assert ran.digest == digest


def test_a_clone_elsewhere_gives_the_same_image(built: Place, digest: str, tmp_path: Path) -> None:
    clone = tmp_path / "a clone" / "größer"
    clone.mkdir(parents=True)
    shutil.copy(built.lock, clone)
    shutil.copytree(built.root / "m", clone / "m")

    assert built.run("-q", "build", "tiny@v1", cwd=clone).digest == digest


def test_the_folder_that_bake_is_called_from_does_not_matter(built: Place, digest: str, tmp_path: Path) -> None:
    ran = built.run("-q", "--lock", str(built.lock), "build", "tiny@v1", "--to", f"oci:{tmp_path}/out", cwd=Path("/"))

    assert ran.digest == digest


def test_times_and_modes_of_the_files_do_not_matter(built: Place, digest: str) -> None:
    for number, path in enumerate(sorted((built.root / "m").iterdir())):
        os.utime(path, (number, number))
        path.chmod(0o600 + number)

    assert rebuilt(built) == digest


def test_the_order_in_which_files_were_made_does_not_matter(built: Place, digest: str) -> None:
    shutil.rmtree(built.root / "m")
    write(built.root / "m", dict(reversed(model_files().items())))

    assert rebuilt(built) == digest


def test_links_inside_the_folder_give_the_same_image_as_files(built: Place, digest: str) -> None:
    (built.root / "m" / ".blobs").mkdir()
    (built.root / "m" / "config.json").rename(built.root / "m" / ".blobs" / "1")
    (built.root / "m" / "config.json").symlink_to(".blobs/1")

    assert rebuilt(built) == digest


@needs_root
def test_another_user_gives_the_same_image(built: Place, digest: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)

    ran = built.run(
        "-q",
        "build",
        "tiny@v1",
        "--frozen",
        "--to",
        f"oci:{theirs}/out",
        before=NOBODY,
        environ={"BAKE_CACHE": str(theirs / "s")},
    )

    assert (ran.digest, ran.err) == (digest, "")
    assert (theirs / "out" / "index.json").stat().st_uid == 65534


@needs_root
def test_the_lock_is_the_same_by_another_user(place: Place, bake: Bake, tmp_path: Path) -> None:
    place.add_model()
    bake("-q", "add", "tiny@v1", "dir://m")
    theirs = tmp_path / "theirs"
    shutil.copytree(place.root / "m", theirs / "m")
    (theirs / "models.lock").write_text("version = 1\n")
    for path in (theirs, theirs / "models.lock"):
        path.chmod(0o777)

    place.run("-q", "add", "tiny@v1", "dir://m", cwd=theirs, before=NOBODY, environ={"BAKE_CACHE": str(theirs / "s")})

    assert (theirs / "models.lock").read_bytes() == place.lock.read_bytes()


def test_layer_digests_in_the_lock_change_nothing(built: Place, digest: str) -> None:
    built.write_lock(without_layers(built.lock.read_text()))

    assert rebuilt(built) == digest


@pytest.mark.usefixtures("built")
def test_a_full_store_changes_nothing(digest: str, bake: Bake) -> None:
    assert bake("-q", "build", "tiny@v1", "--to", "oci:again").digest == digest


def test_the_readme_shows_the_digest_that_the_repository_s_own_model_has(place: Place) -> None:
    root = Path(__file__).parents[2]
    lock = str(root / "models.lock")

    ran = place.run("-q", "--lock", lock, "build", "tiny-llama@v1.0.0", "--frozen", "--to", "oci:i")

    assert f"oci:dist/tiny-llama-v1.0.0@{ran.digest}\n" in (root / "README.md").read_text("utf-8")

"""A base that lacks packages: pip fetches the wheels of the lock, here from a folder, and they become one layer."""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import TYPE_CHECKING

import pytest

from bake.image import LAYER, AddedLayer, append
from bake.layer import File, pack_entries
from bake.layout import Layout
from bake.rootfs import RootFS
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, error, whole
from tests.cli.pushed import faults_in, reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.digest import Digest
    from tests.registry.server import FakeRegistry

GOOD = {"tinywheel/__init__.py": b"WHERE = __file__\n", "tinywheel/deep/data.txt": b"1"}


def wheel(name: str, files: Mapping[str, bytes]) -> bytes:
    """A wheel of version 1.0 (PEP 427), the same bytes each time."""
    metadata = {
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    listed = {**files, **metadata}
    listed[f"{name}-1.0.dist-info/RECORD"] = "".join(f"{path},,\n" for path in listed).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, content in listed.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return stream.getvalue()


def make_base(place: Place) -> Digest:
    layout = Layout(place.root / "bases" / "py")
    layout.prepare("base")
    added = AddedLayer(
        descriptor=layout.add(pack_entries([File.of("usr/bin/python3", b"#!/bin/sh\n")]), media_type=LAYER),
        created_by="base",
    )
    image = append(None, [added], environment={"PYTHONPATH": "/own"}, labels={}, entrypoint=(), command=(), workdir="/")
    layout.stage(image)
    layout.publish(image, model="base", tag="latest")
    return image.descriptor.digest


@pytest.fixture
def lacking(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """pip looks into the folder `wheels` and nowhere else."""
    (place.root / "wheels").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(place.root / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return place


def add(place: Place, bake: Bake, *wheels: tuple[str, bytes], sha256: str | None = None) -> None:
    """`tiny@v1` on a base that lacks these wheels, all of which lie where pip looks."""
    listed = []
    for name, content in wheels:
        (place.root / "wheels" / f"{name}-1.0-py3-none-any.whl").write_bytes(content)
        digest = sha256 or hashlib.sha256(content).hexdigest()
        listed.append(f'\n[[base.py.wheels]]\nname = "{name}"\nversion = "1.0"\nsha256 = "{digest}"\n')
    base = f'\n[base.py]\nimage = "oci:bases/py"\ndigest = "{make_base(place)}"\n'
    place.write_lock(EMPTY_LOCK + base + "".join(listed))
    place.add_model()
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0


def image_of(place: Place) -> Layout:
    return Layout(place.root / "dist" / "tiny-v1")


def test_wheels_become_a_layer_in_front_of_the_base_s_own(lacking: Place, bake: Bake) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", GOOD)))

    assert bake("-q", "build", "tiny@v1").code == 0

    layout = image_of(lacking)
    image = layout.image()
    rootfs = RootFS(layout)
    for layer in image.manifest.layers:
        rootfs.apply(layer)
    assert {path: rootfs.read(f"opt/bake/site/{path}") for path in GOOD} == GOOD
    assert image.config.environment["PYTHONPATH"] == "/opt/bake/site:/own"
    assert whole(layout.path) == ()
    assert bake("-q", "verify", "tiny@v1", "--level", "full").code == 0


def test_a_wheel_is_fetched_once(lacking: Place, bake: Bake) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", GOOD)))
    first = bake("-q", "build", "tiny@v1")
    (lacking.root / "wheels" / "tinywheel-1.0-py3-none-any.whl").unlink()

    assert bake("-q", "--offline", "build", "tiny@v1") == first


def test_warnings_that_the_user_made_errors_do_not_stop_pip(
    lacking: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip 23.2, which Python 3.11 brings, raises DeprecationWarning from its own code."""
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    add(lacking, bake, ("tinywheel", wheel("tinywheel", GOOD)))

    assert bake("-q", "build", "tiny@v1").code == 0


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("ERROR: Exception:\nTraceback (most recent call last):\n  File x\nOSError: disk full", "OSError: disk full"),
        ("ERROR: no such version\nERROR: no matching wheel\nnotice", "ERROR: no such version ERROR: no matching wheel"),
        ("", "exit code 3"),
    ],
)
def test_the_reason_that_pip_gives_is_told(
    lacking: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch, said: str, reason: str
) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", GOOD)))
    python = lacking.root / "python"
    python.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))

    ran = bake("-q", "build", "tiny@v1")

    assert ran.code == 5
    assert ran.err.splitlines()[0] == f"error: pip could not fetch wheel tinywheel 1.0: {reason}"


def test_a_wheel_in_the_store_that_was_damaged_is_fetched_again(lacking: Place, bake: Bake) -> None:
    content = wheel("tinywheel", GOOD)
    add(lacking, bake, ("tinywheel", content))
    first = bake("-q", "build", "tiny@v1")
    digest = hashlib.sha256(content).hexdigest()
    path = lacking.store / "files" / digest[:2] / digest[2:]
    path.chmod(0o644)
    path.write_bytes(content.replace(b"__file__", b"__name__"))

    assert bake("-q", "build", "tiny@v1") == first
    assert path.read_bytes() == content


def test_a_wheel_with_other_bytes_is_refused(lacking: Place, bake: Bake) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", GOOD)), sha256="0" * 64)

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("error: pip could not fetch wheel tinywheel 1.0: ERROR: ")
    assert not image_of(lacking).path.exists()


def test_a_wheel_that_is_not_there_is_told_when_no_network_is_allowed(lacking: Place, bake: Bake) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", GOOD)))

    assert bake("-q", "--offline", "build", "tiny@v1") == Ran(
        4,
        "",
        error(
            "wheel tinywheel 1.0 is not in the store, and --offline allows no network", hint="run it without --offline"
        ),
    )


@pytest.mark.parametrize("name", ["tinywheel-1.0.data/scripts/run", "tinywheel-1.0.data/data/etc/x"])
def test_a_wheel_that_writes_outside_the_site_folder_is_refused(lacking: Place, bake: Bake, name: str) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", {name: b"x"})))

    assert bake("-q", "build", "tiny@v1") == Ran(
        8,
        "",
        error(
            f"wheel tinywheel 1.0: {name} goes outside the site folder",
            hint="use a base image that holds this package, and leave it out of wheels",
        ),
    )


@pytest.mark.parametrize("name", ["../x.py", "/etc/x.py", "tinywheel-1.0.data/purelib/../../x.py"])
def test_a_wheel_with_a_path_that_leads_elsewhere_is_refused(lacking: Place, bake: Bake, name: str) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", {name: b"x"})))

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (8, "")
    assert ran.err.startswith("error: wheel tinywheel 1.0: unsafe path ")


def test_two_wheels_with_one_file_are_refused(lacking: Place, bake: Bake) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", GOOD)), ("other", wheel("other", GOOD)))

    ran = bake("-q", "build", "tiny@v1")

    assert ran == Ran(8, "", error("wheels other and tinywheel both hold tinywheel/__init__.py"))


def test_a_file_of_purelib_lies_beside_the_others(lacking: Place, bake: Bake) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", {"tinywheel-1.0.data/purelib/pure.py": b"x"})))

    assert bake("-q", "build", "tiny@v1").code == 0

    layout = image_of(lacking)
    rootfs = RootFS(layout)
    for layer in layout.image().manifest.layers:
        rootfs.apply(layer)
    assert rootfs.read("opt/bake/site/pure.py") == b"x"


def test_wheels_are_pushed_with_it_and_broken_uploads_of_them_go_on(
    lacking: Place, bake: Bake, registry: FakeRegistry
) -> None:
    add(lacking, bake, ("tinywheel", wheel("tinywheel", GOOD | {"tinywheel/big.py": b"#" * 300_000})))
    registry.fault("PUT */blobs/uploads/*", cut=150_000)

    pushed = bake("-q", "push", "tiny@v1", reference(registry))

    assert pushed.code == 0
    assert faults_in(registry) == ()
    assert bake("-q", "build", "tiny@v1").digest == pushed.digest


def test_a_token_in_a_wheel_is_found(
    lacking: Place, bake: Bake, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own alone: what is public may hold what only looks like one."""
    add(lacking, bake, ("tinywheel", wheel("tinywheel", {"tinywheel/__init__.py": b"# my-own-secret-token"})))
    monkeypatch.setenv("HF_TOKEN", "my-own-secret-token")

    ran = bake("-q", "push", "tiny@v1", reference(registry))

    assert ran.code == 1
    assert ran.err.startswith("error: a token lies in a wheel of the base\n")
    assert registry.blobs == {}

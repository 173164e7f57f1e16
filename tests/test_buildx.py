"""`docker buildx`: the words it is given, and what each of its failures means. A script stands in for docker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake import buildx
from bake.errors import BakeError, DaemonError, DigestError

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "HTTP_AUTH_TOKEN_hub.example"  # noqa: S105 - an id
A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker that writes down what it was given, then does what the file `end` says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "docker"
    script.write_text(
        "#!/bin/sh\n"
        f'[ "$1 $2" = "buildx version" ] && exit 0\n'
        f"printf '%s\\n' \"$@\" > {folder}/words\n"
        f'printf "%s\\n" "$BAKE_BUILD_SECRET" "$SOURCE_DATE_EPOCH" > {folder}/environment\n'
        f". {folder}/end\n"
    )
    script.chmod(0o755)
    (folder / "end").write_text("exit 0\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def request(tmp_path: Path, **changes: object) -> buildx.Request:
    asked: dict[str, object] = {"context": tmp_path, "contexts": {}, "output": "type=docker", "tag": "tiny:v1"}
    return buildx.Request(**asked | changes)  # type: ignore[arg-type]


def fail(docker: Path, text: str) -> None:
    (docker / "message").write_text(text)
    (docker / "end").write_text(f"cat {docker}/message >&2; exit 1\n")


def test_a_build_is_given_output_tag_and_contexts(docker: Path, tmp_path: Path) -> None:
    buildx.build(request(tmp_path, contexts={"model": "/m", "base": "oci-layout://b"}, builder="far"))

    assert (docker / "words").read_text().splitlines() == [
        *("buildx", "build", "--progress", "auto", "--provenance=false", "--sbom=false"),
        *("--tag", "tiny:v1", "--output", "type=docker"),
        *("--build-context", "model=/m", "--build-context", "base=oci-layout://b"),
        *("--builder", "far", str(tmp_path)),
    ]


def test_a_token_goes_through_the_environment_alone(docker: Path, tmp_path: Path) -> None:
    buildx.build(request(tmp_path, secret=SECRET, token="hf_x"))  # noqa: S106

    assert "hf_x" not in (docker / "words").read_text()
    assert f"--secret\nid={SECRET},env=BAKE_BUILD_SECRET\n" in (docker / "words").read_text()
    assert (docker / "environment").read_text() == "hf_x\n0\n"


def test_a_token_is_in_no_representation_of_a_request(tmp_path: Path) -> None:
    assert "hf_x" not in repr(request(tmp_path, secret=SECRET, token="hf_x"))  # noqa: S106


def test_progress_goes_to_stderr(docker: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (docker / "end").write_text("echo '#1 DONE' >&2; echo noise\n")

    buildx.build(request(tmp_path))

    assert capfd.readouterr() == ("", "#1 DONE\n")


def test_a_quiet_build_shows_nothing(docker: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (docker / "end").write_text("echo '#1 DONE' >&2\n")

    buildx.build(request(tmp_path, quiet=True))

    assert capfd.readouterr() == ("", "")
    assert "--progress\nquiet\n" in (docker / "words").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ERROR: OCI exporter is not supported for the docker driver", "this builder cannot write an OCI layout"),
        ('ERROR: no builder "far" found', "there is no such builder"),
        ("write /x: no space left on device", "the builder has no space left"),
        ("invalid response status 401", "the Hub refused the builder"),
        ("permission denied while trying to connect to the docker API", "no permission to use the Docker daemon"),
        ("Cannot connect to the Docker daemon at unix:///x", "no Docker daemon answers"),
        ("failed to connect to the docker API at unix:///x", "no Docker daemon answers"),
    ],
)
def test_a_failure_that_is_known_is_told_in_words(docker: Path, tmp_path: Path, text: str, message: str) -> None:
    fail(docker, f"#1 something\n{text}\n")

    error = failure(tmp_path)

    assert isinstance(error, DaemonError)
    assert error.message == f"docker buildx: {message}"
    assert error.hint


def failure(tmp_path: Path) -> BakeError:
    with pytest.raises(BakeError) as caught:
        buildx.build(request(tmp_path, quiet=True))
    return caught.value


def test_other_bytes_name_both_digests(docker: Path, tmp_path: Path) -> None:
    fail(docker, f"ERROR: failed to solve: digest mismatch {A}: {B}\n")

    error = failure(tmp_path)

    assert isinstance(error, DigestError)
    assert error.message == f"docker buildx: a file that it fetched is not as locked: expected {B}, found {A}"


@pytest.mark.parametrize(
    ("text", "message"),
    [("a\nERROR: first\nERROR: last \n", "ERROR: last"), ("nothing said", "see the lines above")],
)
def test_a_failure_that_is_unknown_ends_with_its_last_error(
    docker: Path, tmp_path: Path, text: str, message: str
) -> None:
    fail(docker, text)

    assert failure(tmp_path).message == f"docker buildx failed: {message}"


def test_no_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert failure(tmp_path).message == "no docker command on the PATH"


def test_a_docker_without_buildx(docker: Path, tmp_path: Path) -> None:
    (docker / "docker").write_text("#!/bin/sh\nexit 1\n")

    assert failure(tmp_path).message == "docker has no buildx"

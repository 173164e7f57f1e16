"""What a base may be built on: one grammar, in which no password, no blank and no option of a tool fits."""

from __future__ import annotations

import pytest

from bake.errors import LockError
from bake.lock.parse import parse
from bake.lock.table import shown

DIGEST = "sha256:" + "a" * 64
GRAMMAR = "a reference of a registry (HOST/NAME:TAG), docker:NAME:TAG in the daemon, or oci:PATH relative to the lock"


def image_of(written: str) -> str:
    return parse(f"version = 1\n[base.x]\nimage = {written}\n").bases[0].image


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu",
        "ubuntu:24.04",
        "verlai/verl:vllm024.dev2",
        "registry.example/a/b/c:tag",
        "registry.example:5000/name",
        "localhost:5000/name:tag",
        "REGISTRY.example/name:Tag_1",
        f"verlai/verl@{DIGEST}",
        f"verlai/verl:tag@{DIGEST}",
        "docker:verl",
        "docker:verl:latest",
        "docker:registry.example:5000/verl:latest",
        "oci:bases/vllm",
        "oci:../bases/vllm",
        "oci:/absolute/path",
        "oci:~/bases",
        "oci:with a blank",
        "oci:$HOME",
        "oci:Größe-模型",
        "oci:a@b:c",
        "oci:-x",
    ],
)
def test_an_image_of_the_grammar_is_read(image: str) -> None:
    assert image_of(f"'{image}'") == image


@pytest.mark.parametrize(
    "image",
    [
        "",
        " ubuntu",
        "ubuntu ",
        "a b",
        "-v",
        "--help",
        "docker:",
        "docker:-v",
        "docker:--help",
        "docker:a b",
        "oci:",
        "oci: a",
        "oci:a ",
        "$IMAGE",
        "${IMAGE}",
        "docker:$IMAGE",
        "name:$TAG",
        "`id`",
        "$(id)",
        "a;b",
        "a\\b",
        "user:word@registry.example/name",
        "user@registry.example/name",
        "https://registry.example/name",
        "docker://verlai/verl",
        "name:",
        "name:tag:tag",
        "name:-tag",
        "name:" + "t" * 129,
        "/name",
        "a//b",
        "a/",
        "a/-b",
        "verlai/Verl",
        "registry.example:port/name",
        "name@sha256:" + "a" * 63,
        "name@sha256:" + "A" * 64,
        "name@" + DIGEST + "0",
        "name@",
        "größe",
    ],
)
def test_an_image_outside_the_grammar_is_refused_and_named(image: str) -> None:
    with pytest.raises(LockError) as caught:
        image_of(f"'{image}'")

    assert caught.value.message == f"models.lock: base.x.image: expected {GRAMMAR}, found {shown(image)}"


@pytest.mark.parametrize("image", ["oci:a\\nRUN b", "oci:a\\tb", "a\\nb", "docker:a\\nb", "oci:\\u0085", "a\\u0000"])
def test_an_image_is_on_one_line(image: str) -> None:
    with pytest.raises(LockError, match=r"^models\.lock: base\.x\.image: expected a reference"):
        image_of(f'"{image}"')

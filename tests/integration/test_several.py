"""`bake build` of several models into a daemon: one after another, each with a name of its own, by either builder."""

from __future__ import annotations

import pytest

from tests.integration.engine import DOCKER, Shop, run_container

pytestmark = DOCKER


@pytest.mark.parametrize("builder", ["direct", "docker"])
def test_each_image_gets_its_name_and_proves_itself(shop: Shop, builder: str) -> None:
    shop.add()
    shop.do("add", f"{shop.name}@v2", "dir://m", "-q")

    built = shop.do("build", "--all", "--to", "docker:{name}:{version}", "--builder", builder)

    names = [f"{shop.name}:v1", f"{shop.name}:v2"]
    assert [line.partition("@")[0] for line in built.out.splitlines()] == names
    assert [run_container(shop.engine, name, "verify", "--level", "full").code for name in names] == [0, 0]

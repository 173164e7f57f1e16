"""A token that found its way into an image: the build fails, the image is gone, and nobody is shown the token."""

from __future__ import annotations

import pytest

from tests.entrypoint.files import model_files
from tests.integration.engine import DOCKER, Shop
from tests.integration.test_refusals import unchecked
from tests.integration.test_wheels import GOOD, add_with_wheel, wheel

pytestmark = DOCKER

TOKEN = "hf_" + "Planted1" * 5
OPAQUE = "another-kind-of-token-0123456789"
BUILDERS = pytest.mark.parametrize("builder", ["direct", "docker"])
HINT = "hint: a token in an image is everybody's who can pull it: revoke it, find where it came from, and build again\n"


def refuse(shop: Shop, builder: str) -> str:
    """Build, which must fail as a check does, with no image and no word of the token left; returns the error."""
    ran = shop.run("build", shop.model, "--to", f"docker:{shop.image}", "--builder", builder)
    assert (ran.code, ran.out) == (1, "")
    assert TOKEN not in ran.err
    assert OPAQUE not in ran.err
    assert not shop.engine.has(shop.image)
    assert not unchecked(shop)
    return ran.err


def base_with(shop: Shop, instruction: str) -> str:
    name = f"{shop.name}-base:v1"
    shop.engine.docker(
        "build", "-q", "--network", "none", "-t", name, "-", stdin=f"FROM {shop.engine.base}\n{instruction}\n".encode()
    )
    return f"docker:{name}"


@BUILDERS
def test_a_token_in_the_environment_of_a_base(shop: Shop, builder: str) -> None:
    shop.add(base=base_with(shop, f"ENV HF_TOKEN={TOKEN}"))

    message = refuse(shop, builder)

    assert "error: a token lies in the image's config" in message
    assert message.endswith(HINT)


@BUILDERS
def test_the_users_own_token_is_found_whatever_its_shape(shop: Shop, builder: str) -> None:
    shop.environ["HF_TOKEN"] = OPAQUE
    shop.add(base=base_with(shop, f"LABEL note={OPAQUE}"))

    assert refuse(shop, builder).endswith(HINT)


@BUILDERS
def test_the_users_own_token_in_a_wheel(shop: Shop, builder: str) -> None:
    """A wheel is public, so a string in it that only looks like a token is not one."""
    shop.environ["HF_TOKEN"] = OPAQUE
    add_with_wheel(shop, wheel({**GOOD, "tinywheel/secrets.py": f'TOKEN = "{OPAQUE}"\n'.encode()}))

    assert "token" in refuse(shop, builder)


def test_a_token_in_the_history_of_a_base(shop: Shop) -> None:
    shop.add(base=base_with(shop, f"RUN echo {TOKEN} >/dev/null"))

    assert "history" in refuse(shop, "docker")


@BUILDERS
def test_a_token_in_the_model_itself(shop: Shop, builder: str) -> None:
    shop.add(model_files() | {"notes.json": f'{{"token": "{TOKEN}"}}'.encode()})

    assert "token" in refuse(shop, builder)

"""`bake build --builder docker`: BuildKit fetches and copies, and nothing wrong gets a name."""

from __future__ import annotations

import hashlib
import secrets
import signal
import time
from typing import TYPE_CHECKING

from tests.cli.place import SOON, Ran
from tests.entrypoint.files import model_files
from tests.integration.engine import DOCKER, Shop, run_container
from tests.integration.test_refusals import read_until, unchecked

if TYPE_CHECKING:
    from tests.hub_server import FakeHub

pytestmark = DOCKER

TOKEN = "hf_" + "opensesame" * 4
BUILD = ("--builder", "docker")


def from_hub(shop: Shop, hub: FakeHub, *, gated: bool = False) -> None:
    """Lock `org/name` on the engine's base, at this Hub; where it is gated, with a token.

    One of its files is nowhere else, so that no cache has it.
    """
    files = model_files() | {"salt.txt": secrets.token_bytes(8)}
    hub.add_repo("org/name", files, gated=gated, lfs=lambda path: path != "config.json")
    shop.environ["HF_ENDPOINT"] = hub.endpoint.replace("127.0.0.1", "localhost")  # its content network is another host
    if gated:
        hub.token = TOKEN
        shop.environ["HF_TOKEN"] = TOKEN
    shop.write_lock(base=f"docker:{shop.engine.base}")
    shop.do("lock", "-q")
    shop.do("add", shop.model, "hf://org/name", "-q")
    hub.requests.clear()


def new_salt(shop: Shop, hub: FakeHub) -> bytes:
    """Lock the same version anew, with a file that no cache has; returns its content."""
    salt = secrets.token_bytes(8)
    hub.add_repo("org/name", model_files() | {"salt.txt": salt}, lfs=lambda path: path != "config.json")
    shop.do("lock", "--upgrade", shop.model, "-q")
    return salt


def test_a_folder_is_copied(shop: Shop) -> None:
    shop.add()

    built = shop.build(*BUILD)

    assert built.out.startswith(shop.image)
    assert run_container(shop.engine, shop.image, "verify", "--level", "full").code == 0
    assert not unchecked(shop)


def test_progress_is_shown_on_stderr_and_not_when_quiet(shop: Shop) -> None:
    shop.add()

    assert "FROM docker.io/bake-test/base:python" in shop.build(*BUILD).err
    assert shop.build(*BUILD, "-q").err == ""


def test_files_of_the_hub_are_fetched_by_the_builder(shop: Shop, hub: FakeHub) -> None:
    from_hub(shop, hub)

    shop.build(*BUILD)

    assert hub.requested("hub/org/name/resolve/*/salt.txt")
    assert run_container(shop.engine, shop.image, "verify", "--level", "full").code == 0


def test_a_gated_model_is_fetched_with_the_token_which_then_is_nowhere(shop: Shop, hub: FakeHub) -> None:
    from_hub(shop, hub, gated=True)

    built = shop.build(*BUILD)

    assert all(request.authorized for request in hub.requested("hub/*/resolve/*"))
    assert not any(request.authorized for request in hub.requested("cdn/*"))
    assert TOKEN not in built.out + built.err
    assert TOKEN.encode() not in shop.engine.saved(shop.image)
    assert TOKEN not in str(shop.engine.client.images.get(shop.image).history())
    assert TOKEN not in str(shop.engine.client.images.get(shop.image).attrs)
    assert TOKEN not in shop.lock.read_text()


def test_the_token_of_the_login_file_serves_too(shop: Shop, hub: FakeHub) -> None:
    from_hub(shop, hub, gated=True)
    del shop.environ["HF_TOKEN"]
    login = shop.root.parent / "hf-home" / "token"
    login.parent.mkdir(exist_ok=True)
    login.write_text(TOKEN + "\n")

    shop.build(*BUILD)

    assert shop.engine.has(shop.image)


def test_a_gated_model_without_a_token_is_refused(shop: Shop, hub: FakeHub) -> None:
    from_hub(shop, hub, gated=True)
    del shop.environ["HF_TOKEN"]

    ran = shop.run("build", shop.model, "--to", f"docker:{shop.image}", "-q", *BUILD)

    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith("error: docker buildx: a file that it fetched is not as locked: expected sha256:")
    assert ran.err.endswith(
        "hint: a Hub that refuses a file sends its refusal instead: ask for access on the model's page, then "
        "`hf auth login`, or set HF_TOKEN; otherwise find out who changed the file\n"
    )
    assert not unchecked(shop)


def test_wrong_bytes_from_the_hub_keep_the_old_image(shop: Shop, hub: FakeHub) -> None:
    from_hub(shop, hub)
    shop.build()
    old = shop.engine.id(shop.image)
    salt = new_salt(shop, hub)
    hub.fault(f"cdn/*{hashlib.sha256(salt).hexdigest()}*", times=99, body=b"wrong")  # one alone: any may come first

    ran = shop.run("build", shop.model, "--to", f"docker:{shop.image}", "-q", *BUILD)

    expected, found = (hashlib.sha256(content).hexdigest() for content in (salt, b"wrong"))
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith(
        "error: docker buildx: a file that it fetched is not as locked: "
        f"expected sha256:{expected}, found sha256:{found}\n"
    )
    assert shop.engine.id(shop.image) == old
    assert not unchecked(shop)


def test_an_interrupted_build_keeps_the_old_image_and_stops_the_builder(shop: Shop, hub: FakeHub) -> None:
    from_hub(shop, hub)
    shop.build()
    old = shop.engine.id(shop.image)
    new_salt(shop, hub)
    hub.fault("*", times=99, slow=60)
    started = shop.start("build", shop.model, "--to", f"docker:{shop.image}", *BUILD)
    read_until(started, "salt.txt")

    since = time.monotonic()
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)

    assert (started.returncode, out) == (130, "")
    assert err.endswith("interrupted\n")
    assert time.monotonic() - since < SOON
    assert shop.engine.id(shop.image) == old
    assert not unchecked(shop)


def test_an_unknown_builder_is_named(shop: Shop) -> None:
    shop.add()

    ran = shop.run("build", shop.model, "--to", "docker", "-q", *BUILD, "--buildx-builder", "nobody")

    assert ran == Ran(
        9, "", "error: docker buildx: there is no such builder\nhint: docker buildx ls shows those there are\n"
    )


def test_the_classic_store_cannot_write_a_layout_and_says_what_can(classic_shop: Shop) -> None:
    classic_shop.add(base=None)

    ran = classic_shop.run("build", classic_shop.model, "--to", "oci:out", "-q", *BUILD)

    assert (ran.code, ran.out) == (9, "")
    assert ran.err == (
        "error: docker buildx: this builder cannot write an OCI layout\n"
        "hint: docker buildx create --name bake --driver docker-container, then --buildx-builder bake; "
        "or --builder direct\n"
    )

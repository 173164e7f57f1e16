"""Tokens: none gets into an image, none is taken from a lock or an address, and none is ever shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bake.api.scanning import known_tokens
from tests.cli.place import EMPTY_LOCK, Bake, Place, Ran, error, files_below
from tests.cli.users import can_be_nobody
from tests.entrypoint.files import frame

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hf_" + "AbCd1234" * 4
HINT = "revoke it, and delete it here and in the file's history; bake takes HF_TOKEN or `hf auth login`"


# --- in a lock


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('source = "dir://m"', f'source = "hf://{SECRET}/name"'),
        ('source = "dir://m"', f'source = "dir://m"\nlicense = "{SECRET}"'),
        ('source = "dir://m"', f'source = "dir://m"\nexclude = ["a", "{SECRET}"]'),
        ('source = "dir://m"', f'source = "dir://m"  # {SECRET}'),
        ("[[model]]", f"# HF_TOKEN={SECRET}\n[[model]]"),
        ("[[model]]", f'[base.x]\nimage = "oci:{SECRET}"\n\n[[model]]'),
        ("[[model]]", f'nonsense = "{SECRET}"\n[[model]]'),
    ],
    ids=["source", "license", "exclude", "end of a line", "comment", "image", "unknown key"],
)
@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("lock", "--check"),
        ("lock",),
        ("add", "b@v1", "dir://m"),
        ("build", "tiny@v1"),
        ("render", "tiny@v1"),
    ],
    ids=" ".join,
)
def test_a_token_in_the_lock_is_refused_with_its_line(
    tiny: Place, bake: Bake, words: tuple[str, ...], old: str, new: str
) -> None:
    tiny.write_lock(tiny.lock.read_text().replace(old, new, 1))
    line = next(number for number, text in enumerate(tiny.lock.read_text().split("\n"), 1) if SECRET in text)
    before = files_below(tiny.root)

    ran = bake("--debug", *words)

    assert (ran.code, ran.out) == (3, "")
    message = f"models.lock: line {line} holds what looks like an access token of the Hub"
    assert ran.err.endswith(error(message, hint=HINT))
    assert SECRET not in ran.err
    assert files_below(tiny.root) == before


# --- in the Hub's address


@pytest.mark.parametrize("words", [("add", "b@v1", "hf://org/name"), ("render", "tiny@v1")], ids=" ".join)
@pytest.mark.parametrize("user", [f"user:{SECRET}", SECRET, "user:word-of-a-mirror"])
def test_a_hub_address_with_a_password_is_refused_and_not_shown(
    tiny: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], user: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"https://{user}@hub.example")
    before = files_below(tiny.root)

    ran, traced = bake(*words), bake("--debug", *words)

    assert ran == Ran(
        2, "", error("HF_ENDPOINT holds a name or a password", hint="log in with `hf auth login`, or set HF_TOKEN")
    )
    assert user not in traced.out + traced.err
    assert files_below(tiny.root) == before


# --- in a model


def test_a_token_in_a_small_file_fails_the_build_and_leaves_nothing(place: Place, bake: Bake) -> None:
    (place.add_model() / "tokenizer_config.json").write_text(f'{{"auth": "{SECRET}"}}')
    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    before = files_below(place.root)

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: a token lies in layer sha256:")
    assert ran.err.endswith(
        "\nhint: a token in an image is everybody's who can pull it: revoke it, find where it came from, "
        "and build again\n"
    )
    assert SECRET not in ran.err
    assert files_below(place.root) == before


def test_this_user_s_own_token_is_found_whatever_its_shape(
    place: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "of-another-shape")
    (place.add_model() / "generation_config.json").write_text('{"x": "of-another-shape"}')
    bake("-q", "add", "tiny@v1", "dir://m")

    ran = bake("-q", "build", "tiny@v1")

    assert (ran.code, ran.out) == (1, "")
    assert "of-another-shape" not in ran.err


@pytest.mark.parametrize("token", ["test", "none", "x", " "])
def test_what_is_too_short_to_be_a_token_does_no_harm(
    place: Place, bake: Bake, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    (place.add_model() / "generation_config.json").write_text('{"test": "none x"}')

    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    assert bake("-q", "build", "tiny@v1").code == 0


def test_weights_may_hold_anything(place: Place, bake: Bake) -> None:
    """They are proven by the lock, byte by byte, and read by nothing that takes text."""
    header = b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (len(SECRET), len(SECRET))
    (place.root / "m").mkdir()
    (place.root / "m" / "config.json").write_text("{}")
    (place.root / "m" / "model.safetensors").write_bytes(frame(header, SECRET.encode()))

    assert bake("-q", "add", "tiny@v1", "dir://m").code == 0
    assert bake("-q", "build", "tiny@v1").code == 0


# --- which tokens are known


@pytest.mark.parametrize(
    ("environment", "file"),
    [
        ({}, "home/.cache/huggingface/token"),
        ({"XDG_CACHE_HOME": "{root}/xdg"}, "xdg/huggingface/token"),
        ({"XDG_CACHE_HOME": "{root}/xdg", "HF_HOME": "{root}/hf"}, "hf/token"),
        ({"HF_HOME": "~/hf"}, "home/hf/token"),
        ({"HF_HOME": "{root}/hf", "HF_TOKEN_PATH": "{root}/own"}, "own"),
        ({"HF_TOKEN_PATH": "~/own"}, "home/own"),
        ({"HF_HOME": "", "XDG_CACHE_HOME": "", "HF_TOKEN_PATH": ""}, "home/.cache/huggingface/token"),
    ],
)
@pytest.mark.usefixtures("place")
def test_the_login_file_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], file: str
) -> None:
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(root=tmp_path))
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    absent = known_tokens()
    path.write_text(f"{SECRET}\n")

    assert (absent, known_tokens()) == ((), (SECRET,))


@pytest.mark.usefixtures("place")
def test_tokens_of_the_environment_come_first_and_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hf-home").mkdir()
    (tmp_path / "hf-home" / "token").write_text(SECRET)
    monkeypatch.setenv("HF_TOKEN", " the-first-one\n")
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", SECRET)

    assert known_tokens() == ("the-first-one", SECRET)


@pytest.mark.usefixtures("place")
def test_a_login_file_that_is_no_text_or_a_folder_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "hf-home" / "token").mkdir(parents=True)

    assert known_tokens() == ()


@pytest.mark.skipif(not can_be_nobody(), reason="needs root, setpriv, and a bake that every user can run")
def test_a_user_without_a_home_has_no_login_file(tiny: Place, tmp_path: Path) -> None:
    """As in a container that runs with any user id."""
    (tmp_path / "free").mkdir()
    (tmp_path / "free").chmod(0o777)
    nobody = ("env", "-u", "HOME", "-u", "HF_HOME", "setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")

    ran = tiny.run(
        *("-q", "build", "tiny@v1", "--frozen", "--to", f"oci:{tmp_path}/free/out"),
        before=nobody,
        environ={"BAKE_CACHE": f"{tmp_path}/free/store"},
    )

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("oci:../free/out@sha256:")


def test_an_empty_lock_holds_no_token(place: Place, bake: Bake) -> None:
    place.write_lock(EMPTY_LOCK + "# hf_short and hf_a_name_of_a_variable_that_is_quite_long\n")

    assert bake("-q", "list") == Ran(0, "", "")

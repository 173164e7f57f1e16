"""Tokens in bytes: the user's own, and whatever has the shape of one of the Hub's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.scan import Scanner, holds_token

TOKEN = "hf_" + "AbCd1234" * 5
OWN = "another-kind-of-token"


def found(*chunks: bytes, tokens: tuple[str, ...] = ()) -> bool:
    scanner = Scanner(tokens)
    for chunk in chunks:
        scanner.show(chunk)
    return scanner.found


@given(cut=st.integers(0, len(TOKEN)), before=st.binary(max_size=600), after=st.binary(max_size=600))
def test_a_token_is_found_across_two_chunks(cut: int, before: bytes, after: bytes) -> None:
    token = TOKEN.encode()

    assert found(before + b" " + token[:cut], token[cut:] + b" " + after)


@given(cut=st.integers(0, len(OWN)), before=st.binary(max_size=600))
def test_the_users_own_token_is_found_across_two_chunks(cut: int, before: bytes) -> None:
    assert found(before + OWN[:cut].encode(), OWN[cut:].encode(), tokens=(OWN,))


def test_a_token_is_found_byte_by_byte() -> None:
    assert found(*(bytes([byte]) for byte in f"x={TOKEN};".encode()))


def test_what_was_found_stays_found() -> None:
    assert found(TOKEN.encode(), b"." * 4096, b"." * 4096)


@pytest.mark.parametrize("content", [b"", b"hf_", b"hf_short", b"hf_token_of_a_variable_name_that_is_long_enough_0123"])
def test_what_has_not_the_shape_is_no_token(content: bytes) -> None:
    assert not holds_token(content)


@pytest.mark.parametrize(
    "content", [f'"{TOKEN}"', f"HF_TOKEN={TOKEN}\n", f"https://user:{TOKEN}@hub.example/", f"\x00{TOKEN}\x00", TOKEN]
)
def test_the_shape_is_found_wherever_it_stands(content: str) -> None:
    assert holds_token(content.encode())


@pytest.mark.parametrize("content", [f"x{TOKEN}", f"_{TOKEN}", f"{TOKEN}_x"])
def test_a_longer_word_is_no_token(content: str) -> None:
    assert not holds_token(content.encode())


def test_another_users_token_of_another_shape_is_not_known() -> None:
    assert not found(OWN.encode(), tokens=("mine-is-another",))

"""References, as Docker reads them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bake.digest import Digest
from bake.errors import UsageError
from bake.registry import Reference
from bake.registry.reference import is_loopback
from tests.registry.samples import fault_of

HEX = "0123456789abcdef" * 4

PARTS = st.from_regex(r"[a-z0-9]{1,8}((\.|_|__|-{1,3})[a-z0-9]{1,8}){0,2}", fullmatch=True)
PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6553[0-5])"
HOSTS = st.one_of(
    st.just("docker.io"),
    st.just("localhost"),
    st.from_regex(rf"[a-z0-9]{{1,8}}(\.[a-z0-9]{{1,8}}){{1,3}}(:{PORT})?", fullmatch=True),
    st.from_regex(rf"[a-z0-9]{{1,8}}:{PORT}", fullmatch=True),
    st.from_regex(rf"\[[0-9a-f]{{1,4}}(:[0-9a-f]{{1,4}}){{2,7}}\](:{PORT})?", fullmatch=True),
)
TAGS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", fullmatch=True)
DIGESTS = st.binary(max_size=8).map(Digest.of)


def parsed(text: str) -> list[Reference]:
    """The reference, or none where the text is refused as it should be."""
    with contextlib.suppress(UsageError):
        return [Reference.parse(text)]
    return []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("index.docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("verlai/verl:vllm024.latest", "docker.io/verlai/verl:vllm024.latest"),
        ("ghcr.io/org/llama3-8b:v1.0.0", "ghcr.io/org/llama3-8b:v1.0.0"),
        ("localhost/name", "localhost/name:latest"),
        ("localhost:5000/name", "localhost:5000/name:latest"),
        ("host:5000/a/b/c:v1", "host:5000/a/b/c:v1"),
        ("[::1]:5000/name:v1", "[::1]:5000/name:v1"),
        ("Host/name", "Host/name:latest"),
        (f"ghcr.io/org/name@sha256:{HEX}", f"ghcr.io/org/name@sha256:{HEX}"),
        (f"ghcr.io/org/name:v1@sha256:{HEX}", f"ghcr.io/org/name:v1@sha256:{HEX}"),
    ],
)
def test_what_is_left_out_is_filled_in_as_docker_does(text: str, expected: str) -> None:
    assert str(Reference.parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "not a reference: '': 'library/' is no repository", None),
        ("https://ghcr.io/org/name", "not a reference: 'https://ghcr.io/org/name': it is a URL", "leave out https://"),
        (
            "ghcr.io/Org/Name:v1",
            "not a reference: 'ghcr.io/Org/Name:v1': a repository has no capitals",
            "write org/name",
        ),
        ("ghcr.io/org//name", "not a reference: 'ghcr.io/org//name': 'org//name' is no repository", None),
        ("ghcr.io/org/name:", "not a reference: 'ghcr.io/org/name:': '' is no tag", None),
        ("ghcr.io/org/name:-v1", "not a reference: 'ghcr.io/org/name:-v1': '-v1' is no tag", None),
        (
            "ghcr.io:65536/org/name",
            "not a reference: 'ghcr.io:65536/org/name': 'ghcr.io:65536': expected a port from 1 to 65535",
            None,
        ),
        ("h:0/name", "not a reference: 'h:0/name': 'h:0': expected a port from 1 to 65535", None),
        (
            HEX,
            f"not a reference: '{HEX}': 64 hex digits are no repository",
            f"a digest follows an @: NAME@sha256:{HEX}",
        ),
        ("gh_cr.io/org/name", "not a reference: 'gh_cr.io/org/name': 'gh_cr.io' is no host", None),
        (
            "ghcr.io/org/name@sha512:00",
            (
                "not a reference: 'ghcr.io/org/name@sha512:00': "
                "expected sha256:<64 lower-case hex digits>, found 'sha512:00'"
            ),
            None,
        ),
    ],
)
def test_what_is_no_reference_is_told_with_the_way_to_write_it(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        Reference.parse(text)

    assert fault_of(caught.value)[1] == message
    assert hint is None or caught.value.hint == hint
    assert caught.value.hint


def test_a_repository_of_256_characters_is_refused() -> None:
    with pytest.raises(UsageError, match="at most 255 characters, found 256"):
        Reference.parse(f"ghcr.io/{'a' * 256}")


def test_the_digest_decides_where_there_is_a_tag_too() -> None:
    assert Reference.parse(f"host:1/name:v1@sha256:{HEX}").identifier == f"sha256:{HEX}"


@given(host=HOSTS, parts=st.lists(PARTS, min_size=2, max_size=4), tag=st.none() | TAGS, digest=st.none() | DIGESTS)
def test_every_reference_is_read_as_it_is_written(
    host: str, parts: list[str], tag: str | None, digest: Digest | None
) -> None:
    written = Reference(host=host, repository="/".join(parts), tag=tag or "latest", digest=digest)

    assert Reference.parse(str(written)) == written


@given(st.text(max_size=60))
def test_no_text_gives_anything_but_a_reference_that_reads_the_same_or_a_usage_error(text: str) -> None:
    assert [Reference.parse(str(found)) for found in parsed(text)] == parsed(text)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:5000", "127.0.0.1:5000", "127.9.9.9", "[::1]", "[::1]:5000"])
def test_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost.evil.com", "10.0.0.1:5000", "ghcr.io", "127.0.0.1.evil.com", "[::2]:1"])
def test_other_machines_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)

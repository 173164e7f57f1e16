"""How a registry is reached: TLS and plain HTTP, certificates, proxies, and what is told where it is not reached."""

from __future__ import annotations

import socket
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from bake.errors import NetworkError, UsageError
from bake.registry import Reference, Registry, Timeouts
from bake.registry.network import Network, NoTlsError, proxy_of
from tests.registry.faults import PASSWORD, USER, basic
from tests.registry.samples import BLOB, BYTES, NAME, Waits, encoded, fault_of, open_at, push, read, write_config
from tests.registry.server import FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=registry -addext subjectAltName=IP:127.0.0.1"
    files = ["-out", str(folder / "ca.pem"), "-keyout", str(folder / "key.pem")]
    subprocess.run(["openssl", *command.split(), *files], check=True, capture_output=True)
    return folder / "ca.pem", folder / "key.pem"


@pytest.fixture
def secure(certificate: tuple[Path, Path]) -> Iterator[FakeRegistry]:
    """A registry that speaks TLS alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with FakeRegistry(context=context) as fake:
        yield fake


@pytest.fixture(params=["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def trusted(request: pytest.FixtureRequest, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that names the authority."""
    monkeypatch.setenv(request.param, str(certificate[0]))


@pytest.mark.usefixtures("trusted")
def test_a_variable_names_the_authority(secure: FakeRegistry, waits: Waits, docker_config: Path) -> None:
    write_config(docker_config, auths={secure.host: encoded(USER, PASSWORD)})
    secure.auth = "token"

    push(secure, waits)

    assert secure.blobs == {NAME: {str(BLOB.digest): BYTES}}


def test_a_certificate_that_is_not_trusted_is_told_with_the_remedy(secure: FakeRegistry, waits: Waits) -> None:
    with pytest.raises(NetworkError) as caught:
        push(secure, waits)

    assert fault_of(caught.value) == (
        NetworkError,
        f"{secure.host}: its certificate is not trusted here: self-signed certificate",
        (
            "name the authority that signed it: SSL_CERT_FILE=/path/to/ca.pem, or "
            f"/etc/docker/certs.d/{secure.host}/ca.crt as for Docker"
        ),
    )
    assert waits.seconds == []


def test_an_authority_that_is_not_there_is_named(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")

    with pytest.raises(UsageError) as caught:
        Registry.open(Reference.parse("ghcr.io/org/name"), access="pull", patience=waits.patience())

    assert caught.value.message == "SSL_CERT_FILE: cannot use /nowhere/ca.pem: No such file or directory"


@pytest.mark.usefixtures("trusted")
def test_an_upload_that_is_sent_to_plain_http_by_mistake_stays_with_tls(secure: FakeRegistry, waits: Waits) -> None:
    secure.uploads["upload-x"] = bytearray()
    secure.fault("POST *", status=202, headers={"Location": f"http://127.0.0.1/v2/{NAME}/blobs/uploads/upload-x"})

    assert push(secure, waits) == "uploaded"


@pytest.mark.usefixtures("trusted")
def test_an_upload_is_not_sent_to_another_host_without_tls(secure: FakeRegistry, waits: Waits) -> None:
    secure.fault("POST *", status=202, headers={"Location": "http://storage.example/upload?secret=1"})

    with pytest.raises(NetworkError) as caught:
        push(secure, waits)

    assert caught.value.message == (
        f"{secure.host}/{NAME}: blob {BLOB.digest}: the registry sends the upload to storage.example, without TLS"
    )


def test_nobody_at_the_address_is_told(waits: Waits) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{closed.getsockname()[1]}"

    with pytest.raises(NetworkError) as caught:
        Registry.open(Reference.parse(f"{host}/{NAME}"), access="pull", patience=waits.patience())

    assert fault_of(caught.value) == (
        NetworkError,
        f"the registry cannot be reached: {host}: Connection refused (4 tries)",
        "check the network and the proxy settings (HTTPS_PROXY, NO_PROXY)",
    )
    assert waits.seconds == [1.0, 2.0, 4.0]


def test_a_registry_that_says_nothing_more_is_given_up(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("HEAD *", times=9, silent=True)

    with pytest.raises(NetworkError) as caught:
        push(registry, waits, timeouts=Timeouts(connect=5, answer=0.5))

    assert caught.value.message == (
        f"{registry.host}/{NAME}: blob {BLOB.digest}: {registry.host} sends nothing more (4 tries)"
    )


def test_a_registry_on_loopback_that_is_slow_at_first_is_asked_again(registry: FakeRegistry, waits: Waits) -> None:
    registry.fault("GET /v2/", silent=True)

    push(registry, waits, timeouts=Timeouts(connect=5, answer=0.5))

    assert waits.seconds == [1.0]


def test_a_proxy_carries_it_all(registry: FakeRegistry, waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{USER}:{PASSWORD.replace(':', '%3A')}@{registry.host}")
    reference = Reference.parse(f"registry.example/{NAME}:v1")

    with Registry.open(reference, access="push", plain_http=True, patience=waits.patience()) as opened:
        assert not opened.has_blob(BLOB)

    assert [request.path for request in registry.requests] == [
        "http://registry.example/v2/",
        f"http://registry.example/v2/{NAME}/blobs/{BLOB.digest}",
    ]
    assert [request.headers.get("proxy-authorization") for request in registry.requests] == [basic()] * 2


@pytest.mark.parametrize("named", ["registry.example:5000", "other.example, registry.example:5000"])
def test_a_registry_that_is_named_as_one_without_tls_is_reached_so(
    registry: FakeRegistry, waits: Waits, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("http_proxy", f"http://{registry.host}")
    monkeypatch.setenv("BAKE_PLAIN_HTTP", named)

    with Registry.open(
        Reference.parse("registry.example:5000/org/name:v1"), access="pull", patience=waits.patience()
    ) as opened:
        assert opened.resolve() is None


def test_a_registry_without_tls_is_told_with_what_to_set(registry: FakeRegistry) -> None:
    network = Network(registry.host, connections=1, timeouts=Timeouts())

    with pytest.raises(NetworkError) as caught:
        network.send("GET", f"https://{registry.host}/v2/")

    assert fault_of(caught.value) == (
        NoTlsError,
        f"{registry.host} answers without TLS",
        f"if that is meant to be so, and the line is safe: BAKE_PLAIN_HTTP={registry.host}",
    )


def test_a_proxy_that_is_not_there_is_told_without_its_password(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:s3cret@127.0.0.1:9")

    with pytest.raises(NetworkError) as caught:
        Registry.open(Reference.parse("registry.example/name"), access="pull", patience=waits.patience())

    assert caught.value.message == (
        "the registry cannot be reached: no way through the proxy to registry.example: Connection refused (4 tries)"
    )


@pytest.mark.parametrize(
    ("url", "no_proxy", "expected"),
    [
        ("https://ghcr.io/v2/", "", "http://proxy:3128"),
        ("http://ghcr.io/v2/", "", None),
        ("https://ghcr.io/v2/", "other.io,.ghcr.io", None),
        ("https://registry.corp.example/v2/", ".corp.example", None),
        ("https://10.1.2.3:5000/v2/", "10.0.0.0/8", None),
        ("https://11.1.2.3:5000/v2/", "10.0.0.0/8", "http://proxy:3128"),
        ("https://ghcr.io/v2/", "*", None),
        ("https://127.0.0.1:5000/v2/", "", None),
        ("https://localhost:5000/v2/", "", None),
    ],
)
def test_the_proxy_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, url: str, no_proxy: str, expected: str | None
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)

    assert proxy_of(url) == expected


def test_a_proxy_of_an_unknown_kind_is_refused(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:s3cret@proxy:1080")

    with pytest.raises(UsageError) as caught:
        Registry.open(Reference.parse("registry.example/name"), access="pull", patience=waits.patience())

    assert caught.value.message == "cannot use the proxy socks5://proxy:1080"


def test_connections_are_used_again(registry: FakeRegistry, waits: Waits) -> None:
    registry.add_blob(NAME, BYTES)
    with open_at(registry, waits) as opened:
        opened.has_blob(BLOB)
        b"".join(opened.open_blob(BLOB))
        opened.has_blob(BLOB)

    assert registry.connections == 1


def test_a_registry_that_is_read_is_reached_without_tls_on_loopback(registry: FakeRegistry, waits: Waits) -> None:
    registry.add_blob(NAME, BYTES)

    assert read(registry, waits) == BYTES

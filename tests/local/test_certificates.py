"""Clients that trust the authority accept the server certificate for loopback."""

import ssl
from pathlib import Path

import pytest

from quorate.kube.clock import WallClock
from quorate.kube.serving.tls import KeyPair
from quorate.local.certificates import expires_soon, new_authority, new_server_certificate

NOW = 1_900_000_000.0
DAY_S = 86_400.0


def handshake(server: KeyPair, trusted: KeyPair, hostname: str, tmp_path: Path) -> None:
    """Perform a TLS handshake in memory; raise what the client raises."""
    (tmp_path / "tls.crt").write_bytes(server.certificate)
    (tmp_path / "tls.key").write_bytes(server.key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    trusting = ssl.create_default_context(cadata=trusted.certificate.decode())
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=hostname)
    host = serving.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, host):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.fixture(scope="module")
def authority() -> KeyPair:
    return new_authority(WallClock().now())  # ssl compares with the machine's clock


@pytest.mark.parametrize("hostname", ["127.0.0.1", "localhost", "::1"])
def test_loopback_names_are_accepted(authority: KeyPair, hostname: str, tmp_path: Path) -> None:
    handshake(new_server_certificate(authority, WallClock().now()), authority, hostname, tmp_path)


def test_another_host_is_refused(authority: KeyPair, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        handshake(new_server_certificate(authority, WallClock().now()), authority, "10.0.0.1", tmp_path)


def test_another_authority_is_refused(authority: KeyPair, tmp_path: Path) -> None:
    stranger = new_authority(WallClock().now())
    with pytest.raises(ssl.SSLCertVerificationError, match=r"verify failed"):
        handshake(new_server_certificate(authority, WallClock().now()), stranger, "127.0.0.1", tmp_path)


@pytest.mark.parametrize(
    ("after_days", "soon"),
    [
        pytest.param(0, False, id="valid for a year"),
        pytest.param(334, False, id="31 days left"),
        pytest.param(335, True, id="30 days left"),
        pytest.param(400, True, id="expired"),
    ],
)
def test_renewal_is_due_thirty_days_before_the_end(authority: KeyPair, after_days: int, soon: bool) -> None:
    server = new_server_certificate(authority, NOW)
    assert expires_soon(server.certificate, NOW + after_days * DAY_S) is soon

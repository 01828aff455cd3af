"""Tokens and certificates in files that are rewritten before they expire."""

import asyncio
import os
import random
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Unreachable
from quorate.kube.resources import PODS
from quorate.kube.rest.config import RestConfig, in_cluster_config, load_anonymous_config, load_rest_config
from quorate.kube.rest.credentials import TokenFile
from quorate.kube.serving.certificates import new_authority, new_client_certificate, new_server_certificate
from quorate.kube.serving.tls import KeyPair, load_certificate
from tests.kube.fake_server import Answer, FakeServer, pod

TIME = iter(range(1_000_000_000, 2_000_000_000))


def write(path: Path, content: bytes) -> None:
    """Write a file with a new modification time, however fast the test is."""
    path.write_bytes(content)
    os.utime(path, (second := next(TIME), second))


def serving_context(authority: KeyPair, clients: KeyPair) -> ssl.SSLContext:
    """Return the TLS context of a server that requires a certificate of ``clients``."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(serving, new_server_certificate(authority, "server", ["127.0.0.1"], WallClock().now()))
    serving.load_verify_locations(cadata=clients.certificate.decode())
    serving.verify_mode = ssl.CERT_REQUIRED
    return serving


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "config"
    user = "client-certificate: client.crt, client-key: client.key"
    path.write_text(
        f"clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority: ca.crt}}}}]\n"
        f"users: [{{name: u, user: {{{user}}}}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    return path


async def is_answered(client: Client) -> bool:
    try:
        await client.get(PODS, Key("default", "a"))
    except Unreachable:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("rotated", ["client", "authority"])
def test_rewritten_certificates_of_a_kubeconfig_are_used_for_the_next_connection(
    tmp_path: Path, rotated: str
) -> None:
    """The second server trusts, or is signed by, another authority than the first one."""
    now = WallClock().now()
    first, second = new_authority("first", now), new_authority("second", now)
    servers, clients = (first, second) if rotated == "client" else (second, first)

    def write_client(pair: KeyPair) -> None:
        write(tmp_path / "client.crt", pair.certificate)
        write(tmp_path / "client.key", pair.key)

    async def story() -> None:
        write(tmp_path / "ca.crt", first.certificate)
        write_client(new_client_certificate(first, "administrator", now))
        answer = Answer(200, pod("a", 1))
        async with FakeServer(lambda request: answer, serving_context(servers, clients)) as server:
            cluster = await load_rest_config(kubeconfig(tmp_path, server.url))
            async with Client(cluster, random.Random(7)) as client:
                assert not await is_answered(client)
                if rotated == "client":
                    write(tmp_path / "client.crt", b"half")  # its key is not written yet
                    assert not await is_answered(client)
                    write_client(new_client_certificate(second, "administrator", now))
                else:
                    write(tmp_path / "ca.crt", second.certificate)
                assert await is_answered(client)

    asyncio.run(story())


async def renewed(config: RestConfig) -> ssl.SSLContext | None:
    await config.credentials.renew()
    return config.credentials.tls


def test_a_rewritten_authority_is_used_by_pods_and_with_the_credentials_of_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    (tmp_path / "token").write_text("one")
    (tmp_path / "namespace").write_text("quorate-system")
    write(tmp_path / "ca.crt", new_authority("first", WallClock().now()).certificate)
    loads: list[Callable[[], RestConfig]] = [
        lambda: in_cluster_config(tmp_path),
        lambda: load_anonymous_config(kubeconfig(tmp_path, "https://127.0.0.1:1")),
    ]
    for load in loads:
        config = load()
        assert asyncio.run(renewed(config)) is config.tls, "as long as nothing has changed"
        write(tmp_path / "ca.crt", new_authority("second", WallClock().now()).certificate)
        second = asyncio.run(renewed(config))
        assert second is not config.tls
        (tmp_path / "ca.crt").unlink()
        assert asyncio.run(renewed(config)) is second, "the last that could be read"
        write(tmp_path / "ca.crt", new_authority("third", WallClock().now()).certificate)
        assert asyncio.run(renewed(config)) is not second


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff"])
def test_the_last_token_is_used_while_its_file_is_absent_or_has_no_token(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "token"
    write(path, b"one")
    credentials = TokenFile(path)
    path.unlink()
    if content is not None:
        write(path, content)
    assert credentials.authorization() == "Bearer one"
    assert not asyncio.run(credentials.refresh("Bearer one"))
    write(path, b"two")
    assert credentials.authorization() == "Bearer two"

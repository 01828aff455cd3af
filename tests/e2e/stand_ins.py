"""Test programs with the flags of ``etcd`` and ``kube-apiserver`` that run the local API server.

    python -m tests.e2e.stand_ins kube-apiserver --secure-port=6443 ...

Like the real programs, they exit on an unknown flag, a missing flag or an invalid file.
"""

import argparse
import asyncio
import csv
import random
import ssl
import sys
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from quorate.kube.clock import WallClock
from quorate.local.certificates import ServerKeys, new_authority
from quorate.local.server.apiserver import NO_CONVERTERS, ApiServer
from quorate.local.server.auth.authentication import User
from quorate.local.server.storage.store import Store


async def etcd(arguments: argparse.Namespace) -> None:
    """Serve only ``/health``."""
    app = web.Application()
    app.router.add_get("/health", _health)
    runner = web.AppRunner(app)
    await runner.setup()
    url = urlsplit(arguments.listen_client_urls)
    await web.TCPSite(runner, url.hostname, url.port).start()
    await asyncio.Event().wait()


async def _health(_: web.Request) -> web.Response:
    return web.json_response({"health": "true"})


async def kube_apiserver(arguments: argparse.Namespace) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{arguments.etcd_servers}/health") as answer:
        assert answer.status == 200
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(arguments.tls_cert_file, arguments.tls_private_key_file)
    clock, ids = WallClock(), random.Random()
    server = ApiServer(
        Store(":memory:", 10_000),
        _users(Path(arguments.token_auth_file)),
        clock,
        lambda: str(uuid.UUID(int=ids.getrandbits(128))),
        NO_CONVERTERS,
        ServerKeys(_signing_key(arguments), new_authority(clock.now())),
    )
    await server.start(arguments.bind_address, int(arguments.secure_port), tls)
    await asyncio.Event().wait()


def _users(tokens: Path) -> dict[str, User]:
    """Return users by token; each line has the token, name, uid and quoted groups."""
    with tokens.open(newline="", encoding="utf-8") as file:
        return {token: User(name, tuple(groups.split(","))) for token, name, _, groups in csv.reader(file)}


def _signing_key(arguments: argparse.Namespace) -> bytes:
    """Return the signing key of service account tokens; it must match the public key."""
    signing = Path(arguments.service_account_signing_key_file).read_bytes()
    pem, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    public = load_pem_private_key(signing, password=None).public_key().public_bytes(pem, form)
    assert Path(arguments.service_account_key_file).read_bytes() == public
    return signing


FLAGS = {
    etcd: ("data-dir", "listen-client-urls", "advertise-client-urls", "listen-peer-urls", "unsafe-no-fsync"),
    kube_apiserver: (
        "etcd-servers", "bind-address", "advertise-address", "secure-port", "cert-dir", "tls-cert-file",
        "tls-private-key-file", "token-auth-file", "authorization-mode", "disable-admission-plugins",
        "allow-privileged", "service-cluster-ip-range", "service-account-issuer", "service-account-key-file",
        "service-account-signing-key-file", "requestheader-client-ca-file", "requestheader-allowed-names",
        "requestheader-username-headers", "requestheader-group-headers", "requestheader-extra-headers-prefix",
        "proxy-client-cert-file", "proxy-client-key-file", "feature-gates", "runtime-config",
        "endpoint-reconciler-type",
    ),
}  # fmt: skip


def main() -> None:
    program = {"etcd": etcd, "kube-apiserver": kube_apiserver}[sys.argv[1]]
    parser = argparse.ArgumentParser(sys.argv[1], allow_abbrev=False)
    for flag in FLAGS[program]:
        parser.add_argument(f"--{flag}", required=True)
    asyncio.run(program(parser.parse_args(sys.argv[2:])))


if __name__ == "__main__":
    main()

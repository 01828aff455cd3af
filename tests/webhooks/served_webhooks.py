"""A webhook server on a free port of this machine, and a client for it."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO

import aiohttp
from aiohttp import web

from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import TlsOptions
from quorate.kube.clock import WallClock
from quorate.kube.serving.bounded_server import ServerLimits
from quorate.kube.serving.certificates import new_authority, new_server_certificate
from quorate.kube.serving.tls import KeyPair, load_certificate, server_context
from quorate.observe.serving import serving


def a_pair() -> tuple[KeyPair, bytes]:
    """Return a certificate for this machine, and the CA certificate to trust."""
    now = WallClock().now()
    authority = new_authority("tests", now)
    return new_server_certificate(authority, "tests", ["127.0.0.1"], now), authority.certificate


@dataclass
class Served:
    url: str
    context: ssl.SSLContext
    authority: bytes

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request on a new connection."""
        async with self.connected() as session:
            return await self.send(session, path, body)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[aiohttp.ClientSession]:
        trusting = ssl.create_default_context(cadata=self.authority.decode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
            yield session
        await asyncio.sleep(0)  # the TLS transport is closed in the next iteration

    async def send(self, session: aiohttp.ClientSession, path: str, body: bytes) -> tuple[int, bytes]:
        async with session.post(f"{self.url}{path}", data=BytesIO(body)) as response:
            return response.status, await response.read()


@asynccontextmanager
async def served(
    app: web.Application,
    rules: TlsOptions = TlsOptions(),  # noqa: B008
    limits: ServerLimits = ServerLimits(),  # noqa: B008
) -> AsyncIterator[Served]:
    pair, authority = a_pair()
    context = server_context(rules)
    load_certificate(context, pair)
    async with serving("webhook", Address("127.0.0.1", 0), app, context, limits) as address:
        assert address is not None
        yield Served(f"https://{address}", context, authority)

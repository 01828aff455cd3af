"""Serving an application on a free port."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from quorate.api.configuration.process import Address
from quorate.observe.serving import serving

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def listening(field: str, app: web.Application) -> AsyncIterator[str]:
    address = Address(LOOPBACK, free_port())
    async with serving(field, address, app):
        yield f"http://{address}"

"""Serving an application on a free port."""

import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from aiohttp import web

from quorate.api.configuration.process import Address
from quorate.observe.serving import serving

LOOPBACK = "127.0.0.1"


# The system gives no client a port below 32768, and local clusters begin their node ports at 30000.
PORTS: Final = range(10_000, 30_000)


def free_port() -> int:
    """Return a port for a process that cannot choose one by itself.

    A port of the system's own choice could be that of another test's connection before the process listens.
    """
    while True:
        port = secrets.choice(PORTS)
        with suppress(OSError), socket.create_server((LOOPBACK, port)):
            return port


@asynccontextmanager
async def listening(field: str, app: web.Application) -> AsyncIterator[str]:
    async with serving(field, Address(LOOPBACK, 0), app) as address:
        yield f"http://{address}"

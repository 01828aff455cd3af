"""HTTP servers of a process at the addresses of its configuration, and the health checks of a kubelet."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from quorate.api.configuration.process import Address, Health
from quorate.kube.log import logger
from quorate.kube.serving.bounded_server import ServerLimits, bounded_server


class CannotListen(Exception):
    """An address of the configuration is in use or not available on this host."""

    def __init__(self, field: str, address: Address, reason: str) -> None:
        super().__init__(field, address, reason)
        self.field, self.address, self.reason = field, address, reason

    def __str__(self) -> str:
        return f'{self.field}: {self.address}: {self.reason} (write another address, or "0" for none)'


@asynccontextmanager
async def serving(
    field: str,
    address: Address | None,
    app: web.Application,
    tls: ssl.SSLContext | None = None,
    limits: ServerLimits = ServerLimits(),  # noqa: B008
) -> AsyncIterator[Address | None]:
    """Serve ``app`` at ``address``, the value of ``field``, while the block lasts; not at all if it is None.

    Yield the address that is bound, because port 0 selects a free one.  Raises ``CannotListen``.
    """
    if address is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(
                bounded_server(app, address.host, address.port, tls, limits)
            )
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise CannotListen(field, address, reason) from error
        bound = Address(address.host, port)
        logger(__name__).info("listening", field=field, address=bound)
        yield bound


def health_checks(
    health: Health, synced: asyncio.Event, servers: Mapping[str, asyncio.Event]
) -> web.Application:
    """Return the application that answers liveness and readiness probes.

    A process is alive while its event loop answers.  It is ready once its copies are ``synced``, as leader or
    as follower, and each of ``servers``, by name, serves.  Losing the API server for a while changes neither,
    because a restart would not help.
    """

    async def liveness(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readiness(_: web.Request) -> web.Response:
        if not synced.is_set():
            return web.Response(status=503, text="not synced with the API server yet")
        missing = [name for name, serves in servers.items() if not serves.is_set()]
        if missing:
            return web.Response(status=503, text=f"{', '.join(missing)}: not served yet")
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get(f"/{health.liveness}", liveness)
    app.router.add_get(f"/{health.readiness}", readiness)
    return app

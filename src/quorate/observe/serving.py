"""Listening for those who observe and those who ask: only where the configuration says so."""

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from quorate.api.configuration.process import Address
from quorate.kube.log import logger

_ENDS_WITHIN_S = 1.0  # answers are small; who is slower than this at the end does without


class CannotListen(Exception):
    """An address of the configuration is not free, or not ours."""

    def __init__(self, field: str, address: Address, reason: str) -> None:
        super().__init__(field, address, reason)
        self.field, self.address, self.reason = field, address, reason

    def __str__(self) -> str:
        return f'{self.field}: {self.address}: {self.reason} (write another address, or "0" for none)'


@asynccontextmanager
async def serving(
    field: str, address: Address | None, app: web.Application, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Address | None]:
    """Answer at ``address``, the value of ``field``, while the block lasts; nowhere if it is None.

    Where it listens is given and logged, as port 0 takes any that is free.  Raises ``CannotListen``.
    """
    if address is None:
        yield None
        return
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_ENDS_WITHIN_S)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host or None, address.port, ssl_context=tls).start()
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise CannotListen(field, address, reason) from error
        port: int = runner.addresses[0][1]
        taken = Address(address.host, port)
        logger(__name__).info("listening", field=field, address=taken)
        yield taken
    finally:
        await runner.cleanup()

"""HTTP servers of a process at the addresses of its configuration, and the health checks of a kubelet."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from aiohttp import web

from quorate.api.configuration.process import Address, Health
from quorate.api.configuration.webhooks import TlsOptions
from quorate.kube.log import logger
from quorate.kube.serving.bounded_server import ServerLimits, bounded_server, listen
from quorate.kube.serving.delegated_auth import Access, DelegatedAuth
from quorate.kube.serving.tls import KeyPair, load_certificate, server_context
from quorate.observe.authorization import authorized
from quorate.observe.limits import RENEW_EVERY_S

_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class CannotListen(Exception):
    """An address of the configuration is in use or not available on this host."""

    def __init__(self, field: str, address: Address, reason: str) -> None:
        super().__init__(field, address, reason)
        self.field, self.address, self.reason = field, address, reason

    def __str__(self) -> str:
        remedy = "a free port" if self.field.lower().endswith("port") else 'another address, or "0" for none'
        return f"{self.field}: {self.address}: {self.reason} (write {remedy})"


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
            raise _cannot_listen(field, address, error) from error
        bound = Address(address.host, port)
        logger(__name__).info("listening", field=field, address=bound)
        yield bound


async def require_free(field: str, address: Address) -> None:
    """Raise ``CannotListen`` if an address cannot be served, before what precedes serving it."""
    try:
        for opened in await listen(address.host, address.port):
            opened.close()
    except OSError as error:
        raise _cannot_listen(field, address, error) from error


def _cannot_listen(field: str, address: Address, error: OSError) -> CannotListen:
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return CannotListen(field, address, reason)


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


class HttpsEndpoints:
    """The HTTPS server of one process, with endpoints such as ``/metrics``.

    A loopback address is served over plain HTTP without authorization: users of this machine can read the
    kubeconfig as well.
    """

    def __init__(self, auth: DelegatedAuth, tls: TlsOptions) -> None:
        self.auth = auth
        self._tls = tls

    @asynccontextmanager
    async def serving(
        self,
        field: str,
        address: Address | None,
        app: web.Application,
        required_access: Callable[[web.Request], Access],
        *,
        aggregated: bool = False,
    ) -> AsyncIterator[None]:
        """Serve ``app`` at ``address``, the value of ``field``, while the block lasts; not at all if None.

        ``aggregated``: the API server forwards requests of users.  Raises ``CannotListen``.
        """
        if address is None or address.is_loopback:
            async with serving(field, address, app):
                yield
        else:
            async with self.protected(field, address, app, required_access, aggregated=aggregated):
                yield

    @asynccontextmanager
    async def protected(
        self,
        field: str,
        address: Address,
        app: web.Application,
        required_access: Callable[[web.Request], Access],
        *,
        aggregated: bool = False,
    ) -> AsyncIterator[Address]:
        """Serve over TLS with authorization at any address; yield the address that is bound."""
        context = server_context(self._tls)
        load_certificate(context, self._certificate())
        proxy = self.auth.front_proxy(context) if aggregated else None
        authorized(app, self.auth, required_access, None if proxy is None else proxy.is_trusted)
        async with serving(field, address, app, context) as bound, asyncio.TaskGroup() as tasks:
            assert bound is not None, f"{field} listens nowhere"
            parts = [tasks.create_task(self._rotate(context), name=f"certificate of {field}")]
            if proxy is not None:
                parts.append(tasks.create_task(proxy.run(), name="front proxy"))
            yield bound
            for part in parts:
                part.cancel()

    async def _rotate(self, context: ssl.SSLContext) -> None:
        while True:
            await self.auth.clock.sleep_until(self.auth.clock.now() + RENEW_EVERY_S)
            load_certificate(context, self._certificate())

    def _certificate(self) -> KeyPair:
        """Return a certificate that clients must not verify, as in Kueue's manifests."""
        # Most processes need no certificate of their own, and the library takes 7 MB.
        from quorate.kube.serving.certificates import new_authority, new_server_certificate

        now = self.auth.clock.now()
        return new_server_certificate(new_authority("quorate", now), "quorate", _NAMES, now)

"""Endpoints with TLS and authorization, for addresses that other machines can reach.

A loopback address is served over plain HTTP without authorization: users of this machine can read the
kubeconfig as well.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import TlsOptions
from quorate.kube.serving.delegated_auth import Access, DelegatedAuth
from quorate.kube.serving.tls import KeyPair, load_certificate, server_context
from quorate.observe.authorization import authorized
from quorate.observe.limits import RENEW_EVERY_S
from quorate.observe.serving import serving

_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class HttpsEndpoints:
    """Serves the endpoints of one process."""

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

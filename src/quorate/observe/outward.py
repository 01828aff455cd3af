"""Pages that may be asked for from other machines: over TLS, and only by those who may.

An address of this machine only is answered in plain HTTP, whoever asks: whoever is here can read the
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
from quorate.kube.clock import Clock
from quorate.kube.serving.certificates import KeyPair, new_authority, new_server_certificate
from quorate.kube.serving.delegated_auth import Access, DelegatedAuth
from quorate.kube.serving.front_proxy import FrontProxyVerifier
from quorate.kube.serving.tls import server_context, show
from quorate.observe.guard import guarded
from quorate.observe.serving import serving

RENEW_EVERY_S: Final = 300 * 86400.0  # a certificate is good for a year
_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class Outward:
    """Serves pages of one process, as its configuration says."""

    def __init__(
        self,
        reviewer: DelegatedAuth,
        front_proxy: Callable[[ssl.SSLContext], FrontProxyVerifier],
        clock: Clock,
        rules: TlsOptions,
    ) -> None:
        self._reviewer = reviewer
        self._front_proxy = front_proxy
        self._clock = clock
        self._rules = rules

    @asynccontextmanager
    async def serving(
        self,
        field: str,
        address: Address | None,
        app: web.Application,
        needed: Callable[[web.Request], Access],
        *,
        aggregated: bool = False,
    ) -> AsyncIterator[None]:
        """Answer at ``address``, the value of ``field``, while the block lasts; nowhere if it is None.

        With ``aggregated`` the API server may ask on behalf of others.  Raises ``CannotListen``.
        """
        if address is None or address.is_loopback:
            async with serving(field, address, app):
                yield
        else:
            async with self.protected(field, address, app, needed, aggregated=aggregated):
                yield

    @asynccontextmanager
    async def protected(
        self,
        field: str,
        address: Address,
        app: web.Application,
        needed: Callable[[web.Request], Access],
        *,
        aggregated: bool = False,
    ) -> AsyncIterator[Address]:
        """The same, over TLS and for those who may, whatever the address; gives the one that was taken."""
        context = server_context(self._rules)
        show(context, self._certificate())
        proxy = self._front_proxy(context) if aggregated else None
        guarded(app, self._reviewer, needed, None if proxy is None else proxy.is_trusted)
        async with serving(field, address, app, context) as taken, asyncio.TaskGroup() as tasks:
            assert taken is not None, f"{field} listens nowhere"
            parts = [tasks.create_task(self._renew(context), name=f"certificate of {field}")]
            if proxy is not None:
                parts.append(tasks.create_task(proxy.run(), name="front proxy"))
            yield taken
            for part in parts:
                part.cancel()

    async def _renew(self, context: ssl.SSLContext) -> None:
        while True:
            await self._clock.sleep_until(self._clock.now() + RENEW_EVERY_S)
            show(context, self._certificate())

    def _certificate(self) -> KeyPair:
        """Known to nobody: clients must not verify it.  Kueue's manifests tell them so."""
        now = self._clock.now()
        return new_server_certificate(new_authority("quorate", now), "quorate", _NAMES, now)

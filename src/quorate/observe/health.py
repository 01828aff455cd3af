"""What a kubelet asks: does the process live, and is it ready.

It lives while its event loop answers at all.  It is ready once everything stored is known to it, whether it
decides or stands by, and webhooks are served if they are to be; losing the API server for a while changes
neither, as starting anew would not help.
"""

import asyncio
from collections.abc import Mapping

from aiohttp import web

from quorate.api.configuration.process import Health


def health_checks(
    health: Health, known: asyncio.Event, parts: Mapping[str, asyncio.Event]
) -> web.Application:
    """``known``: all that is stored.  ``parts``: what is to be served besides, each with when it is."""

    async def lives(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def is_ready(_: web.Request) -> web.Response:
        if not known.is_set():
            return web.Response(status=503, text="not all that is stored is known yet")
        missing = [name for name, works in parts.items() if not works.is_set()]
        if missing:
            return web.Response(status=503, text=f"{', '.join(missing)}: not served yet")
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get(f"/{health.liveness}", lives)
    app.router.add_get(f"/{health.readiness}", is_ready)
    return app

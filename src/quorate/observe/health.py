"""What a kubelet asks: does the process live, and is it ready.

It lives while its event loop answers at all.  It is ready once everything stored is known to it, whether it
decides or stands by; losing the API server for a while changes neither, as starting anew would not help.
"""

from aiohttp import web

from quorate.api.configuration_process import Health
from quorate.observe.replica import Replica


def health_checks(health: Health, replica: Replica) -> web.Application:
    async def lives(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def is_ready(_: web.Request) -> web.Response:
        if replica.ready.is_set():
            return web.Response(text="ok")
        return web.Response(status=503, text="not all that is stored is known yet")

    app = web.Application()
    app.router.add_get(f"/{health.liveness}", lives)
    app.router.add_get(f"/{health.readiness}", is_ready)
    return app

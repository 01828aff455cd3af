"""What Prometheus is answered."""

import asyncio
from collections.abc import Iterable

from aiohttp import web
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class _Read(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


async def page(request: web.Request, registry: Collector) -> web.Response:
    """All series of ``registry`` in the format that is asked for.

    They are read at once, since what they tell of goes on changing.  Writing them down, which takes as long
    again, is done beside the work of the process.
    """
    read = _Read(registry.collect())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    body = await asyncio.to_thread(encode, read)
    return web.Response(body=body, headers={"Content-Type": content_type})

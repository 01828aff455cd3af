"""The text exposition of metrics for Prometheus, and what the labels of metrics tell of requests.

The client library refuses some names of counters; see ``UntypedCounter``.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from quorate.kube.serving.delegated_auth import Access, PathAccess
from quorate.observe.families import Family

# An object that is gone, a conflict, and a server that is busy are part of an ordinary run.
_ORDINARY_CODES: Final = frozenset({404, 409, 429})


class UntypedCounter(Gauge):
    """A counter with a name that does not end in ``_total``, such as some of Volcano's.

    The library appends that suffix to every counter.  Such a counter is exposed without a type, which
    Prometheus accepts: ``rate`` needs none.
    """

    _type = "unknown"


def counter_of(
    family: Family, labels: tuple[str, ...], registry: CollectorRegistry
) -> Counter | UntypedCounter:
    """Return the counter of ``family`` under its exact name."""
    kind = Counter if family.name.endswith("_total") else UntypedCounter
    return kind(family.name, family.help, labels, registry=registry)


def metrics_application(
    registry: Collector, before_scrape: Callable[[], None] = lambda: None
) -> web.Application:
    """Return the application that serves ``registry`` at ``/metrics``."""

    async def scrape(request: web.Request) -> web.Response:
        before_scrape()
        return await _response(request, registry)

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    return app


def metrics_access(request: web.Request) -> Access:
    """Return the access that a client needs for ``request``."""
    return PathAccess("get", request.path)


async def _response(request: web.Request, registry: Collector) -> web.Response:
    """Encode all series of ``registry`` in the requested format.

    A family without series is left out, as by the client library of Go.  The series are collected at once,
    because the state that they describe changes.  Encoding, which takes as long again, runs in a thread.
    """
    collected = _Collected(registry.collect())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    body = await asyncio.to_thread(encode, collected)
    return web.Response(body=body, headers={"Content-Type": content_type})


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(family for family in families if family.samples)

    def collect(self) -> Iterable[Metric]:
        return self._families


def is_refused_write(verb: str, code: int) -> bool:
    """Return True if the API server refused a write, and would again.

    For example 403 for a missing right, or 422 for an object that a schema or an admission plugin refuses.
    """
    return verb not in ("GET", "WATCH") and 400 <= code < 500 and code not in _ORDINARY_CODES


def resource_of(path: str) -> str:
    """Return the plural of a request path, with its group (except core) and its subresource.

    ``/apis/batch/v1/namespaces/a/jobs/b/status`` is ``jobs.batch/status``.  Paths without a kind, such as the
    paths of discovery, are ``other``.
    """
    match path.removeprefix("/").split("/"):
        case ["api", _, *rest]:
            group = ""
        case ["apis", group, _, *rest]:
            pass
        case _:
            return "other"
    match rest:
        case ["namespaces", _, plural, *tail] if plural not in ("status", "finalize"):
            pass
        case [plural, *tail]:
            pass
        case _:
            return "other"
    subresource = f"/{tail[1]}" if len(tail) > 1 else ""
    return f"{plural}{'.' if group else ''}{group}{subresource}"

"""Who waits in a queue, in order, page by page; plainly under ``/visibility``, and as an aggregated API.

    GET /visibility/clusterqueues/NAME/pendingworkloads
    GET /visibility/namespaces/NAMESPACE/localqueues/NAME/pendingworkloads
    GET /apis/visibility.kueue.x-k8s.io/VERSION/..., the same

``limit`` and ``offset`` choose a page.  An answer is worked out anew each time, in the time it takes to
sort all who wait in the cluster queue.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from quorate.api import codec
from quorate.api.kueue import Workload
from quorate.api.kueue.visibility import (
    GROUP,
    VERSION,
    VERSIONS,
    PendingWorkload,
    PendingWorkloadsSummary,
    discovery,
)
from quorate.api.meta import Key, ObjectMeta, OwnerReference
from quorate.kube.serving.delegated_auth import Access, PathAccess, ResourceAccess
from quorate.observe.guard import refusal, status
from quorate.observe.replica import Replica
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.pending.queue import Entry
from quorate.queueing.state import State

PLAIN: Final = "/visibility"
DEFAULT_LIMIT: Final = 1000
MOST: Final = 100_000


class Page(msgspec.Struct, frozen=True):
    limit: int
    offset: int


def page(limit: int, offset: int) -> Page:
    """What was asked for, within bounds; a limit of 0 is none given."""
    return Page(min(MOST, DEFAULT_LIMIT if limit == 0 else max(0, limit)), max(0, offset))


def pending_in_cluster_queue(state: State, name: str, asked: Page) -> tuple[PendingWorkload, ...] | None:
    """Who waits in the queue, being tried or set aside, in its order; None if there is no such queue."""
    queue = state.ledger.cluster_queues.get(name)
    return None if queue is None else _cut_out(_places(queue), asked)


def pending_in_local_queue(state: State, key: Key, asked: Page) -> tuple[PendingWorkload, ...] | None:
    """Those of one local queue; nobody while it is stopped or its cluster queue is missing."""
    queue = state.ledger.local_queues.get(key)
    if queue is None or queue.object is None:
        return None
    cluster_queue = state.ledger.cluster_queues.get(queue.cluster_queue)
    if cluster_queue is None:
        return ()
    return _cut_out((place for place in _places(cluster_queue) if place.entry.local_queue == key), asked)


class _Place(NamedTuple):
    entry: Entry
    in_cluster_queue: int
    in_local_queue: int


def _places(queue: ClusterQueueState) -> Iterator[_Place]:
    before: Counter[Key] = Counter()  # by local queue, how many of it have come already
    for position, entry in enumerate(queue.pending.all_entries()):
        yield _Place(entry, position, before[entry.local_queue])
        before[entry.local_queue] += 1


def _cut_out(places: Iterator[_Place], asked: Page) -> tuple[PendingWorkload, ...]:
    return tuple(
        PendingWorkload(
            metadata=_identity(place.entry.workload),
            priority=place.entry.workload.spec.priority or 0,
            local_queue_name=place.entry.local_queue.name,
            position_in_cluster_queue=place.in_cluster_queue,
            position_in_local_queue=place.in_local_queue,
        )
        for place in islice(places, asked.offset, asked.offset + asked.limit)
    )


def _identity(workload: Workload) -> ObjectMeta:
    metadata = workload.metadata
    return ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        creation_timestamp=metadata.creation_timestamp,
        owner_references=tuple(
            OwnerReference(api_version=each.api_version, kind=each.kind, name=each.name, uid=each.uid)
            for each in metadata.owner_references
        ),
    )


def visibility(replica: Replica) -> web.Application:
    """Plainly, and in the paths of an aggregated API, for a kube-apiserver that passes requests on."""
    app = web.Application()

    def add(prefix: str, version: str) -> None:
        async def of_cluster_queue(request: web.Request) -> web.Response:
            name = request.match_info["name"]
            found = pending_in_cluster_queue(_state(replica), name, _asked(request))
            return _answer(version, "clusterqueues", name, found)

        async def of_local_queue(request: web.Request) -> web.Response:
            key = Key(request.match_info["namespace"], request.match_info["name"])
            found = pending_in_local_queue(_state(replica), key, _asked(request))
            return _answer(version, "localqueues", key.name, found)

        app.router.add_get(f"{prefix}/clusterqueues/{{name}}/pendingworkloads", of_cluster_queue)
        app.router.add_get(
            f"{prefix}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads", of_local_queue
        )

    add(PLAIN, VERSION)
    for version in VERSIONS:
        add(f"/apis/{GROUP}/{version}", version)
    for path, document in discovery().items():
        app.router.add_get(path, _constant(document))
    return app


def right_to_pending(request: web.Request) -> Access:
    """What a client must be allowed that asks for ``request``."""
    match = request.match_info
    if "name" not in match:
        return PathAccess("get", request.path)
    namespace = match.get("namespace", "")
    plural = "localqueues" if namespace else "clusterqueues"
    return ResourceAccess("get", GROUP, plural, "pendingworkloads", namespace, match["name"])


def _constant(document: Mapping[str, object]) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = codec.encode(document)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    return answer


def _state(replica: Replica) -> State:
    if replica.view is None:
        body = status(503, "ServiceUnavailable", "not all that is stored is known yet")
        raise web.HTTPServiceUnavailable(text=body.decode(), content_type="application/json")
    return replica.view.state


def _asked(request: web.Request) -> Page:
    return page(_number(request, "limit"), _number(request, "offset"))


def _number(request: web.Request, name: str) -> int:
    written = request.query.get(name, "0")
    try:
        return int(written)
    except ValueError:
        body = status(400, "BadRequest", f"{name}: {written!r} is not a whole number")
        raise web.HTTPBadRequest(text=body.decode(), content_type="application/json") from None


def _answer(version: str, plural: str, name: str, found: tuple[PendingWorkload, ...] | None) -> web.Response:
    if found is None:
        return refusal(404, "NotFound", f'{plural}.{GROUP} "{name}" not found')
    body = codec.encode(PendingWorkloadsSummary(api_version=f"{GROUP}/{version}", items=found))
    return web.Response(body=body, content_type="application/json")

"""Who waits in a queue, in order, page by page; plainly under ``/visibility``.

    GET /visibility/clusterqueues/NAME/pendingworkloads
    GET /visibility/namespaces/NAMESPACE/localqueues/NAME/pendingworkloads

``limit`` and ``offset`` choose a page.  An answer is worked out anew each time, in the time it takes to
sort all who wait in the cluster queue.
"""

from typing import Final

import msgspec
from aiohttp import web

from quorate.api import codec
from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta, OwnerReference
from quorate.api.visibility import GROUP, PendingWorkload, PendingWorkloadsSummary
from quorate.observe.replica import Replica
from quorate.queueing.state import State

DEFAULT_LIMIT: Final = 1000
MOST: Final = 100_000


class Page(msgspec.Struct, frozen=True):
    limit: int
    offset: int


def page(limit: int, offset: int) -> Page:
    """What was asked for, within bounds; a limit of 0 is none given."""
    return Page(min(MOST, DEFAULT_LIMIT if limit == 0 else max(0, limit)), max(0, offset))


def pending_in_cluster_queue(state: State, name: str) -> list[PendingWorkload] | None:
    """All who wait in the queue, being tried or set aside, in its order; None if there is no such queue."""
    queue = state.cluster_queues.get(name)
    if queue is None:
        return None
    pending = queue.pending
    entries = sorted((*pending.active(), *pending.inadmissible()), key=pending.rank)
    before: dict[Key, int] = {}  # by local queue, how many of it have come already
    result = []
    for position, entry in enumerate(entries):
        in_local_queue = before.get(entry.local_queue, 0)
        before[entry.local_queue] = in_local_queue + 1
        result.append(
            PendingWorkload(
                metadata=_identity(entry.workload),
                priority=entry.workload.spec.priority or 0,
                local_queue_name=entry.local_queue.name,
                position_in_cluster_queue=position,
                position_in_local_queue=in_local_queue,
            )
        )
    return result


def pending_in_local_queue(state: State, key: Key) -> list[PendingWorkload] | None:
    """Those of one local queue; nobody while it is stopped or its cluster queue is missing."""
    queue = state.local_queues.get(key)
    if queue is None or queue.object is None:
        return None
    everybody = pending_in_cluster_queue(state, queue.cluster_queue) or []
    return [each for each in everybody if _local_queue_of(each) == key]


def _local_queue_of(pending: PendingWorkload) -> Key:
    return Key(pending.metadata.namespace, pending.local_queue_name)


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
    async def of_cluster_queue(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return _answer(request, "clusterqueues", name, pending_in_cluster_queue(_state(replica), name))

    async def of_local_queue(request: web.Request) -> web.Response:
        key = Key(request.match_info["namespace"], request.match_info["name"])
        return _answer(request, "localqueues", key.name, pending_in_local_queue(_state(replica), key))

    app = web.Application()
    app.router.add_get("/visibility/clusterqueues/{name}/pendingworkloads", of_cluster_queue)
    app.router.add_get(
        "/visibility/namespaces/{namespace}/localqueues/{name}/pendingworkloads", of_local_queue
    )
    return app


def _state(replica: Replica) -> State:
    if replica.view is None:
        raise web.HTTPServiceUnavailable(text="not all that is stored is known yet")
    return replica.view.state


def _answer(
    request: web.Request, plural: str, name: str, found: list[PendingWorkload] | None
) -> web.Response:
    if found is None:
        raise web.HTTPNotFound(text=f'{plural}.{GROUP} "{name}" not found')
    asked = page(_number(request, "limit"), _number(request, "offset"))
    items = found[asked.offset : asked.offset + asked.limit]
    summary = PendingWorkloadsSummary(items=tuple(items))
    return web.Response(body=codec.encode(summary), content_type="application/json")


def _number(request: web.Request, name: str) -> int:
    written = request.query.get(name, "0")
    try:
        return int(written)
    except ValueError:
        raise web.HTTPBadRequest(text=f"{name}: {written!r} is not a whole number") from None

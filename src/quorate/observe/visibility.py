"""The visibility API: pending workloads of a queue in order, under ``/visibility`` and as an aggregated API.

    GET /visibility/clusterqueues/NAME/pendingworkloads
    GET /visibility/namespaces/NAMESPACE/localqueues/NAME/pendingworkloads
    GET /apis/visibility.kueue.x-k8s.io/VERSION/..., the same

``limit`` and ``offset`` select a page.  Each response is computed on request, in the time it takes to sort
the pending workloads of the cluster queue.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from quorate.api import codec, explanation_documents
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
from quorate.observe.authorization import refusal, status
from quorate.observe.explanations import Explainer, explanation_access
from quorate.observe.limits import DEFAULT_LIMIT, MAX_LIMIT
from quorate.observe.replica import Replica
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.pending.entry import Entry
from quorate.queueing.state import State

PLAIN: Final = "/visibility"


class Page(msgspec.Struct, frozen=True):
    limit: int
    offset: int


def page(limit: int, offset: int) -> Page:
    """Return the page within bounds; a limit of 0 means the default."""
    return Page(min(MAX_LIMIT, DEFAULT_LIMIT if limit == 0 else max(0, limit)), max(0, offset))


def pending_in_cluster_queue(state: State, name: str, page_: Page) -> tuple[PendingWorkload, ...] | None:
    """Return active and inadmissible workloads in queue order; None if the queue does not exist."""
    queue = state.ledger.cluster_queues.get(name)
    return None if queue is None else _select(_positions(queue), page_)


def pending_in_local_queue(state: State, key: Key, page_: Page) -> tuple[PendingWorkload, ...] | None:
    """Return the pending workloads of a local queue; none if it is stopped or lacks a cluster queue."""
    queue = state.ledger.local_queues.get(key)
    if queue is None or queue.object is None:
        return None
    cluster_queue = state.ledger.cluster_queues.get(queue.cluster_queue)
    if cluster_queue is None:
        return ()
    return _select(
        (position for position in _positions(cluster_queue) if position.entry.local_queue == key), page_
    )


class _Position(NamedTuple):
    entry: Entry
    in_cluster_queue: int
    in_local_queue: int

    @property
    def workload(self) -> Workload:
        return self.entry.workload


def _positions(queue: ClusterQueueState) -> Iterator[_Position]:
    before: Counter[Key] = Counter()  # by local queue, entries yielded so far
    for position, entry in enumerate(queue.pending.all_entries()):
        yield _Position(entry, position, before[entry.local_queue])
        before[entry.local_queue] += 1


def _select(positions: Iterator[_Position], page_: Page) -> tuple[PendingWorkload, ...]:
    return tuple(
        PendingWorkload(
            metadata=_identity(position.workload),
            priority=position.workload.spec.priority or 0,
            local_queue_name=position.entry.local_queue.name,
            position_in_cluster_queue=position.in_cluster_queue,
            position_in_local_queue=position.in_local_queue,
        )
        for position in islice(positions, page_.offset, page_.offset + page_.limit)
    )


def _identity(workload: Workload) -> ObjectMeta:
    metadata = workload.metadata
    return ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        creation_timestamp=metadata.creation_timestamp,
        owner_references=tuple(
            OwnerReference(api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid)
            for owner in metadata.owner_references
        ),
    )


def visibility(replica: Replica, explainer: Explainer | None = None) -> web.Application:
    """Return the application, with the paths of aggregated APIs for a forwarding kube-apiserver.

    Without an ``explainer`` it serves no explanations.
    """
    app = web.Application()

    def add(prefix: str, version: str) -> None:
        async def of_cluster_queue(request: web.Request) -> web.Response:
            name = request.match_info["name"]
            pending = pending_in_cluster_queue(_state(replica), name, _page_of(request))
            return _answer(version, "clusterqueues", name, pending)

        async def of_local_queue(request: web.Request) -> web.Response:
            key = Key(request.match_info["namespace"], request.match_info["name"])
            pending = pending_in_local_queue(_state(replica), key, _page_of(request))
            return _answer(version, "localqueues", key.name, pending)

        app.router.add_get(f"{prefix}/clusterqueues/{{name}}/pendingworkloads", of_cluster_queue)
        app.router.add_get(
            f"{prefix}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads", of_local_queue
        )

    add(PLAIN, VERSION)
    for version in VERSIONS:
        add(f"/apis/{GROUP}/{version}", version)
    documents = discovery()
    if explainer is not None:
        explainer.add_routes(app)
        documents["/apis"]["groups"].append(explanation_documents.API_GROUP)
        documents |= explanation_documents.discovery() | explanation_documents.open_api()
    for path, document in documents.items():
        app.router.add_get(path, _constant(document))
    return app


def visibility_access(request: web.Request) -> Access:
    """Return the access that a client needs for ``request``."""
    match = request.match_info
    if (access := explanation_access(request)) is not None:
        return access
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
        body = status(503, "ServiceUnavailable", "not synced with the API server yet")
        raise web.HTTPServiceUnavailable(text=body.decode(), content_type="application/json")
    return replica.view.state


def _page_of(request: web.Request) -> Page:
    return page(_number(request, "limit"), _number(request, "offset"))


def _number(request: web.Request, name: str) -> int:
    value = request.query.get(name, "0")
    try:
        return int(value)
    except ValueError:
        body = status(400, "BadRequest", f"{name}: {value!r} is not a whole number")
        raise web.HTTPBadRequest(text=body.decode(), content_type="application/json") from None


def _answer(
    version: str, plural: str, name: str, pending: tuple[PendingWorkload, ...] | None
) -> web.Response:
    if pending is None:
        return refusal(404, "NotFound", f'{plural}.{GROUP} "{name}" not found')
    body = codec.encode(PendingWorkloadsSummary(api_version=f"{GROUP}/{version}", items=pending))
    return web.Response(body=body, content_type="application/json")

"""Import the nodes, queues and classes of a real cluster into a local one."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from quorate.api.meta import Key
from quorate.inspect.configuration_files import InvalidFiles
from quorate.kube.client import Client
from quorate.kube.errors import ApiError
from quorate.kube.resources import NAMESPACES, Json, untyped
from quorate.local.nodes.fleet import NODES, OF_POOL, ORIGIN, Node, replacing
from quorate.processes.local.cluster_snapshot import ClusterSnapshot, SnapshotObject

_IMPORTED: Final = "imported"
_CONCURRENT: Final = 16
_NAMESPACE: Final = untyped("", "v1", "namespaces", "Namespace", False)


async def import_snapshot(client: Client, snapshot: ClusterSnapshot) -> Counter[str]:
    """Create or update the objects of a snapshot, and the namespaces they need; return how many, by kind.

    The server checks all of them before it stores the first.  Raises ``InvalidFiles`` with its refusals.
    """
    nodes = {node.metadata.name: node for node in (await client.list(NODES)).items}
    namespaces = {namespace.metadata.name for namespace in (await client.list(NAMESPACES)).items}
    if refusals := list(_nodes_of_pools(snapshot.objects, nodes)):
        raise InvalidFiles(refusals)
    objects = (*_missing_namespaces(snapshot.objects, namespaces), *snapshot.objects)

    async def check(obj: SnapshotObject) -> None:
        # An object of a namespace that does not exist yet is checked in another.
        is_elsewhere = obj.key.namespace and obj.key.namespace not in namespaces
        key = Key("default", obj.key.name) if is_elsewhere else obj.key
        await client.apply(obj.resource, key, _applied(obj), dry_run=True)

    async def store(obj: SnapshotObject) -> None:
        await client.apply(obj.resource, obj.key, _applied(obj))
        if obj.is_node:
            before = nodes.get(obj.key.name)
            amounts = obj.body["status"].get("allocatable") or obj.body["status"]["capacity"]
            replaced = replacing(() if before is None else before.status.capacity, amounts)
            status = {"capacity": replaced, "allocatable": replaced}
            await client.patch(NODES, obj.key, {"status": status}, subresource="status")

    await _for_all(check, objects)
    for _, group in groupby(objects, key=lambda obj: obj.resource.kind):
        await _for_all(store, tuple(group))
    return Counter(obj.resource.kind for obj in objects)


def _nodes_of_pools(objects: Iterable[SnapshotObject], nodes: Mapping[str, Node]) -> Iterator[str]:
    for obj in objects:
        if obj.is_node and obj.key.name in nodes:
            origin = nodes[obj.key.name].metadata.annotations.get(ORIGIN)
            if origin == OF_POOL:
                rule = "names a node in a pool of this cluster (start it with --nodes 0 or other pools)"
                yield f"{obj}: metadata.name: {obj.key.name!r} {rule}"


def _missing_namespaces(
    objects: Iterable[SnapshotObject], namespaces: Iterable[str]
) -> Iterator[SnapshotObject]:
    present = {*namespaces, *(obj.key.name for obj in objects if obj.resource.kind == "Namespace"), ""}
    for obj in objects:
        if obj.key.namespace not in present:
            present.add(obj.key.namespace)
            yield SnapshotObject(obj.where, _NAMESPACE, Key("", obj.key.namespace), {"metadata": {}})


def _applied(obj: SnapshotObject) -> Json:
    """Return what is applied of an object; the amounts of a node are in its status."""
    if not obj.is_node:
        return obj.body
    metadata = {**obj.body["metadata"], "annotations": {ORIGIN: _IMPORTED}}
    return {"metadata": metadata, "spec": obj.body.get("spec", {})}


async def _for_all(
    work: Callable[[SnapshotObject], Awaitable[None]], objects: Iterable[SnapshotObject]
) -> None:
    """Do the work for all objects, several at once.  Raises ``InvalidFiles`` with all refusals."""
    free = asyncio.Semaphore(_CONCURRENT)

    async def refusal_of(obj: SnapshotObject) -> str | None:
        async with free:
            try:
                await work(obj)
            except ApiError as error:
                return f"{obj}: {error.message}"
        return None

    refusals = await asyncio.gather(*map(refusal_of, objects))
    if any(refusals):
        raise InvalidFiles(filter(None, refusals))

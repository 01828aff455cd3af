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
from quorate.local.nodes.registration import NODES, OF_POOL, ORIGIN, Node, replacing
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

    async def check(each: SnapshotObject) -> None:
        # An object of a namespace that does not exist yet is checked in another.
        is_elsewhere = each.key.namespace and each.key.namespace not in namespaces
        key = Key("default", each.key.name) if is_elsewhere else each.key
        await client.apply(each.resource, key, _applied(each), dry_run=True)

    async def store(each: SnapshotObject) -> None:
        await client.apply(each.resource, each.key, _applied(each))
        if each.is_node:
            before = nodes.get(each.key.name)
            amounts = each.body["status"].get("allocatable") or each.body["status"]["capacity"]
            replaced = replacing(() if before is None else before.status.capacity, amounts)
            status = {"capacity": replaced, "allocatable": replaced}
            await client.patch(NODES, each.key, {"status": status}, subresource="status")

    await _for_all(check, objects)
    for _, group in groupby(objects, key=lambda each: each.resource.kind):
        await _for_all(store, tuple(group))
    return Counter(each.resource.kind for each in objects)


def _nodes_of_pools(objects: Iterable[SnapshotObject], nodes: Mapping[str, Node]) -> Iterator[str]:
    for each in objects:
        if each.is_node and each.key.name in nodes:
            origin = nodes[each.key.name].metadata.annotations.get(ORIGIN)
            if origin == OF_POOL:
                rule = "names a node in a pool of this cluster (start it with --nodes 0 or other pools)"
                yield f"{each}: metadata.name: {each.key.name!r} {rule}"


def _missing_namespaces(
    objects: Iterable[SnapshotObject], namespaces: Iterable[str]
) -> Iterator[SnapshotObject]:
    known = {*namespaces, *(each.key.name for each in objects if each.resource.kind == "Namespace"), ""}
    for each in objects:
        if each.key.namespace not in known:
            known.add(each.key.namespace)
            yield SnapshotObject(each.where, _NAMESPACE, Key("", each.key.namespace), {"metadata": {}})


def _applied(each: SnapshotObject) -> Json:
    """Return what is applied of an object; the amounts of a node are in its status."""
    if not each.is_node:
        return each.body
    metadata = {**each.body["metadata"], "annotations": {ORIGIN: _IMPORTED}}
    return {"metadata": metadata, "spec": each.body.get("spec", {})}


async def _for_all(
    work: Callable[[SnapshotObject], Awaitable[None]], objects: Iterable[SnapshotObject]
) -> None:
    """Do the work for all objects, several at once.  Raises ``InvalidFiles`` with all refusals."""
    free = asyncio.Semaphore(_CONCURRENT)

    async def refusal_of(each: SnapshotObject) -> str | None:
        async with free:
            try:
                await work(each)
            except ApiError as error:
                return f"{each}: {error.message}"
        return None

    refusals = await asyncio.gather(*map(refusal_of, objects))
    if any(refusals):
        raise InvalidFiles(filter(None, refusals))

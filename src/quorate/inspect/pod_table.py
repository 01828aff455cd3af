"""The pods of jobs as the table that the API server prints for kubectl."""

from typing import Any, Final

from quorate.api import codec
from quorate.api.meta import ObjectMeta, Struct, Uid
from quorate.inspect.connection import Connection
from quorate.inspect.job_names import OwnerResolver
from quorate.kube.resources import PODS

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Column(Struct):
    name: str
    priority: int = 0  # above 0: shown with ``-o wide`` only


class RowObject(Struct):
    metadata: ObjectMeta


class Row(Struct):
    cells: tuple[Any, ...]
    object: RowObject


class Table(Struct):
    column_definitions: tuple[Column, ...]
    rows: tuple[Row, ...] = ()


async def pod_table(connection: Connection) -> Table:
    """Return all pods of the namespace as the table that the server prints for kubectl."""
    path = PODS.path(connection.namespace)
    return codec.decode(Table, await connection.client.request("GET", path, headers={"Accept": _TABLE}))


async def descendants(connection: Connection, wanted: frozenset[Uid], pods: list[ObjectMeta]) -> set[Uid]:
    """Return the UIDs of the pods that the objects ``wanted`` own, through all levels of owner references."""
    owners = OwnerResolver(connection.client)
    for pod in pods:
        owners.add(pod)  # a pod may own other pods
    return {pod.uid for pod in pods if await owners.is_descendant(pod, wanted)}

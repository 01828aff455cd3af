"""What lists of workloads show: their status, positions in queues, and pods as kubectl prints them."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from quorate.api.kueue import Workload
from quorate.api.kueue.visibility import GROUP, VERSION, PendingWorkloadsSummary
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.inspect.connection import Connection
from quorate.kube.client import Client
from quorate.kube.errors import ApiError, NotFound
from quorate.kube.resources import PODS
from quorate.queueing import conditions as c


class Status(StrEnum):
    """The status of a workload, as kueuectl names it."""

    PENDING = "pending"
    QUOTA_RESERVED = "quotareserved"
    ADMITTED = "admitted"
    FINISHED = "finished"


def status_of(workload: Workload) -> Status:
    if c.is_finished(workload):
        return Status.FINISHED
    if c.is_admitted(workload):
        return Status.ADMITTED
    return Status.QUOTA_RESERVED if c.has_quota_reservation(workload) else Status.PENDING


_MAX_ITEMS: Final = "100000"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def queue_positions(client: Client, local_queues: Iterable[Key]) -> tuple[dict[Key, int], str]:
    """Return the position of each pending workload in its local queue, from 0, by the visibility API.

    Also return why the API server refused the positions, and an empty string if it does not serve them.
    """
    positions: dict[Key, int] = {}
    for queue in sorted(set(local_queues)):
        path = (
            f"/apis/{GROUP}/{VERSION}/namespaces/{queue.namespace}/localqueues/{queue.name}/pendingworkloads"
        )
        try:
            query = {"limit": _MAX_ITEMS}
            pending = await client.request_as(PendingWorkloadsSummary, "GET", path, query=query)
        except NotFound:
            continue
        except ApiError as error:
            return positions, error.refusal
        for workload in pending.items:
            positions[workload.metadata.key] = workload.position_in_local_queue
    return positions, ""


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
    return await connection.client.request_as(Table, "GET", path, headers={"Accept": _TABLE})

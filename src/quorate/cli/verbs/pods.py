"""``quorate workload pods``: the pods of a job, whatever made them."""

from typing import Any

from quorate.api import codec
from quorate.api.meta import ObjectMeta, Struct, Uid
from quorate.cli.verbs import options as o
from quorate.cli.verbs.job_names import Workloads, uids_of
from quorate.cli.verbs.owners import Owners
from quorate.cli.verbs.printing import print_documents, print_rows, wants_documents, whole
from quorate.kube.resources import PODS, metadata_of

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class _Column(Struct):
    name: str
    priority: int = 0  # more than 0: shown with ``-o wide`` only


class _Object(Struct):
    metadata: ObjectMeta


class _Row(Struct):
    cells: tuple[Any, ...]
    object: _Object


class _Table(Struct):
    column_definitions: tuple[_Column, ...]
    rows: tuple[_Row, ...] = ()


def pods(
    names: Workloads,
    namespace: o.Namespace = "",
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """List the pods of workloads or jobs, with the columns of kubectl get pods.

    Found by their owners, through whatever stands between: the jobs of a JobSet, the cluster of a RayJob.

    [b]Example:[/b] quorate workload pods job/train -o wide
    """

    async def show(connection: o.Connection) -> None:
        wanted = frozenset([uid for name in names for uid in await uids_of(connection, name)])
        if wants_documents(output):
            documents = (await connection.client.list(whole(PODS), connection.namespace)).items
            chosen = await _made_by(connection, wanted, [metadata_of(each) for each in documents])
            kept = [each for each in documents if each["metadata"]["uid"] in chosen]
            print_documents(PODS, kept, output)
            return
        table = await _table(connection)
        chosen = await _made_by(connection, wanted, [row.object.metadata for row in table.rows])
        shown = [
            place
            for place, column in enumerate(table.column_definitions)
            if output is o.Output.WIDE or column.priority == 0
        ]
        rows = [
            [str(row.cells[place]) for place in shown]
            for row in table.rows
            if row.object.metadata.uid in chosen
        ]
        if rows:
            print_rows([table.column_definitions[place].name.upper() for place in shown], rows)
        else:
            o.say_none_found(connection)

    o.at(o.ClusterOptions(kubeconfig, context, namespace), show)


async def _table(connection: o.Connection) -> _Table:
    """All pods of the namespace, as the server tells kubectl of them."""
    path = PODS.path(connection.namespace)
    return codec.decode(_Table, await connection.client.request("GET", path, headers={"Accept": _TABLE}))


async def _made_by(connection: o.Connection, wanted: frozenset[Uid], pods: list[ObjectMeta]) -> set[Uid]:
    owners = Owners(connection.client)
    for pod in pods:
        owners.know(pod)  # a pod may have made others
    return {pod.uid for pod in pods if await owners.leads_to(pod, wanted)}

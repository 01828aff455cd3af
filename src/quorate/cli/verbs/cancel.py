"""``quorate cancel``: delete jobs by the names that ``quorate submit`` printed."""

from contextlib import suppress
from typing import Annotated

import typer

from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs.writing import Results, identity
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.job_names import named_job
from quorate.kube.errors import NotFound


def cancel(
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB...",
            help="Names, or TYPE/NAME: train, job/train, rayjob/train.",
            autocompletion=completion.workloads,
        ),
    ],
    namespace: o.Namespace = "",
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Delete jobs, running or not, with their pods and workloads.

    It asks no question, as scancel.

    [b]Example:[/b] quorate cancel train
    """

    async def delete(connection: Connection) -> None:
        with Results(output) as results:
            for written in jobs:
                job = await named_job(connection, written)
                key, uid = job.metadata.key, job.metadata.uid
                with suppress(NotFound):  # another client was faster
                    await connection.client.delete(job.resource, key, uid=uid, propagation="Background")
                results.add(job.resource, identity(key, uid), "cancelled")

    with_cluster(ClusterOptions(kubeconfig, context, namespace), delete)

"""``quorate cancel``: delete jobs by the names that ``quorate submit`` printed."""

from contextlib import suppress
from typing import Annotated

import typer

from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_commands import in_namespace
from quorate.cli.verbs.writing import Results, identity
from quorate.inspect.connection import Connection
from quorate.inspect.job_names import named_job
from quorate.kube.errors import NotFound


@in_namespace
async def cancel(
    connection: Connection,
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB...",
            help="Names, or TYPE/NAME: train, job/train, rayjob/train.",
            autocompletion=completion.workloads,
        ),
    ],
    output: o.Format = o.Output.TABLE,
) -> None:
    """Delete jobs, running or not, with their pods and workloads.

    It asks no question, as scancel.

    [b]Example:[/b] quorate cancel train
    """
    with Results(output) as results:
        for written in jobs:
            job = await named_job(connection, written)
            key, uid = job.metadata.key, job.metadata.uid
            with suppress(NotFound):  # another client was faster
                await connection.client.delete(job.resource, key, uid=uid, propagation="Background")
            results.add(job.resource, identity(key, uid), "cancelled")

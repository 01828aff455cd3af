"""``quorate logs``: what the containers of a job have written."""

from collections.abc import Callable
from typing import Annotated

import typer

from quorate.api import codec
from quorate.cli.exit_codes import Exit
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_commands import in_namespace
from quorate.cli.verbs.waiting import until_answered
from quorate.inspect.awaited_conditions import ending
from quorate.inspect.connection import Connection
from quorate.inspect.job_logs import Line, follow_logs, show_logs
from quorate.inspect.job_names import NamedJob, named_job

Job = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="Its name, or TYPE/NAME: train, job/train, rayjob/train.",
        autocompletion=completion.workloads,
    ),
]  # fmt: skip


@in_namespace
async def logs(
    connection: Connection,
    job: Job,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new lines until the job ends.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="LINES", min=0, help="Only the last lines of each pod.")
    ] = None,
    output: o.LineFormat = "text",
) -> None:
    """Show the output of the pods of a job.

    If the job has several, each line follows the index of its pod.  With [b]--follow[/b] the exit code is
    that of the job: 0 if it succeeded, 1 if not. [b]-o json[/b] has the pod, the container and the text of
    each line.

    [b]Example:[/b] quorate logs train --follow
    """
    if follow and tail is not None:
        raise typer.BadParameter("excludes --follow, which shows all lines", param_hint="--tail")
    show_line = print_line if output == "text" else print_json_line
    named = await named_job(connection, job)
    if follow:
        if not await follow_job(connection, named, show_line):
            raise typer.Exit(Exit.FAILED)
    elif await show_logs(connection, frozenset((named.metadata.uid,)), show_line, tail) == 0:
        typer.echo(f"no container of {job} has started (quorate explain says why)", err=True)


async def follow_job(connection: Connection, job: NamedJob, show: Callable[[Line], object]) -> bool:
    """Show the output of the job until it ends; return True if it succeeded."""
    outcome: tuple[bool, str] | None = None

    async def has_ended() -> bool:
        nonlocal outcome
        outcome = await until_answered(lambda: outcome_of(connection, job))
        return outcome is not None

    await follow_logs(connection, frozenset((job.metadata.uid,)), has_ended, show)
    assert outcome is not None, "what was awaited"
    return outcome[0]


async def outcome_of(connection: Connection, job: NamedJob) -> tuple[bool, str] | None:
    """Return whether the job succeeded, and its message; None if it has not ended.

    A deleted job has not succeeded, also if a new job has its name.
    """
    document = await connection.client.find(job.resource, job.metadata.key)
    if document is None:
        return False, "it was deleted"
    if document["metadata"]["uid"] != job.metadata.uid:
        return False, "it was deleted"
    return ending(document)


def print_line(line: Line) -> None:
    typer.echo(f"[{line.source}] {line.text}" if line.source else line.text)


def print_json_line(line: Line) -> None:
    value = {"pod": line.pod, "container": line.container, "text": line.text}
    typer.echo(codec.encode(value).decode())

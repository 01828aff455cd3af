"""``quorate vcjob``: the commands of ``vcctl job`` for Volcano Jobs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from quorate.api.decoding.documents import InvalidYaml, read_documents
from quorate.api.meta import Key
from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.api.volcano.job import Job
from quorate.cli.lazy_commands import command_group
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs import printing as p
from quorate.cli.verbs.cluster_commands import in_namespace, in_namespaces
from quorate.cli.verbs.listing import list_objects, print_whole, with_explanation
from quorate.cli.verbs.writing import Results, create_document, delete_object, one_name, send_command
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.summaries import VolcanoJobStates, volcano_job_states
from quorate.kube.clock import WallClock
from quorate.kube.resources import VOLCANO_JOBS, Json

DEFAULT_RESOURCES: Final = "cpu=1000m,memory=100Mi"  # of each pod; as in vcctl

vcjob = command_group("Volcano Jobs, as with vcctl job: run, list, view, suspend, resume, delete.")

Name = Annotated[
    str, typer.Argument(metavar="[NAME]", help="The Volcano Job.", autocompletion=completion.volcano_jobs)
]
NameOption = Annotated[
    str,
    typer.Option("--name", "-N", metavar="NAME", help="As in vcctl.", autocompletion=completion.volcano_jobs),
]


@vcjob.command()
def run(
    name: Name = "",
    name_option: NameOption = "",
    image: Annotated[
        str, typer.Option("--image", "-i", metavar="IMAGE", help="The image of the container.")
    ] = "busybox",
    replicas: Annotated[int, typer.Option("--replicas", "-r", min=0, help="The number of pods.")] = 1,
    minimum: Annotated[
        int, typer.Option("--min", "-m", min=0, help="The number of pods that start together.")
    ] = 1,
    requests: Annotated[
        str, typer.Option("--requests", "-R", metavar="NAME=AMOUNT,...", help="What each pod requests.")
    ] = DEFAULT_RESOURCES,
    limits: Annotated[
        str, typer.Option("--limits", "-L", metavar="NAME=AMOUNT,...", help="The limits of each pod.")
    ] = DEFAULT_RESOURCES,
    scheduler: Annotated[
        str, typer.Option("--scheduler", "-S", metavar="NAME", help="The scheduler of the pods.")
    ] = "volcano",
    filename: Annotated[
        Path | None,
        typer.Option("--filename", "-f", metavar="FILE", help="Create the Volcano Job of this file."),
    ] = None,
    namespace: o.Namespace = "",
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Create a Volcano Job with one task, or that of a file.

    With [b]-f[/b], the options that describe a job have no effect.

    [b]Example:[/b] quorate vcjob run train --image trainer:1.0 --replicas 4 --min 4
    """
    if filename is not None:
        from quorate.inspect.configuration_files import read_text  # other verbs need no Configuration

        document = job_in(filename, read_text(filename))
    else:
        container: Json = {
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {
                "requests": _amounts("--requests", requests),
                "limits": _amounts("--limits", limits),
            },
        }
        document = one_task(one_name(name, name_option, "-N"), container, replicas, minimum, scheduler)
    metadata = document["metadata"]
    written = str(metadata.get("namespace", ""))
    if namespace and written and namespace != written:
        raise UsageError(f"-n {namespace}: {filename} has namespace {written} (drop one of the two)")

    async def write(connection: Connection) -> None:
        body = document | {"metadata": metadata | {"namespace": connection.namespace}}
        with Results(output, dry_run) as results:
            await create_document(connection, VOLCANO_JOBS, body, results)

    with_cluster(ClusterOptions(kubeconfig, context, namespace or written), write)


def job_in(path: Path, text: str) -> Json:
    """Return the only document in ``text``, a Volcano Job, without checking its spec.

    Raises ``InvalidFiles``.
    """
    from quorate.inspect.configuration_files import InvalidFiles

    try:
        documents = read_documents(text)
    except InvalidYaml as error:
        raise InvalidFiles([f"{path}:{error.line}: {error.problem}"]) from error
    value = documents[0].value if len(documents) == 1 else None
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        raise InvalidFiles([f"{path}:1: is not one Volcano Job (use kubectl create for several objects)"])
    type_ = (value.get("apiVersion"), value.get("kind"))
    if type_ != (VOLCANO_JOBS.api_version, VOLCANO_JOBS.kind):
        given = f"{type_[0]} {type_[1]}"
        raise InvalidFiles([f"{path}:1: {given} is no Volcano Job ({VOLCANO_JOBS.api_version} Job)"])
    return value


def one_task(name: str, container: Json, replicas: int, minimum: int, scheduler: str) -> Json:
    """Return a Volcano Job with one task of ``replicas`` pods with one container each."""
    template = {
        "metadata": {"name": name, "labels": {"job.volcano.sh": name}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": name} | container]},
    }
    spec = {
        "schedulerName": scheduler,
        "minAvailable": minimum,
        "tasks": [{"replicas": replicas, "template": template}],
    }
    return {"metadata": {"name": name}, "spec": spec}


def _amounts(option: str, written: str) -> dict[str, str]:
    amounts = {}
    for part in filter(None, written.split(",")):
        resource, _, amount = part.partition("=")
        try:
            parse_quantity(amount)
        except InvalidQuantity as error:
            raise UsageError(f"{option}: {part!r} is not NAME=AMOUNT, for example cpu=500m") from error
        amounts[resource] = amount
    return amounts


@vcjob.command("list")
@in_namespaces
async def list_(
    connection: Connection,
    queue: Annotated[str, typer.Option("--queue", "-q", metavar="NAME", help="Jobs of this queue.")] = "",
    scheduler: Annotated[
        str, typer.Option("--scheduler", "-S", metavar="NAME", help="Jobs of this scheduler.")
    ] = "",
    selector: Annotated[
        str, typer.Option("--selector", metavar="TEXT", help="Jobs with this text in their name.")
    ] = "",
    output: o.Format = o.Output.TABLE,
) -> None:
    """List Volcano Jobs with their phases, pod counts, state and the reason for it.

    [b]-o wide[/b] also shows the reason as a sentence, [b]-o json[/b] as [b]explanation[/b] of each job.

    [b]Example:[/b] quorate vcjob list --queue research
    """
    now = WallClock().now()

    def selected(job: Job) -> bool:
        return (
            (not queue or queue == job.spec.queue)
            and (not scheduler or scheduler == job.spec.scheduler_name)
            and selector in job.metadata.name
        )

    states, problem = await volcano_job_states(connection.client, connection.namespace)
    if problem:
        typer.echo(f"warning: {problem}", err=True)
    completed = with_explanation(Job, states.of_job)
    jobs = await list_objects(connection, VOLCANO_JOBS, output, is_listed=selected, completed=completed)
    ordered = sorted(jobs, key=lambda job: job.metadata.key)
    p.print_objects(_columns(now, states, namespaces=not connection.namespace), ordered, output)


def _columns(now: float, states: VolcanoJobStates, *, namespaces: bool) -> tuple[p.Column[Job], ...]:
    where: tuple[p.Column[Job], ...] = (p.Column("NAMESPACE", lambda job: job.metadata.namespace),)
    return (
        *(where if namespaces else ()),
        p.Column("NAME", lambda job: job.metadata.name),
        p.Column("QUEUE", lambda job: job.spec.queue),
        p.Column("PHASE", lambda job: job.phase or "Pending"),
        p.Column("REPLICAS", lambda job: str(sum(task.replicas for task in job.spec.tasks))),
        p.Column("MIN", lambda job: str(job.status.min_available)),
        p.Column("PENDING", lambda job: str(job.status.pending)),
        p.Column("RUNNING", lambda job: str(job.status.running)),
        p.Column("SUCCEEDED", lambda job: str(job.status.succeeded)),
        p.Column("FAILED", lambda job: str(job.status.failed)),
        p.Column("UNKNOWN", lambda job: str(job.status.unknown)),
        p.Column("RETRIES", lambda job: str(job.status.retry_count)),
        p.Column("AGE", lambda job: p.age(job.metadata.creation_timestamp, now)),
        p.Column("STATE", lambda job: states.of_job(job).state),
        p.Column("REASON", lambda job: states.of_job(job).code),
        p.Column("MESSAGE", lambda job: states.of_job(job).message, wide=True),
    )


@vcjob.command()
@in_namespace
async def view(
    connection: Connection, name: Name = "", name_option: NameOption = "", output: o.Format = o.Output.TABLE
) -> None:
    """Describe a Volcano Job: its phase and the reason, its tasks, and the phases it had.

    Why it is pending: [b]quorate podgroup explain vcjob/NAME[/b].

    [b]Example:[/b] quorate vcjob view train
    """
    wanted = one_name(name, name_option, "-N")
    now = WallClock().now()
    key = Key(connection.namespace, wanted)
    if p.is_structured(output):
        await print_whole(connection, [(VOLCANO_JOBS, key)], output)
    else:
        p.print_sections(job_sections(await connection.client.get(VOLCANO_JOBS, key), now))


def job_sections(job: Job, now: float) -> Sequence[p.Section]:
    """Return the description of a job as sections."""
    spec, status = job.spec, job.status
    counts = {
        "pending": status.pending, "running": status.running, "succeeded": status.succeeded,
        "failed": status.failed, "terminating": status.terminating, "unknown": status.unknown,
    }  # fmt: skip
    facts = p.Fields((
        ("Name", job.metadata.name),
        ("Namespace", job.metadata.namespace),
        ("Queue", spec.queue),
        ("Age", p.age(job.metadata.creation_timestamp, now)),
        ("Phase", status.state.phase or "Pending"),
        ("Reason", status.state.reason),
        ("Message", status.state.message),
        ("Min available", str(spec.min_available)),
        ("Pods", ", ".join(f"{count} {word}" for word, count in counts.items() if count)),
        ("Retries", f"{status.retry_count} of {spec.max_retry}"),
        ("Priority class", spec.priority_class_name),
        ("Plugins", ", ".join(sorted(spec.plugins))),
    ))  # fmt: skip
    tasks = tuple(
        (task.name, str(task.replicas), "" if task.min_available is None else str(task.min_available))
        for task in spec.tasks
    )
    history = tuple(
        (condition.status, p.age(condition.last_transition_time, now)) for condition in status.conditions
    )
    return (
        facts,
        p.TableSection("Tasks", ("NAME", "REPLICAS", "MIN AVAILABLE"), tasks),
        p.TableSection("Phases", ("PHASE", "AGE"), history),
    )


@vcjob.command()
@in_namespace
async def suspend(
    connection: Connection, name: Name = "", name_option: NameOption = "", output: o.Format = o.Output.TABLE
) -> None:
    """Suspend a Volcano Job: delete its pods that have not finished, until it is resumed.

    The job becomes Aborted. The command creates a Command with the action [b]AbortJob[/b], which the job
    controller executes.

    [b]Example:[/b] quorate vcjob suspend train
    """
    await _send(connection, one_name(name, name_option, "-N"), "AbortJob", "suspended", output)


@vcjob.command()
@in_namespace
async def resume(
    connection: Connection, name: Name = "", name_option: NameOption = "", output: o.Format = o.Output.TABLE
) -> None:
    """Resume a suspended Volcano Job; pods that succeeded do not run again.

    The command creates a Command with the action [b]ResumeJob[/b], which the job controller executes.

    [b]Example:[/b] quorate vcjob resume train
    """
    await _send(connection, one_name(name, name_option, "-N"), "ResumeJob", "resumed", output)


async def _send(connection: Connection, name: str, action: str, done: str, output: o.Output) -> None:
    key = Key(connection.namespace, name)
    with Results(output) as results:
        await send_command(connection, VOLCANO_JOBS, key, key.namespace, action, done, results)


@vcjob.command()
@in_namespace
async def delete(
    connection: Connection, name: Name = "", name_option: NameOption = "", output: o.Format = o.Output.TABLE
) -> None:
    """Delete a Volcano Job and its pods.

    [b]Example:[/b] quorate vcjob delete train
    """
    wanted = one_name(name, name_option, "-N")
    key = Key(connection.namespace, wanted)
    with Results(output) as results:
        await delete_object(connection, VOLCANO_JOBS, key, results)

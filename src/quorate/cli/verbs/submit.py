"""``quorate submit``: run a command, or a script with options in its comments, as a job."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml
from typer.core import TyperCommand

from quorate.api import codec
from quorate.cli.exit_codes import Exit
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs.explain.command import RELOAD_S
from quorate.cli.verbs.logs import follow_job, outcome_of, print_json_line, print_line
from quorate.cli.verbs.printing import qualified_name
from quorate.cli.verbs.waiting import until_answered
from quorate.inspect.configuration_files import read_text
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.targets import named_targets
from quorate.inspect.job_logs import Line
from quorate.inspect.job_names import NamedJob
from quorate.inspect.submitting import RESOURCES, check_objects, create_job, in_queue, new_name
from quorate.inspect.would_start import outlook_of
from quorate.kube.errors import NotFound, RequestFailed, Unreachable
from quorate.kube.resources import Json
from quorate.submission.objects import objects_of
from quorate.submission.request import (
    DEFAULT_IMAGE,
    InvalidRequest,
    JobRequest,
    parse_array,
    parse_memory,
    parse_time,
)
from quorate.submission.script import Script, read_script

POLL_S: Final = 1.0  # between two looks at the state of a job that is awaited


class WithScript(TyperCommand):
    """Reads the options in the comments of a script before those of the command line, which win."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # for the completion of the command line
            return super().parse_args(ctx, args)
        written, _, _ = self.make_parser(ctx).parse_args([*args])
        if written.get("file") and not written.get("help"):
            path = Path(written["file"])
            script = _read(path)
            ctx.obj = script
            for option in script.ignored:
                typer.echo(f"{path}: #SBATCH {option} has no meaning here: it is ignored", err=True)
            args = [*script.options, *args]
        return super().parse_args(ctx, args)


def _read(path: Path) -> Script:
    try:
        return read_script(path.name, read_text(path))
    except InvalidRequest as error:
        raise UsageError(str(error)) from error


_command = typer.Typer(rich_markup_mode="rich", add_completion=False)


@_command.command(cls=WithScript)
def _submit(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND...", help="The command, or arguments of the script."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Run this script. Its comments [b]#QUORATE[/b] and [b]#SBATCH[/b] hold options.",
        ),
    ] = None,
    queue: Annotated[
        str,
        typer.Option(
            "--queue",
            "-q",
            metavar="NAME",
            autocompletion=completion.local_queues,
            help="The local queue. Default: the only one of the namespace.",
        ),
    ] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The name of the job. Default: one that is new.")
    ] = "",
    image: Annotated[str, typer.Option(metavar="IMAGE", help="The image of the container.")] = DEFAULT_IMAGE,
    nodes: Annotated[
        int, typer.Option("--nodes", "-N", metavar="N", help="How many pods run the command together.")
    ] = 1,
    min_pods: Annotated[
        int | None, typer.Option(metavar="N", help="Start with fewer pods, at least so many.")
    ] = None,
    cpus: Annotated[str, typer.Option(metavar="N", help="Of each pod.")] = "1",
    mem: Annotated[str, typer.Option(metavar="AMOUNT", help="Of each pod: 16Gi, or 16G as in Slurm.")] = "",
    gpus: Annotated[int, typer.Option(metavar="N", min=0, help="Of each pod: nvidia.com/gpu.")] = 0,
    request: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=AMOUNT", help="Another resource of each pod; may be repeated."),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable; may be repeated.")
    ] = None,
    array: Annotated[
        str,
        typer.Option(
            metavar="FIRST-LAST[%N]",
            help="Run it once for each number, in the variable [b]ARRAY_TASK_ID[/b]; [b]%N[/b]: N at a time.",
        ),
    ] = "",
    time: Annotated[
        str, typer.Option(metavar="DURATION", help="Stop it so long after its start: 2h, 1-12:00:00.")
    ] = "",
    priority: Annotated[
        str,
        typer.Option(
            metavar="CLASS", help="A WorkloadPriorityClass; in a queue of pod groups, a PriorityClass."
        ),
    ] = "",
    retries: Annotated[int, typer.Option(metavar="N", min=0, help="How often failed pods run again.")] = 0,
    gang: Annotated[
        bool, typer.Option("--gang", help="A Volcano Job: its pods are made when all have room.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end; exit code 1 if it fails.")] = False,
    logs: Annotated[bool, typer.Option("--logs", help="Wait, and show the output of its pods.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Create nothing; say whether and when it would start.")
    ] = False,
    output: o.Format = o.Output.TABLE,
    namespace: o.Namespace = "",
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Run a command as a job in a queue, on one pod or on several that start together.

    Pods of one job find each other by [b]MASTER_ADDR[/b], [b]RANK[/b] and [b]WORLD_SIZE[/b], as in PyTorch.

    [b]Example:[/b] quorate submit -q training --gpus 8 --nodes 2 -- python train.py
    """
    script: Script | None = ctx.obj
    words = (*(() if script is None else script.command), *(command or ()))
    try:
        wanted = JobRequest(
            name=name or new_name(file.stem if file is not None else words[0] if words else ""),
            command=words,
            image=image,
            local_queue=queue,  # unless it is the name of a queue of pod groups
            pods=nodes,
            min_pods=min_pods,
            cpus=cpus,
            memory=parse_memory(mem),
            gpus=gpus,
            resources=_pairs("--request", request),
            environment=_pairs("--env", env),
            array=parse_array(array) if array else None,
            time_limit_s=parse_time(time) if time else None,
            priority_class=priority,
            retries=retries,
            gang=gang,
        )
        objects_of(wanted)  # what cannot be is refused before a cluster is asked
    except InvalidRequest as error:
        raise UsageError(str(error)) from error

    async def run(connection: Connection) -> bool:
        queued = await in_queue(connection, wanted)
        objects = objects_of(queued)
        if dry_run:
            return await _try(connection, queued, objects, output)
        job = await create_job(connection, objects)
        _show(objects, output, f"{qualified_name(job.resource, job.metadata.name)} created")
        if not (wait or logs):
            return True
        show_line = print_json_line if output is o.Output.JSON else print_line
        return await _follow(connection, job, show_line if logs else None)

    if not with_cluster(ClusterOptions(kubeconfig, context, namespace), run):
        raise typer.Exit(Exit.FAILED)


def _pairs(option: str, written: Sequence[str] | None) -> dict[str, str]:
    pairs = {}
    for text in written or ():
        name, has_value, value = text.partition("=")
        if not has_value:
            raise InvalidRequest(f"{option} {text}: has no value (write {option} {text}=VALUE)")
        pairs[name] = value
    return pairs


def _show(objects: Sequence[Json], output: o.Output, sentence: str) -> None:
    match output:
        case o.Output.YAML:
            typer.echo(yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True), nl=False)
        case o.Output.JSON:
            typer.echo(codec.encode({"apiVersion": "v1", "kind": "List", "items": objects}).decode())
        case o.Output.NAME:
            typer.echo(sentence.partition(" ")[0])
        case _:
            typer.echo(sentence)


async def _try(connection: Connection, wanted: JobRequest, objects: Sequence[Json], output: o.Output) -> bool:
    """Print the objects, and on standard error whether and when the job would start."""
    await check_objects(connection, objects)
    resource = RESOURCES[objects[0]["apiVersion"], objects[0]["kind"]]
    _show(objects, output, f"{qualified_name(resource, wanted.name)} (dry run)")
    outlook = await outlook_of(connection, None, objects[0])
    enough = (f"  {sentence}" for sentence in outlook.enough)
    for line in (outlook.message, *enough, outlook.planned, outlook.estimate):
        if line:
            typer.echo(line, err=True)
    return outlook.starts != "Never"


async def _follow(connection: Connection, job: NamedJob, show_line: Callable[[Line], object] | None) -> bool:
    """Print each change of the job's state, and show its output; return True if the job succeeded."""
    reporting = asyncio.create_task(_report(connection, job), name="state of the job")
    try:
        if show_line is not None:
            await follow_job(connection, job, show_line)
        while (outcome := await until_answered(lambda: outcome_of(connection, job))) is None:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
    finally:
        reporting.cancel()
        await asyncio.wait((reporting,))
    succeeded, message = outcome
    typer.echo(f"{'succeeded' if succeeded else 'failed'}{f': {message}' if message else ''}", err=True)
    return succeeded


async def _report(connection: Connection, job: NamedJob) -> None:
    """Print each change of the job's state on standard error, until cancelled."""
    last = ""
    while True:
        answers = Answers(connection, None)
        name = f"{job.resource.plural}.{job.resource.group}/{job.metadata.name}"
        try:
            explanations = [await answers.of(target) for target in await named_targets(connection, name)]
        except NotFound:
            return
        except Unreachable:
            await asyncio.sleep(RELOAD_S)  # the wait for the end of the job tells of it
            continue
        except (RequestFailed, UsageError) as error:
            typer.echo(f"its state is not shown: {error}", err=True)
            return
        text = "; ".join(explanation.message for explanation in explanations)
        if text != last:
            typer.echo(text, err=True)
        last = text
        await asyncio.sleep(RELOAD_S if answers.has_model else POLL_S)


submit = typer.main.get_command(_command)

"""``quorate demo``: the all-or-nothing example by quota alone, with ready pods, and with pod groups."""

import time
from collections.abc import Sequence
from importlib.resources import as_file, files
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quorate.api.batch import JOB_COMPLETION_INDEX
from quorate.api.configuration import default_configuration
from quorate.api.meta import epoch
from quorate.cli.local_option import DEFAULT_DASHBOARD_PORT
from quorate.cli.run.command import run_directory
from quorate.cli.run.follow import OnObserved, ignore
from quorate.cli.run.report import (
    Completed,
    Deadlocked,
    Outcome,
    first_submission,
    outcome_lines,
    outcome_value,
    print_outcome,
)
from quorate.cli.run.screen import open_console
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_value
from quorate.inspect.errors import UsageError
from quorate.inspect.formatting import format_duration, plural
from quorate.inspect.live_cluster import Objects, read_objects
from quorate.kube.client import Client
from quorate.kube.clock import Clock, WallClock
from quorate.kube.errors import RequestFailed
from quorate.kube.resources import PODS, WORKLOADS
from quorate.processes.local.cluster_description import ClusterDescription
from quorate.processes.local.observation import ObservedCluster, ObservedJob
from quorate.processes.local.pod_runtime import Runtime, RuntimeOptions, why_no_pod_networks
from quorate.queueing import conditions as c
from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.engine.records import NEVER
from quorate.simulate.estimates.forecast import StartTime, forecast
from quorate.simulate.estimates.snapshot import run_times, snapshot_world
from quorate.simulate.inputs.changes import changed
from quorate.simulate.inputs.world import read_world

_FEWEST_FINISHED = 2  # jobs with a known run time
_ASSUMED_S = 3600.0  # without any


class EstimateOfLast:
    """Forecasts the start of the last job that waits, once, with what is known of the others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made_at = 0.0  # epoch seconds
        self.job = ""
        self.start: StartTime | None = None  # None: not yet

    async def on_observed(self, client: Client, cluster: ObservedCluster) -> None:
        waiting = [job for job in cluster.jobs if not job.finished and not _is_admitted(job)]
        finished = sum(job.completed for job in cluster.jobs)
        if self.start is not None or len(waiting) != 1 or finished < _FEWEST_FINISHED:
            return
        objects: Objects = {resource: read_object async for resource, read_object in read_objects(client)}
        now = self._clock.now()
        times = run_times(objects[WORKLOADS], _ASSUMED_S)
        starts = forecast(snapshot_world(objects, times, now, default_configuration()))
        if len(starts) == 1:  # it may have been admitted meanwhile
            (self.start,), self.made_at, self.job = starts, now, waiting[0].name


def _is_admitted(job: ObservedJob) -> bool:
    return job.workload is not None and c.is_admitted(job.workload)


def estimate_value(estimate: EstimateOfLast, outcome: Outcome) -> dict[str, Any]:
    """Return the forecast and the start in seconds after the forecast, for JSON; None: no start."""
    began = next((record.admitted for record in outcome.records if record.name == estimate.job), None)
    return {
        "job": estimate.job,
        "startsP50Seconds": None if estimate.start is None else estimate.start.p50_s,
        "startsP90Seconds": None if estimate.start is None else estimate.start.p90_s,
        "startedSeconds": None if began is None else epoch(began) - estimate.made_at,
    }


def estimate_table(estimate: EstimateOfLast, outcome: Outcome) -> Table:
    """Return a table of the forecast and of the start, in seconds after the forecast."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("JOB", "STARTS (P50)", "STARTS (P90)", "DID START"):
        table.add_column(heading)
    start = estimate.start
    for record in outcome.records:
        if start is not None and record.name == estimate.job:
            began = None if record.admitted is None else epoch(record.admitted) - estimate.made_at
            table.add_row(record.name, *map(_after, (start.p50_s, start.p90_s, began)))
    return table


def _after(seconds: float | None) -> str:
    return "not" if seconds is None else f"after {format_duration(seconds)}"


EXAMPLE: Final = "examples/all-or-nothing"
ESTIMATE: Final = "examples/estimate"
# The timing of the Job controller decides how many pods each job gets.  If one job gets all its pods before
# the other starts, the demo says so and runs the example again, at most this often.
ATTEMPTS: Final = 3
_TIMEOUT_S: Final = 120.0


def demo(
    speed: Annotated[
        float, typer.Option(min=0.001, help="How many times faster than real time simulated pods run.")
    ] = 1.0,
    real: Annotated[
        bool | None,
        typer.Option(
            "--real/--simulated",
            help="Whether the pods of the second run are processes of this machine. "
            "Default: where that is permitted, and without --speed.",
        ),
    ] = None,
    output: o.ValueFormat = o.Output.TABLE,
) -> None:
    """Run two jobs into a deadlock, then the same jobs to completion in two ways.

    Two jobs need 20 running pods each; the nodes fit 26. The Job controller creates the pods of both jobs in
    growing batches, so that each job gets a part of the nodes. With waitForPodsReady the second job is
    admitted when the first is ready; with pod groups the pods of a job are scheduled together. At the end
    a forecast says when a job starts that waits for quota, and the simulator when the jobs would end with two
    more nodes. Where the kernel permits it, the pods of the second run are processes: Python servers that
    call each other by name. With [b]-o json[/b] all of this goes to standard error.

    [b]Example:[/b] quorate demo
    """
    console = open_console(to_stderr=is_structured(output))
    began = time.monotonic()
    runtime = _runtime(console, real, speed)
    _heading(console, "1. Quota alone: both jobs are admitted at once")
    without = _until_deadlock(console, speed)
    _heading(console, "2. waitForPodsReady: a job is admitted when the pods of the previous job are ready")
    ready = _run_with_pods_ready(console, speed, runtime)
    _heading(console, "3. Pod groups: quota alone again, but each job's pods get nodes together or wait")
    grouped = _run(console, "without-pods-ready.yaml", speed, scheduler_name="quorate")
    _heading(console, "What happened")
    console.print(comparison(without, ready, grouped))
    console.print()
    console.print(lesson(without, ready, grouped), markup=False, highlight=False)
    _heading(console, "When does a job start? Four jobs, and quota for one at a time")
    estimate, queued = run_estimate(console, speed)
    console.print()
    console.print(estimate_table(estimate, queued))
    console.print("quorate queue forecast answers this for what waits in your queues.", highlight=False)
    _heading(console, "What if there were two more nodes? The same jobs in the simulator")
    ends = what_if()
    console.print(what_if_table(ends))
    console.print(
        "quorate simulate answers this for your queues: quorate snapshot writes them to a file.",
        highlight=False,
    )
    console.print(
        "quorate local up --dashboard shows queues, jobs and nodes in a browser, at "
        f"http://127.0.0.1:{DEFAULT_DASHBOARD_PORT}: it prints a link that logs in.",
        highlight=False,
    )
    console.print(f"{time.monotonic() - began:.0f}s in all", style="dim", highlight=False)
    is_documented = as_documented(without, ready, grouped)
    if is_structured(output):
        runs = {"quotaAlone": without, "waitForPodsReady": ready, "podGroups": grouped}
        value = {
            "runs": {name: outcome_value(outcome) for name, outcome in runs.items()},
            "forecast": estimate_value(estimate, queued),
            "withMoreNodes": [
                {"job": job, "endsSeconds": as_it_is, "endsWithTwoMoreNodesSeconds": more}
                for job, as_it_is, more in ends
            ],
            "asDocumented": is_documented,
        }
        print_value(value, output)
    if not is_documented:
        raise typer.Exit(1)


def _runtime(console: Console, real: bool | None, speed: float) -> Runtime:
    """Return how the pods of the second run are run.  Raises ``UsageError`` if they cannot be as asked."""
    if real is False or (real is None and speed != 1):
        return Runtime.SIMULATED
    reason = why_no_pod_networks()
    if reason and real:
        raise UsageError(f"--real: {reason}")
    if reason:
        console.print(f"all pods are simulated: {reason}", markup=False, highlight=False)
        return Runtime.SIMULATED
    return Runtime.PROCESS


def _run_with_pods_ready(console: Console, speed: float, runtime: Runtime) -> Outcome:
    if runtime is Runtime.SIMULATED:
        return _run(console, "with-pods-ready.yaml", speed)
    console.print("The pods are processes of this machine now, and call each other by name.", highlight=False)
    logs = FirstWorkerLogs()
    options = RuntimeOptions(runtime)
    outcome = _run_example(
        console, EXAMPLE, "with-pods-ready.yaml", speed, on_observed=logs.read, runtime=options
    )
    for pod, line in logs.lines:
        console.print(f"{pod}: {line}", markup=False, highlight=False)
    return outcome


class FirstWorkerLogs:
    """The lines about all workers in the logs of the first worker of each job."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []  # the pod and the line, in order of appearance

    async def read(self, client: Client, cluster: ObservedCluster) -> None:
        for pod in cluster.pods:
            name = pod.metadata.name
            if pod.metadata.annotations.get(JOB_COMPLETION_INDEX) != "0" or pod.status.phase == "Pending":
                continue
            try:
                log = await client.request("GET", PODS.path(pod.metadata.namespace, name, "log"))
            except RequestFailed:
                continue  # it has just ended, or is about to start
            for line in log.decode(errors="replace").splitlines():
                if "All workers" in line and (name, line) not in self.lines:
                    self.lines.append((name, line))


def as_documented(without: Outcome, ready: Outcome, grouped: Outcome) -> bool:
    """Return True if the runs end as documented: a deadlock, then every job complete twice."""
    return is_deadlock(without) and all(isinstance(outcome.ending, Completed) for outcome in (ready, grouped))


def is_deadlock(outcome: Outcome) -> bool:
    return isinstance(outcome.ending, Deadlocked) and outcome.ending.no_progress.is_deadlock


def comparison(without: Outcome, ready: Outcome, grouped: Outcome) -> Table:
    """Return a table of how each job ended in each run."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("JOB", "QUOTA ALONE", "WAIT FOR PODS READY", "POD GROUPS"):
        table.add_column(heading)
    for record in without.records:
        table.add_row(record.name, *(_result_text(record.name, run) for run in (without, ready, grouped)))
    return table


def _result_text(name: str, outcome: Outcome) -> Text:
    record = next(record for record in outcome.records if record.name == name)
    if record.result == "completed" and record.finished is not None:
        after_s = epoch(record.finished) - first_submission(outcome.records)
        return Text(f"completed after {format_duration(after_s)}", "green")
    blocked = outcome.ending.no_progress.jobs if isinstance(outcome.ending, Deadlocked) else ()
    for job in blocked:
        if job.name == name:
            return Text(f"stuck with {job.running} of {plural(job.wanted, 'pod')}", "red")
    return Text(record.result, "red")


def lesson(without: Outcome, ready: Outcome, grouped: Outcome) -> str:
    """Return the explanation of the runs, or what differed from the documented result."""
    if not is_deadlock(without):
        return f"this time quota alone did not end in a deadlock, in {ATTEMPTS} runs; run the demo again"
    for configured, outcome in (("waitForPodsReady", ready), ("pod groups", grouped)):
        if not isinstance(outcome.ending, Completed):
            return "\n".join((f"with {configured} every job should complete:", *outcome_lines(outcome)))
    return (
        "Quota limits what a queue may use; it does not know whether the pods fit the nodes: with quota "
        "alone each job holds nodes that the other needs. With waitForPodsReady and blockAdmission a job is "
        "admitted when the pods of earlier jobs are ready, so that one job always has everything it needs. "
        "With pod groups both are admitted, but the gang scheduler gives a job nodes for all of its pods or "
        "for none, and its pods are created only when they fit: no job waits for another to get ready."
    )


def _until_deadlock(console: Console, speed: float) -> Outcome:
    for attempt in range(1, ATTEMPTS + 1):
        outcome = _run(console, "without-pods-ready.yaml", speed)
        if is_deadlock(outcome):
            break
        console.print(f"no deadlock this time (run {attempt} of at most {ATTEMPTS})", highlight=False)
    return outcome


def run_estimate(console: Console, speed: float) -> tuple[EstimateOfLast, Outcome]:
    """Run jobs one after the other, and forecast the start of the last one while it waits."""
    estimate = EstimateOfLast(WallClock())
    outcome = _run_example(console, ESTIMATE, None, speed, on_observed=estimate.on_observed)
    return estimate, outcome


def _run(console: Console, config: str, speed: float, scheduler_name: str = "") -> Outcome:
    return _run_example(console, EXAMPLE, config, speed, scheduler_name)


def _run_example(
    console: Console,
    example: str,
    config: str | None,
    speed: float,
    scheduler_name: str = "",
    on_observed: OnObserved = ignore,
    runtime: RuntimeOptions = RuntimeOptions(),  # noqa: B008  it is frozen
) -> Outcome:
    with as_file(files("quorate") / example) as directory:
        file = None if config is None else directory / config
        nodes = ClusterDescription()
        outcome = run_directory(
            directory, file, nodes, speed, _TIMEOUT_S, console, scheduler_name, on_observed, runtime
        )
    print_outcome(console, outcome)
    return outcome


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(text, style="bold", highlight=False)


EXAMPLES: Final = "examples/simulate"
WORLD: Final = "all-or-nothing.yaml"
CHANGE: Final = "two-more-nodes.yaml"


class JobEnds(NamedTuple):
    """When a job of the demo ends, seconds after the start; None: never."""

    job: str
    as_it_is: float | None
    with_two_more_nodes: float | None


def what_if() -> tuple[JobEnds, ...]:
    """Play the jobs of the demo with its nodes and with two more."""
    with as_file(files("quorate") / EXAMPLES) as directory:
        world = read_world(directory / WORLD)
        before = _ends(play(world))
        after = _ends(play(changed(world, directory / CHANGE)))
    return tuple(JobEnds(name, end_s, after[name]) for name, end_s in before.items())


def what_if_table(ends: Sequence[JobEnds]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("JOB", "AS IT IS", "WITH TWO MORE NODES"):
        table.add_column(heading)
    for of_job in ends:
        moments = (of_job.as_it_is, of_job.with_two_more_nodes)
        texts = (
            "does not end" if end_s is None else f"ends after {format_duration(end_s)}" for end_s in moments
        )
        table.add_row(of_job.job, *texts)
    return table


def _ends(run: Run) -> dict[str, float | None]:
    """Return by class when its job ends, seconds; None: never."""
    jobs = run.jobs
    return {
        run.world.classes[jobs.class_index[at]].name: (
            None if jobs.ended_ms[at] == NEVER else float(jobs.ended_ms[at]) / 1000
        )
        for at in range(len(jobs))
    }

"""``quorate queue forecast``: when the workloads that wait would start."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from quorate.api.explanation import FEWEST_RUNS, NO_START, Confidence, ExplanationSummary, StartEstimate
from quorate.api.kueue import Workload
from quorate.api.meta import Key, at_epoch
from quorate.api.suggestions import suggestion
from quorate.cli.configuration_options import Config
from quorate.cli.simulate.run_times import Runs, progress_bar, report_origins
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_rows, print_value
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.served import NotServed, served_estimates, served_summaries
from quorate.inspect.explain.summaries import summaries
from quorate.inspect.explain.targets import LOCAL_QUEUE_NAMES
from quorate.inspect.formatting import format_duration
from quorate.inspect.live_cluster import LiveCluster, MissingPermission, read_cluster
from quorate.kube.clock import WallClock
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from quorate.queueing.planning.announced_starts import stored_announcement
from quorate.queueing.planning.work_kinds import kind_of
from quorate.simulate.estimates import forecast as forecasts
from quorate.simulate.estimates.forecast import StartTime, confidence_of
from quorate.simulate.estimates.run_time_store import learned_from
from quorate.simulate.estimates.snapshot import snapshot_world, with_expected
from quorate.simulate.limits import PLAYS

Queue = Annotated[
    str,
    typer.Argument(
        metavar="[[cq/|lq/]NAME]",
        help="A cluster queue, or with the prefix [b]lq/[/b] a local queue. Default: all queues.",
        autocompletion=completion.queues,
    ),
]
Plays = Annotated[
    int,
    typer.Option(
        "--plays", min=1, max=1000, help="How many times to play the queues; more take longer and steady P90."
    ),
]

_STEPS_S: Final = (60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 86400.0)
_MOST_STEPS: Final = 8
_TITLES: Final = (
    "NAMESPACE", "WORKLOAD", "QUEUE", "STARTS P50", "P90", "RUNS", "CONFIDENCE", "STATE", "REASON",
)  # fmt: skip


class Start(msgspec.Struct, frozen=True, rename="camel"):
    """When one waiting workload starts; a moment is None if it starts in fewer of the runs."""

    namespace: str
    name: str
    queue: str
    p50: datetime | None
    p90: datetime | None  # None with too few runs as well
    runs: int
    confidence: Confidence
    state: str  # of its explanation, with the code of its reason; empty if it is not known
    code: str
    planned: datetime | None = None  # when it starts at the latest; None: not planned, or not known

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """The output in JSON."""

    at: datetime  # the moment of the cluster that was played
    workloads: tuple[Start, ...]


def forecast(
    queue: Queue = "",
    namespace: o.Namespace = "",
    plays: Plays = PLAYS,
    runs: Runs = "1h",
    output: o.ValueFormat = o.Output.TABLE,
    config: Config = None,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Show when the workloads that wait in a queue start, and what of it in the next hours.

    It plays the queues and workloads of the cluster many times, with run times that finished workloads of the
    same kind or queue had, and with further submissions as often as the recent ones. Half of the runs start a
    workload within P50, nine of ten within P90. [b]never[/b] is said of a workload that starts only after a
    change, [b]held[/b] of one that is kept out of its queue. Without the permission to read the cluster it
    shows the estimates that the controllers serve of the namespace.

    [b]Example:[/b] quorate queue forecast lq/training
    """
    cluster = ClusterOptions(kubeconfig, context, namespace)
    try:
        live = read_cluster(cluster, config, runs)
    except MissingPermission as refused:
        answer = _of_tenant(cluster, queue, refused)
    else:
        answer = _played(cluster, live, queue, plays)
    if is_structured(output):
        print_value(answer, output)
    elif answer.workloads:
        now = at_epoch(WallClock().now())
        print_rows(("WITHIN", "STARTED P50", "STARTED P90", "WAITING P50"), list(_hours(answer, now)))
        typer.echo()
        print_rows(*_table(answer.workloads, now))
    else:
        typer.echo("no workload waits", err=True)


def _played(cluster: ClusterOptions, live: LiveCluster, queue: str, plays: int) -> Answer:
    """Return the forecast of a cluster that the user may read."""
    chosen = _local_queues(live, queue)
    world = snapshot_world(live.objects, live.times, live.now, live.effective.configuration)
    world = with_expected(world, live.expected)
    with progress_bar("playing", plays) as show:
        played = forecasts.forecast(world, plays, show)
    shown = [start for start in played if chosen is None or Key(start.namespace, start.queue) in chosen]
    workloads = {workload.metadata.key: workload for workload in live.objects[WORKLOADS]}
    store = learned_from(workloads.values())
    states = with_cluster(cluster, _states) if shown else {}

    def row(start: StartTime) -> Start:
        kind = kind_of(workloads[start.key])
        best = store.best_kind(kind)
        samples = 0 if best is None else len(store.times_of(best))
        state, code = _state_of(states.get(start.key))
        starts = state not in NO_START
        return Start(
            start.namespace,
            start.name,
            start.queue,
            _moment(live.now, start.p50_s) if starts else None,
            _moment(live.now, start.p90_s) if starts and plays >= FEWEST_RUNS else None,
            start.plays,
            confidence_of(start.plays, samples, is_own_kind=best == kind),
            state,
            code,
            _planned_at(workloads[start.key]),
        )

    report_origins(live.times)
    return Answer(at_epoch(live.now), tuple(map(row, shown)))


async def _states(connection: Connection) -> Mapping[Key, ExplanationSummary]:
    answer = await summaries(connection.client, "Workload", "")
    if answer.problem:
        typer.echo(f"warning: {answer.problem}", err=True)
    return answer.by_key


def _state_of(summary: ExplanationSummary | None) -> tuple[str, str]:
    return ("", "") if summary is None else (summary.state, summary.code)


def _of_tenant(cluster: ClusterOptions, queue: str, refused: MissingPermission) -> Answer:
    """Return the estimates that the controllers serve of a namespace.  Raises ``refused`` without any."""
    kind, _, name = queue.rpartition("/")
    if name and kind not in LOCAL_QUEUE_NAMES:
        raise refused

    async def read(connection: Connection) -> Answer:
        client, namespace = connection.client, connection.namespace
        queues = [estimate.metadata.name for estimate in (await client.list(LOCAL_QUEUES, namespace)).items]
        if name and name not in queues:
            raise UsageError(f"LocalQueue {namespace}/{name} does not exist{suggestion(name, queues)}")
        estimates = await served_estimates(client, namespace)
        try:
            served = await served_summaries(client, WORKLOADS.kind, namespace)
        except NotServed:
            raise refused from None
        starts = []
        for workload in (await client.list(WORKLOADS, namespace)).items:
            key, estimate = workload.metadata.key, estimates.get(workload.metadata.key)
            state, code = _state_of(served.get(key))
            if name not in ("", workload.spec.queue_name) or not (estimate or state in NO_START):
                continue
            if estimate is None or state in NO_START:
                estimate = StartEstimate(computed_at=at_epoch(WallClock().now()))
            times = estimate.p50, estimate.p90, estimate.runs, estimate.confidence
            planned = _planned_at(workload)
            starts.append(Start(namespace, key.name, workload.spec.queue_name, *times, state, code, planned))
        at = max(
            (estimate.computed_at for estimate in estimates.values()), default=at_epoch(WallClock().now())
        )
        typer.echo("estimated by the controllers", err=True)
        return Answer(at, tuple(sorted(starts, key=_order)))

    return with_cluster(cluster, read)


def _order(start: Start) -> tuple[bool, datetime, Key]:
    return start.p50 is None, start.p50 or datetime.max.replace(tzinfo=UTC), start.key


def _moment(now: float, seconds: float | None) -> datetime | None:
    return None if seconds is None else at_epoch(now + seconds)


def _local_queues(live: LiveCluster, written: str) -> frozenset[Key] | None:
    """Return the local queues that ``[cq/|lq/]NAME`` means; None: all.  Raises ``UsageError``."""
    if not written:
        return None
    kind, _, name = written.rpartition("/")
    queues = live.objects[LOCAL_QUEUES]
    if kind in LOCAL_QUEUE_NAMES:
        key = Key(live.namespace, name)
        if all(local_queue.metadata.key != key for local_queue in queues):
            names = [queue.metadata.name for queue in queues if queue.metadata.namespace == live.namespace]
            hint = suggestion(name, names) or " (name its namespace with -n)"
            raise UsageError(f"LocalQueue {key} does not exist{hint}")
        return frozenset((key,))
    if kind not in ("", "cq", "clusterqueue", "clusterqueues"):
        raise UsageError(f"{written}: is no queue (write NAME, cq/NAME or lq/NAME)")
    cluster_queues = [queue.metadata.name for queue in live.objects[CLUSTER_QUEUES]]
    if name not in cluster_queues:
        hint = suggestion(name, cluster_queues) or f" (write lq/{name} for a local queue)"
        raise UsageError(f"ClusterQueue {name} does not exist{hint}")
    return frozenset(
        local_queue.metadata.key for local_queue in queues if local_queue.spec.cluster_queue == name
    )


def _hours(answer: Answer, now: datetime) -> Iterator[tuple[str, ...]]:
    """Yield for equal steps of time how many have started in half and in nine of ten runs."""
    p50 = [(start.p50 - now).total_seconds() for start in answer.workloads if start.p50 is not None]
    p90 = [(start.p90 - now).total_seconds() for start in answer.workloads if start.p90 is not None]
    last_s = max((*p50, *p90), default=0.0)
    step_s = next((step for step in _STEPS_S if last_s <= step * _MOST_STEPS), _STEPS_S[-1])
    for number in range(1, min(_MOST_STEPS, int(last_s // step_s) + 1) + 1):
        until_s = number * step_s
        half = sum(seconds <= until_s for seconds in p50)
        most = sum(seconds <= until_s for seconds in p90)
        yield format_duration(until_s), str(half), str(most), str(len(answer.workloads) - half)


def _table(starts: Sequence[Start], now: datetime) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the titles and rows of the workloads; planned starts only if there are any."""
    rows = [_cells(start, now) for start in starts]
    if all(start.planned is None for start in starts):
        return _TITLES, rows
    planned = [_planned(start, now) for start in starts]
    return (*_TITLES, "PLANNED"), [(*row, text) for row, text in zip(rows, planned, strict=True)]


def _planned(start: Start, now: datetime) -> str:
    if start.planned is None:
        return ""
    return f"in {format_duration((start.planned - now).total_seconds())} at the latest"


def _planned_at(workload: Workload) -> datetime | None:
    """Return when the workload starts at the latest; None if that is not planned, or not known."""
    announced = stored_announcement(workload)
    return None if announced is None or math.isinf(announced.at) else at_epoch(announced.at)


def _cells(start: Start, now: datetime) -> tuple[str, ...]:
    workload = start.namespace, start.name, start.queue
    if start.state in NO_START:
        return *workload, NO_START[start.state], NO_START[start.state], "", "", start.state, start.code
    rough = "about " if start.runs < FEWEST_RUNS and start.p50 is not None else ""
    p50, p90 = (
        "later" if moment is None else f"in {rough}{format_duration((moment - now).total_seconds())}"
        for moment in (start.p50, start.p90)
    )
    if rough:
        p90 = ""
    return *workload, p50, p90, str(start.runs), start.confidence, start.state, start.code

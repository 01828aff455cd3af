"""``quorate queue forecast``: when the workloads that wait would start."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
import typer

from quorate.api.explanation import NO_START, ExplanationSummary
from quorate.api.meta import Key, at_epoch
from quorate.cli.configuration_options import Config
from quorate.cli.simulate.run_times import Runs, progress_bar, report_origins
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_rows, print_value
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.summaries import summaries
from quorate.inspect.formatting import format_duration
from quorate.inspect.live_cluster import LiveCluster, read_cluster
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from quorate.simulate.estimates import forecast as forecasts
from quorate.simulate.estimates.forecast import StartTime
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


class Explained(StartTime, frozen=True, rename="camel"):
    """When a workload starts, with its state and the code of the reason for it."""

    state: str
    code: str


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """The output in JSON; times of ``workloads`` are seconds after ``at``."""

    at: datetime
    workloads: tuple[Explained, ...]


def forecast(
    queue: Queue = "",
    namespace: o.Namespace = "",
    plays: Plays = PLAYS,
    runs: Runs = "1h",
    output: o.Format = o.Output.TABLE,
    config: Config = None,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Show when the workloads that wait in a queue start, and what of it in the next hours.

    It plays the queues and workloads of the cluster many times, with run times that finished workloads of the
    same kind or queue had, and with further submissions as often as the recent ones. Half of the runs start a
    workload within P50, nine of ten within P90. [b]never[/b] is said of a workload that starts only after a
    change, [b]held[/b] of one that is kept out of its queue.

    [b]Example:[/b] quorate queue forecast lq/training
    """
    cluster = ClusterOptions(kubeconfig, context, namespace)
    live = read_cluster(cluster, config, runs)
    chosen = _local_queues(live, queue)
    world = snapshot_world(live.objects, live.times, live.now, live.effective.configuration)
    world = with_expected(world, live.expected)
    with progress_bar("playing", plays) as show:
        starts = forecasts.forecast(world, plays, show)
    shown = [start for start in starts if chosen is None or Key(start.namespace, start.queue) in chosen]
    states = with_cluster(cluster, _states) if shown else {}
    explained = [_explained(start, states) for start in shown]
    if is_structured(output):
        print_value(Answer(at_epoch(live.now), tuple(explained)), output)
    elif shown:
        print_rows(("WITHIN", "STARTED P50", "STARTED P90", "WAITING P50"), list(_hours(shown)))
        typer.echo()
        titles = ("NAMESPACE", "WORKLOAD", "QUEUE", "STARTS P50", "P90", "STARTED IN", "STATE", "REASON")
        print_rows(titles, list(map(_cells, explained)))
    else:
        typer.echo("no workload waits", err=True)
    report_origins(live.times)


async def _states(connection: Connection) -> Mapping[Key, ExplanationSummary]:
    found = await summaries(connection.client, "Workload", "")
    if found.problem:
        typer.echo(f"warning: no states: {found.problem}", err=True)
    return found.served


def _explained(start: StartTime, states: Mapping[Key, ExplanationSummary]) -> Explained:
    summary = states.get(Key(start.namespace, start.name))
    state, code = ("", "") if summary is None else (summary.state, summary.code)
    return Explained(**msgspec.structs.asdict(start), state=state, code=code)


def _local_queues(live: LiveCluster, written: str) -> frozenset[Key] | None:
    """Return the local queues that ``[cq/|lq/]NAME`` means; None: all.  Raises ``UsageError``."""
    if not written:
        return None
    kind, _, name = written.rpartition("/")
    queues = live.objects[LOCAL_QUEUES]
    if kind in ("lq", "localqueue", "localqueues"):
        key = Key(live.namespace, name)
        if all(local_queue.metadata.key != key for local_queue in queues):
            raise UsageError(f"LocalQueue {key} does not exist (name its namespace with -n)")
        return frozenset((key,))
    if kind not in ("", "cq", "clusterqueue", "clusterqueues"):
        raise UsageError(f"{written}: is no queue (write NAME, cq/NAME or lq/NAME)")
    if all(cluster_queue.metadata.name != name for cluster_queue in live.objects[CLUSTER_QUEUES]):
        raise UsageError(f"ClusterQueue {name} does not exist (write lq/{name} for a local queue)")
    return frozenset(
        local_queue.metadata.key for local_queue in queues if local_queue.spec.cluster_queue == name
    )


def _hours(starts: Sequence[StartTime]) -> Iterator[tuple[str, ...]]:
    """Yield for equal steps of time how many have started in half and in nine of ten runs."""
    last_s = max((start.p90_s for start in starts if start.p90_s is not None), default=0.0)
    step_s = next((step for step in _STEPS_S if last_s <= step * _MOST_STEPS), _STEPS_S[-1])
    for number in range(1, min(_MOST_STEPS, int(last_s // step_s) + 1) + 1):
        until_s = number * step_s
        half, most = (
            sum(seconds is not None and seconds <= until_s for seconds in several)
            for several in ([start.p50_s for start in starts], [start.p90_s for start in starts])
        )
        yield format_duration(until_s), str(half), str(most), str(len(starts) - half)


def _after(seconds: float | None) -> str:
    return "later" if seconds is None else f"in {format_duration(seconds)}"


def _cells(start: Explained) -> tuple[str, ...]:
    no_start = NO_START.get(start.state)
    times = (no_start, no_start) if no_start else (_after(start.p50_s), _after(start.p90_s))
    started = f"{start.started} of {start.plays} runs"
    return start.namespace, start.name, start.queue, *times, started, start.state, start.code

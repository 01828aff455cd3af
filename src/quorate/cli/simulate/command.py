"""``quorate simulate``: play a scenario through the queueing core, as it is and with changes."""

import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from quorate.cli.simulate import report_page
from quorate.cli.simulate.run_times import Runs, report_origins
from quorate.cli.simulate.tables import (
    check_table_file,
    csv_text,
    print_clusters,
    print_comparison,
    print_summary,
    write_table,
)
from quorate.cli.verbs import options as o
from quorate.cli.verbs.options import Output
from quorate.cli.verbs.printing import print_value
from quorate.inspect.configuration_files import InvalidFiles
from quorate.inspect.connection import ClusterOptions
from quorate.inspect.errors import UsageError
from quorate.inspect.live_cluster import assumed_run_s, read_cluster
from quorate.processes.process_setup import tune_garbage_collection
from quorate.simulate.engine.clusters import ClustersRun
from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.estimates.cluster_starts import play_clusters
from quorate.simulate.estimates.snapshot import snapshot_world
from quorate.simulate.inputs.changes import changed
from quorate.simulate.inputs.submissions import number_of_jobs
from quorate.simulate.inputs.world import InvalidWorld, World, read_world
from quorate.simulate.results.summary import (
    ClustersSummary,
    Comparison,
    Summary,
    compare,
    summarize,
    summarize_clusters,
)
from quorate.simulate.results.tables import Columns, job_columns, stacked, usage_columns

CLUSTER: Final = "the cluster"  # in tables and in the column of runs


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """The output in JSON: the first run, and each other run compared with it."""

    scenario: Summary
    changes: tuple[Comparison, ...]
    clusters: tuple[ClustersSummary, ...]  # by run; empty without worker clusters


class Played(NamedTuple):
    """A run, and its clusters if its scenario has any."""

    name: str  # of the scenario or change, and of the dispatcher if there are clusters
    run: Run
    clusters: ClustersRun | None = None


Scenario = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SCENARIO]",
        help="A file with a Scenario and manifests, a directory of such files, or a trace ([b].swf[/b]). "
        "Default: the cluster of --kubeconfig, --context or $KUBECONFIG as it is now.",
    ),
]
Changes = Annotated[
    list[Path] | None,
    typer.Option(
        "--change", metavar="FILE|DIR",
        help="Manifests to apply to the scenario: another quota, cohort, policy, Configuration or Scenario, "
        "or jobs to submit. "
        "Repeat it to compare several changes, each with the scenario as it is.",
    ),
]  # fmt: skip
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE.html", dir_okay=False,
        help="Also write a report with charts: one file that needs no network.",
    ),
]  # fmt: skip
JobsFile = Annotated[
    Path | None,
    typer.Option(
        "--jobs", metavar="FILE", dir_okay=False,
        help="Also write a table with one row for each job, as [b].csv[/b] or [b].parquet[/b].",
    ),
]  # fmt: skip
UsageFile = Annotated[
    Path | None,
    typer.Option(
        "--usage", metavar="FILE", dir_okay=False,
        help="Also write a table of the quota in use over time, as [b].csv[/b] or [b].parquet[/b].",
    ),
]  # fmt: skip
OutputFormat = Annotated[
    Format, typer.Option("--output", "-o", help="The output format; csv has one row for each job.")
]


def simulate(
    scenario: Scenario = None,
    change: Changes = None,
    report: ReportFile = None,
    jobs: JobsFile = None,
    usage: UsageFile = None,
    output: OutputFormat = Format.TABLE,
    runs: Runs = "1h",
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Play jobs through the queues in virtual time, as they are and with changes.

    The admission core and the lifecycle of workloads are those of the controllers; jobs are generated from
    their classes, or read from a trace.  The same input gives the same output.  With a cluster instead of a
    scenario, the workloads that exist are played until all have ended.

    A scenario with [b]clusters[/b] has a manager and worker clusters (MultiKueue): it is played once with each of
    its [b]dispatchers[/b], and the waits, the copies of workloads and the jobs of each cluster are compared.

    [b]Example:[/b] quorate simulate examples/simulate/two-teams.yaml --change examples/simulate/larger-quota.yaml
    """  # noqa: E501  the example is one line, to be copied
    try:
        name, world = _world(scenario, runs, ClusterOptions(kubeconfig, context))
        variants = [(str(path), changed(world, path, assumed_run_s(runs))) for path in change or ()]
    except InvalidWorld as error:
        raise InvalidFiles(error.findings) from error
    if len({name for name, _ in variants}) < len(variants):
        raise UsageError("--change names a file twice (each change is compared with the scenario as it is)")
    for option, file in (("--jobs", jobs), ("--usage", usage)):
        if file is not None:
            check_table_file(option, file)
    tune_garbage_collection()
    try:
        played = _play_all([(name, world), *variants])
    except InvalidWorld as error:
        raise InvalidFiles(error.findings) from error
    first = played[0]
    comparisons = [compare(other.name, first.run, other.run) for other in played[1:]]
    by_name = {run.name: run.run for run in played}
    clusters = [summarize_clusters(run.name, run.clusters) for run in played if run.clusters is not None]
    if report is not None:
        _write_report(report, by_name, comparisons)
    if jobs is not None:
        write_table("--jobs", jobs, _table_of(job_columns, by_name))
    if usage is not None:
        write_table("--usage", usage, _table_of(usage_columns, by_name))
    if output is Format.CSV:
        typer.echo(csv_text(_table_of(job_columns, by_name)), nl=False)
        return
    if output is Format.JSON:
        print_value(Answer(summarize(first.run), tuple(comparisons), tuple(clusters)), Output.JSON)
        return
    console = Console()
    if clusters:
        print_clusters(console, name, first.run, clusters)
        return
    print_summary(console, name, first.run)
    for comparison in comparisons:
        print_comparison(console, comparison)


def _world(scenario: Path | None, runs: str, cluster: ClusterOptions) -> tuple[str, World]:
    """Return the world to play, and its name; $KUBECONFIG names the cluster if nothing else is named."""
    names_cluster = cluster.kubeconfig is not None or bool(cluster.context)
    if scenario is None:
        names_cluster = names_cluster or bool(os.environ.get("KUBECONFIG"))
    if names_cluster == (scenario is not None):
        raise UsageError(
            "name either a SCENARIO or the cluster to play (--kubeconfig FILE, --context NAME or $KUBECONFIG)"
        )
    if scenario is not None:
        return str(scenario), read_world(scenario)
    live = read_cluster(cluster, None, runs)
    report_origins(live.times)
    return CLUSTER, snapshot_world(live.objects, live.times, live.now, live.effective.configuration)


def _table_of(columns: Callable[[Run], Columns], runs: Mapping[str, Run]) -> Columns:
    return stacked({name: columns(run) for name, run in runs.items()})


def _write_report(path: Path, runs: Mapping[str, Run], comparisons: Sequence[Comparison]) -> None:
    try:
        path.write_text(report_page.report(runs, comparisons), encoding="utf-8")
    except report_page.NoCharts as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"--report {path}: {(error.strerror or '').lower()}") from error


def _play_all(worlds: Sequence[tuple[str, World]]) -> list[Played]:
    """Play the worlds, each with each of its dispatchers, with a progress bar on a terminal.

    Raises ``InvalidWorld`` if clusters cannot be played.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    played = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        for name, world in worlds:
            for dispatcher in world.scenario.dispatchers if world.scenario.clusters else ("",):
                change = name if world is not worlds[0][1] else ""
                full_name = ", ".join(filter(None, (change, dispatcher))) or name
                task = progress.add_task(full_name, total=number_of_jobs(world.scenario))
                on_progress = partial(_advance, progress, task)
                if dispatcher:
                    clusters = play_clusters(world, dispatcher, on_progress)
                    played.append(Played(full_name, clusters.manager, clusters))
                else:
                    played.append(Played(full_name, play(world, on_progress)))
    return played


def _advance(progress: Progress, task: TaskID, ended: int) -> None:
    progress.update(task, completed=ended)

"""Tables of a simulation: waits, utilisation, and what a change makes better or worse; files of rows."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console

from quorate.api.quantity import parse_quantity
from quorate.cli.verbs.printing import print_rows
from quorate.inspect.errors import UsageError
from quorate.inspect.formatting import format_duration, plural
from quorate.quota.amount import counts_bytes
from quorate.simulate.engine.recorder import Run
from quorate.simulate.results.summary import (
    Change,
    ClustersSummary,
    Comparison,
    NodeUse,
    Summary,
    Utilisation,
    Waits,
    summarize,
)
from quorate.simulate.results.tables import Column, Columns, MissingExtra

_WAITS: Final = ("JOBS", "ADMITTED", "WAIT P50", "P90", "P99", "SLOWDOWN", "PREEMPTED", "EVICTED")


class Table(NamedTuple):
    """The text of a table."""

    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]


def print_summary(console: Console, name: str, run: Run) -> None:
    """Print the figures of one run."""
    summary = summarize(run)
    console.print(headline(name, summary), highlight=False)
    for table in summary_tables(summary):
        console.print()
        print_rows(*table)
    if summary.fairness is not None:
        console.print(f"\n{fairness(summary.fairness)}", highlight=False)
    _print_waiting(console, summary)


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print what a change makes better or worse."""
    console.print(f"\nwith {comparison.name}:", highlight=False)
    for table in comparison_tables(comparison):
        console.print()
        print_rows(*table)
    _print_waiting(console, comparison.after)


def print_clusters(console: Console, name: str, first: Run, runs: Sequence[ClustersSummary]) -> None:
    """Print the figures of each dispatcher, and what each cluster ran; of ``first`` also what waits."""
    summary = summarize(first)
    console.print(headline(name, summary), highlight=False)
    for table in clusters_tables(runs):
        console.print()
        print_rows(*table)
    _print_waiting(console, summary)


def clusters_tables(runs: Sequence[ClustersSummary]) -> tuple[Table, Table]:
    """Return the waits and copies by run, and the jobs by cluster."""
    rows = [
        (
            run.name,
            str(run.jobs.admitted),
            format_duration(run.jobs.mean_s),
            *_cells(run.jobs)[2:6],
            f"{run.copies / max(1, run.jobs.jobs):.2f}",
            str(run.moved),
        )
        for run in runs
    ]
    uses: list[tuple[str, ...]] = [
        (cluster, run.name, str(use.jobs), _percent(use.share), str(use.preemptions), str(use.evictions))
        for run in runs
        for cluster, use in run.clusters.items()
    ]
    return (
        Table(
            ("RUN", "STARTED", "MEAN WAIT", "WAIT P50", "P90", "P99", "SLOWDOWN", "COPIES A JOB", "MOVED"),
            rows,
        ),
        Table(("CLUSTER", "RUN", "JOBS", "UTILISATION", "PREEMPTED", "EVICTED"), uses),
    )


def _print_waiting(console: Console, summary: Summary) -> None:
    if summary.waiting:
        console.print(f"\n{waiting_headline(summary)}", highlight=False)
        print_rows(*waiting_table(summary))


def headline(name: str, summary: Summary) -> str:
    """Return the outcome of a run in one sentence."""
    ended = summary.outcomes["succeeded"] + summary.outcomes["failed"]
    return (
        f"{name}: {plural(summary.jobs.jobs, 'job')} in {format_duration(summary.duration_s)}, "
        f"{ended} ended, {summary.outcomes['running']} running, {summary.outcomes['waiting']} waiting, "
        f"{summary.outcomes['deactivated']} deactivated"
    )


def fairness(index: float) -> str:
    """Return Jain's index with its meaning."""
    return f"fairness {index:.3f} (1: all queues use the same part of their quota)"


def summary_tables(summary: Summary) -> tuple[Table, ...]:
    """Return the waits by class and by queue, and the use of each quota and of the nodes."""
    tables = (
        _waits_table("CLASS", summary.by_class, summary.jobs),
        _waits_table("QUEUE", summary.by_queue, None),
        _utilisation_table(summary.utilisation),
    )
    return (*tables, _nodes_table(summary.nodes)) if summary.nodes else tables


def _nodes_table(nodes: Iterable[NodeUse]) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            node.resource,
            str(node.nodes),
            _amount(node.resource, node.allocatable),
            _percent(node.share),
            _percent(node.least),
            _percent(node.most),
        )
        for node in nodes
    ]
    return Table(("RESOURCE", "NODES", "ALLOCATABLE", "UTILISATION", "LEAST USED", "MOST USED"), rows)


def comparison_tables(comparison: Comparison) -> tuple[Table, ...]:
    """Return the waits by class and by queue, and the use of each quota, before and after a change."""
    rows = [(name, *_change_cells(change)) for name, change in comparison.by_class.items()]
    rows += [(name, *_change_cells(change)) for name, change in comparison.by_queue.items()]
    rows.append(("all", *_change_cells(comparison.jobs)))
    shares = {_pair(use): use.share for use in comparison.before.utilisation}
    uses: list[tuple[str, ...]] = [
        (*_pair(use), _arrow(_percent(shares.get(_pair(use))), _percent(use.share)))
        for use in comparison.after.utilisation
    ]
    return (
        Table(("CLASS OR QUEUE", "SOONER", "LATER", "WAIT P50", "P90", "P99", "SLOWDOWN", "PREEMPTED"), rows),
        Table(("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "UTILISATION"), uses),
    )


def waiting_headline(summary: Summary) -> str:
    left = summary.outcomes["waiting"] + summary.outcomes["deactivated"]
    return f"{plural(left, 'job')} never ended; the first ones and why:"


def waiting_table(summary: Summary) -> Table:
    """Return the first jobs that wait at the end, with the reason of each."""
    return Table(("JOB", "QUEUE", "REASON"), [(job.name, job.queue, job.reason) for job in summary.waiting])


def _waits_table(title: str, groups: Mapping[str, Waits], total: Waits | None) -> Table:
    rows = [(name, *_cells(waits)) for name, waits in groups.items()]
    if total is not None and len(groups) > 1:
        rows.append(("all", *_cells(total)))
    return Table((title, *_WAITS), rows)


def _cells(waits: Waits) -> tuple[str, ...]:
    return (
        str(waits.jobs),
        str(waits.admitted),
        format_duration(waits.p50_s),
        format_duration(waits.p90_s),
        format_duration(waits.p99_s),
        f"{waits.slowdown:.2f}",
        str(waits.preemptions),
        str(waits.evictions),
    )


def _utilisation_table(utilisation: Iterable[Utilisation]) -> Table:
    rows: list[tuple[str, ...]] = [
        (*_pair(use), _amount(use.resource, use.nominal), _mean(use), _percent(use.share))
        for use in utilisation
    ]
    return Table(("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "NOMINAL", "MEAN USE", "UTILISATION"), rows)


def _amount(resource: str, written: str) -> str:
    """Return the amount, of bytes in Gi as the mean use beside it."""
    return f"{parse_quantity(written).units / 2**30:.2f}Gi" if counts_bytes(resource) else written


def _mean(utilisation: Utilisation) -> str:
    """Return the mean use with two decimals, of bytes in Gi."""
    mean = parse_quantity(utilisation.mean).milli / 1000
    return f"{mean / 2**30:.2f}Gi" if counts_bytes(utilisation.resource) else f"{mean:.2f}"


def _pair(utilisation: Utilisation) -> tuple[str, str, str]:
    return utilisation.cluster_queue, utilisation.flavor, utilisation.resource


def _change_cells(change: Change) -> tuple[str, ...]:
    before, after = change.before, change.after
    return (
        "-" if change.sooner is None else str(change.sooner),
        "-" if change.later is None else str(change.later),
        _arrow(format_duration(before.p50_s), format_duration(after.p50_s)),
        _arrow(format_duration(before.p90_s), format_duration(after.p90_s)),
        _arrow(format_duration(before.p99_s), format_duration(after.p99_s)),
        _arrow(f"{before.slowdown:.2f}", f"{after.slowdown:.2f}"),
        _arrow(str(before.preemptions), str(after.preemptions)),
    )


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


CSV: Final = ".csv"
PARQUET: Final = ".parquet"


def check_table_file(option: str, path: Path) -> None:
    """Raise ``UsageError`` if no table can be written to such a file, before anything is computed."""
    if path.suffix not in (CSV, PARQUET):
        raise UsageError(f"{option} {path}: is no {CSV} or {PARQUET} file (end its name with one of them)")
    if path.suffix == PARQUET:
        try:
            _pyarrow()
        except MissingExtra as error:
            raise UsageError(f"{option} {path}: {error}") from error


def write_table(option: str, path: Path, table: Columns) -> None:
    """Write a table to a file that ``check_table_file`` has accepted.  Raises ``UsageError``."""
    try:
        if path.suffix == PARQUET:
            pyarrow = _pyarrow()
            columns = {name: pyarrow.array(column, from_pandas=True) for name, column in table.items()}
            with path.open("wb") as file:
                _parquet().write_table(pyarrow.table(columns), file)
        else:
            path.write_text(csv_text(table), encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"{option} {path}: {(error.strerror or str(error)).lower()}") from error


def csv_text(table: Columns) -> str:
    """Return a table as CSV with a header; a cell of a time that never came is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*map(_column_cells, table.values()), strict=True))
    return text.getvalue()


def _column_cells(column: Column) -> Iterator[object]:
    for value in column if isinstance(column, list) else column.tolist():
        yield "" if isinstance(value, float) and math.isnan(value) else value


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise MissingExtra("Parquet", "pyarrow", "parquet") from error
    return pyarrow


def _parquet() -> Any:
    from pyarrow import parquet

    return parquet

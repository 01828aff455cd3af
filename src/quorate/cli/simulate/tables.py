"""Tables of a simulation: waits, utilisation, and what a change makes better or worse."""

from collections.abc import Iterable, Mapping
from typing import Final

from rich.console import Console

from quorate.cli.run.formatting import plural
from quorate.cli.verbs.printing import print_rows
from quorate.local.objects.tables.durations import human_duration
from quorate.simulate.comparison import Change, Comparison
from quorate.simulate.player import Run
from quorate.simulate.summary import Summary, Utilisation, Waits, summarize

_WAITS: Final = ("JOBS", "ADMITTED", "WAIT P50", "P90", "P99", "SLOWDOWN", "PREEMPTED", "EVICTED")


def print_summary(console: Console, name: str, run: Run) -> None:
    """Print the figures of one run."""
    summary = summarize(run)
    ended = summary.outcomes["succeeded"] + summary.outcomes["failed"]
    console.print(
        f"{name}: {plural(summary.jobs.jobs, 'job')} in {_duration(summary.duration_s)}, {ended} ended, "
        f"{summary.outcomes['running']} running, {summary.outcomes['waiting']} waiting, "
        f"{summary.outcomes['deactivated']} deactivated",
        highlight=False,
    )
    console.print()
    _print_waits("CLASS", summary.by_class, summary.jobs)
    console.print()
    _print_waits("QUEUE", summary.by_queue, None)
    console.print()
    _print_utilisation(summary.utilisation)
    if summary.fairness is not None:
        console.print(f"\nfairness {summary.fairness:.3f} (1: all queues use the same part of their quota)")
    _print_waiting(console, summary)


def _print_waits(title: str, groups: Mapping[str, Waits], total: Waits | None) -> None:
    rows = [(name, *_cells(waits)) for name, waits in groups.items()]
    if total is not None and len(groups) > 1:
        rows.append(("all", *_cells(total)))
    print_rows((title, *_WAITS), rows)


def _cells(waits: Waits) -> tuple[str, ...]:
    return (
        str(waits.jobs),
        str(waits.admitted),
        _duration(waits.p50_s),
        _duration(waits.p90_s),
        _duration(waits.p99_s),
        f"{waits.slowdown:.2f}",
        str(waits.preemptions),
        str(waits.evictions),
    )


def _print_utilisation(utilisation: Iterable[Utilisation]) -> None:
    rows = [
        (
            each.cluster_queue,
            each.flavor,
            each.resource,
            each.nominal,
            each.mean,
            "-" if each.share is None else f"{each.share:.1%}",
        )
        for each in utilisation
    ]
    print_rows(("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "NOMINAL", "MEAN USE", "UTILISATION"), rows)


def _print_waiting(console: Console, summary: Summary) -> None:
    if not summary.waiting:
        return
    left = summary.outcomes["waiting"] + summary.outcomes["deactivated"]
    console.print(f"\n{plural(left, 'job')} never ended; the first ones and why:", highlight=False)
    print_rows(("JOB", "QUEUE", "REASON"), [(each.name, each.queue, each.reason) for each in summary.waiting])


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print what a change makes better or worse."""
    console.print(f"\nwith {comparison.name}:\n", highlight=False)
    rows = [(name, *_change_cells(change)) for name, change in comparison.by_class.items()]
    rows += [(name, *_change_cells(change)) for name, change in comparison.by_queue.items()]
    rows.append(("all", *_change_cells(comparison.jobs)))
    titles = ("CLASS OR QUEUE", "SOONER", "LATER", "WAIT P50", "P90", "P99", "SLOWDOWN", "PREEMPTED")
    print_rows(titles, rows)
    shares = {_pair(each): each.share for each in comparison.before.utilisation}
    console.print()
    print_rows(
        ("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "UTILISATION"),
        [
            (*_pair(each), _arrow(_percent(shares.get(_pair(each))), _percent(each.share)))
            for each in comparison.after.utilisation
        ],
    )
    if comparison.after.waiting:
        _print_waiting(console, comparison.after)


def _pair(each: Utilisation) -> tuple[str, str, str]:
    return each.cluster_queue, each.flavor, each.resource


def _change_cells(change: Change) -> tuple[str, ...]:
    before, after = change.before, change.after
    return (
        "-" if change.sooner is None else str(change.sooner),
        "-" if change.later is None else str(change.later),
        _arrow(_duration(before.p50_s), _duration(after.p50_s)),
        _arrow(_duration(before.p90_s), _duration(after.p90_s)),
        _arrow(_duration(before.p99_s), _duration(after.p99_s)),
        _arrow(f"{before.slowdown:.2f}", f"{after.slowdown:.2f}"),
        _arrow(str(before.preemptions), str(after.preemptions)),
    )


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _duration(seconds: float) -> str:
    return human_duration(seconds)

"""``make test-faults``: many seeded runs, with a table of injected faults and the findings.

python -m tests.faults                     200 runs, all kinds in turn
python -m tests.faults --runs 1000 --first 5000
python -m tests.faults --kind topologies --runs 100
python -m tests.faults --again "clocks 38"  one run again, with the controllers' log
python -m tests.faults --keep DIR          with the log and the stored states of each run that has findings
"""

import argparse
import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from quorate.kube.log import configure
from tests.faults.evidence import keep
from tests.faults.runs import run
from tests.faults.trials import KINDS, Kind, Report, Trial

CONSOLE = Console()
CONCURRENT_RUNS = 3  # runs in one process: each is idle half of the time


def main() -> int:
    """Return 0 without findings, otherwise 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", choices=KINDS, help="only runs of this kind")
    parser.add_argument("--again", metavar="'KIND SEED'", help="repeat one run, with the controllers' log")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="log and states of runs with findings")
    given = parser.parse_args()
    if given.again:
        kind, seed = given.again.split()
        configure("console", logging.INFO)
        reports = [asyncio.run(run(Trial(int(seed), kind)))]
    else:
        reports = list(
            _all(given.first, given.runs, KINDS if given.kind is None else (given.kind,), given.keep)
        )
    _show(reports)
    return 1 if any(report.findings for report in reports) else 0


def _all(first: int, runs: int, kinds: Sequence[Kind], directory: Path | None) -> Iterator[Report]:
    trials = [Trial(seed, kinds[seed % len(kinds)]) for seed in range(first, first + runs)]
    at_once = 1 if kinds == ("clusters",) else CONCURRENT_RUNS  # a run of that kind has four clusters
    groups = [trials[at : at + at_once] for at in range(0, len(trials), at_once)]
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        ProcessPoolExecutor(os.cpu_count(), initializer=_prepare, initargs=(directory,)) as processes,
        Progress(*columns, console=CONSOLE) as progress,
    ):
        task = progress.add_task("", total=runs)
        for done in as_completed([processes.submit(_run_trials, group, directory) for group in groups]):
            for report in done.result():
                progress.advance(task)
                if not CONSOLE.is_terminal:
                    progress.print(f"{report.trial}: {report.duration_s:.0f} s, {report.states} states")
                if report.findings:
                    progress.print(f"[red]{report.trial}[/red]: {report.findings[0][:300]}")
                yield report


def _prepare(directory: Path | None) -> None:
    """Prepare a process for runs: it shows no log, and makes one if that is to be kept."""
    level = logging.WARNING if directory is None else logging.INFO
    logging.basicConfig(level=level, handlers=[logging.NullHandler()])


def _run_trials(trials: list[Trial], directory: Path | None) -> list[Report]:
    async def run_all() -> list[Report]:
        return await asyncio.gather(*(run(trial) for trial in trials))

    loop = asyncio.new_event_loop()  # asyncio.run would wait for tasks that never end
    reports = loop.run_until_complete(run_all())
    if not asyncio.all_tasks(loop):
        loop.close()
    for report in reports:
        keep(report, directory)
    return reports


def _show(reports: list[Report]) -> None:
    table = Table(title="Runs", title_justify="left")
    for heading in ("kind", "runs", "restarts", "stored states", "replacements", "faults", "findings"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for kind in KINDS:
        of_kind = [report for report in reports if report.trial.kind == kind]
        table.add_row(
            kind,
            str(len(of_kind)),
            str(sum(report.restarts for report in of_kind)),
            str(sum(report.states for report in of_kind)),
            str(sum(report.replacements for report in of_kind)),
            str(sum(report.injected.total() for report in of_kind)),
            str(sum(bool(report.findings) for report in of_kind)),
        )
    CONSOLE.print(table)
    injected: Counter[str] = Counter()
    for report in reports:
        injected += report.injected
    counts = ", ".join(f"{name} {count}" for name, count in injected.most_common())
    CONSOLE.print(f"Injected faults: {counts}", highlight=False)
    for report in sorted(reports, key=lambda report: report.trial.seed):
        for finding in report.findings:
            CONSOLE.print(f"\n[red]{report.trial}[/red] {finding}", markup=True, highlight=False)
        if report.findings:
            CONSOLE.print(f"again: python -m tests.faults --again '{report.trial}'", highlight=False)


if __name__ == "__main__":
    began = time.monotonic()
    outcome = main()
    CONSOLE.print(f"{time.monotonic() - began:.0f} s")
    raise SystemExit(outcome)

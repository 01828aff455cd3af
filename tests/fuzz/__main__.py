"""``make fuzz``: send seeded hostile objects to a cluster and report everything that they break.

python -m tests.fuzz                               10,000 objects to the local API server
python -m tests.fuzz --seed 7 --objects 2000
python -m tests.fuzz --seed 7 --only 17,18         some attacks again
python -m tests.fuzz --large --rate 4              objects of the largest size, a collection each
python -m tests.fuzz --real                        the kube-apiserver in KUBEBUILDER_ASSETS
python -m tests.fuzz --server FILE                 a cluster that runs already, by its kubeconfig
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from tests.e2e.real_server import unavailable_reason
from tests.fuzz.cluster import ClusterOptions
from tests.fuzz.findings import Findings
from tests.fuzz.large import large_numbers
from tests.fuzz.runs import Report, describe_finding, numbers_of, run

CONSOLE = Console()


def main() -> int:
    """Return 0 without findings, otherwise 1."""
    given = _arguments()
    if given.real and (problem := unavailable_reason()):
        CONSOLE.print(f"--real: {problem}", highlight=False)
        return 2
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    CONSOLE.print(f"seed {seed}", highlight=False)
    only = [int(number) for number in given.only.split(",")] if given.only else []
    if given.large is not None:
        only += large_numbers([kind for kind in given.large.split(",") if kind])
    numbers = iter(only) if only else numbers_of(seed, given.objects, given.first)
    total = len(only) if only else given.objects
    options = ClusterOptions(given.real, given.server, given.schemas == "kept", given.block)
    columns = (
        TextColumn("objects"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with (
        tempfile.TemporaryDirectory(prefix="quorate-fuzz-") as name,
        Progress(*columns, console=CONSOLE) as progress,
    ):
        task = progress.add_task("", total=total)
        directory = given.keep or Path(name)
        directory.mkdir(parents=True, exist_ok=True)
        report = asyncio.run(
            run(
                Findings(seed), numbers, options, directory,
                lambda objects: progress.advance(task, objects), given.rate, given.deadline,
            )
        )  # fmt: skip
    _show(report)
    return 1 if report.findings.all else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seed", type=int, help="default: random, printed")
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first attack")
    parser.add_argument("--only", metavar="N,N", help="the numbers of the attacks to send")
    parser.add_argument(
        "--large",
        metavar="KIND,KIND",
        nargs="?",
        const="",
        help="objects of the largest size, of all kinds if none is named",
    )
    parser.add_argument("--rate", type=float, default=50.0, help="objects per second, at most")
    parser.add_argument("--deadline", type=float, default=2.0, help="seconds until a probe must be admitted")
    parser.add_argument("--block", type=float, default=50.0, help="milliseconds of a block that is a finding")
    parser.add_argument("--schemas", choices=("kept", "none"), default="kept", help="of Kueue's definitions")
    parser.add_argument("--real", action="store_true", help="the kube-apiserver in KUBEBUILDER_ASSETS")
    parser.add_argument("--server", type=Path, metavar="KUBECONFIG", help="a cluster that runs already")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs and reports there")
    return parser.parse_args()


def _show(report: Report) -> None:
    driver, probe, findings = report.driver, report.probe, report.findings
    answers = ", ".join(f"{status}: {count}" for status, count in sorted(driver.answers.items()))
    CONSOLE.print(f"{driver.sent} objects sent, {driver.stored} stored; answers {answers}", highlight=False)
    for what, times in (("probe job admitted", probe.admissions_s), ("probe gang bound", probe.bindings_s)):
        worst, median = max(times), statistics.median(times)
        CONSOLE.print(
            f"{what} {len(times)} times: median {median:.2f} s, worst {worst:.2f} s", highlight=False
        )
    table = Table(title="Processes", title_justify="left")
    for heading in ("process", "restarts", "blocks", "worst block ms", "memory MB first", "largest", "last"):
        table.add_column(heading, justify="left" if heading == "process" else "right")
    for process in report.processes:
        memory = process.memory_mb or [0.0]
        table.add_row(
            process.name, str(process.restarts), str(process.blocks), f"{process.worst_block_s * 1000:.0f}",
            f"{memory[0]:.0f}", f"{max(memory):.0f}", f"{memory[-1]:.0f}",
        )  # fmt: skip
    CONSOLE.print(table)
    for process in report.processes:
        for message, count in process.errors.most_common(5):
            CONSOLE.print(f"{process.name}: {count} errors: {message}", highlight=False, markup=False)
    for found in findings.all:
        CONSOLE.print(f"\n{describe_finding(findings.seed, found)}", highlight=False, markup=False)
    summary = Table(title="Findings", title_justify="left")
    for heading in ("kind", "times", "worst", "cause"):
        summary.add_column(heading)
    for found in findings.all:
        summary.add_row(
            found.kind, str(found.count), f"{found.worst:.3f}" if found.worst else "", found.cause
        )
    if findings.all:
        CONSOLE.print(summary, markup=False)


if __name__ == "__main__":
    began = time.monotonic()
    outcome = main()
    CONSOLE.print(f"{time.monotonic() - began:.0f} s")
    raise SystemExit(outcome)

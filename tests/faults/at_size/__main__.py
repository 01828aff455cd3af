"""``make test-faults REAL=1``: scenarios at size, with a table of measurements and the findings.

python -m tests.faults.at_size --real                   every scenario, on the server of KUBEBUILDER_ASSETS
python -m tests.faults.at_size restarts --jobs 40 --kills 4    one of them, small, on the local server
"""

import argparse
import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.e2e import world
from tests.e2e.real_server import assets, control_plane, unavailable_reason
from tests.faults.at_size import durability, memory, restarts, takeover
from tests.faults.at_size.outcome import Outcome, Show

CONSOLE = Console()
Scenario = Callable[[Show], Awaitable[Outcome]]


def main() -> int:
    """Return 0 without findings, 1 with findings, 2 without a server."""
    given = _arguments()
    logging.basicConfig(handlers=[logging.NullHandler()])
    if given.real:
        if problem := unavailable_reason():
            CONSOLE.print(f"[red]error[/]: {problem}")
            return 2
        world.SERVER = lambda: control_plane(assets())
    outcomes = [
        _run(name, steps, scenario)
        for name, (steps, scenario) in _scenarios(given).items()
        if name in (given.scenarios or _scenarios(given))
    ]
    return 1 if any(outcome.findings for outcome in outcomes) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.at_size")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="by default all of them")
    parser.add_argument("--real", action="store_true", help="on the server of KUBEBUILDER_ASSETS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=500, help="restarts: the number of jobs")
    parser.add_argument("--kills", type=int, default=30, help="restarts: kills of the controllers")
    parser.add_argument("--leaders", type=int, default=5, help="takeover: kills of the leader")
    parser.add_argument("--lease", type=int, default=15, help="takeover: seconds of the lease")
    parser.add_argument("--local-kills", type=int, default=500, help="durability: kills of quorate local up")
    parser.add_argument("--short-jobs", type=int, default=20_000, help="memory: the number of jobs")
    parser.add_argument(
        "--cut-every", type=float, default=30.0, help="memory: seconds between cuts of watches"
    )
    parser.add_argument(
        "--keep", type=_directory, metavar="DIR", help="restarts: keep logs, and the states after findings"
    )
    given = parser.parse_args()
    unknown = set(given.scenarios) - set(_scenarios(given))
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))} (there are {', '.join(_scenarios(given))})")
    return given


def _directory(text: str) -> Path:
    directory = Path(text)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _scenarios(given: argparse.Namespace) -> dict[str, tuple[int, Scenario]]:
    """Return the number of steps and the function of each scenario."""
    seed = given.seed
    return {
        "restarts": (
            given.jobs,
            lambda show: restarts.run(restarts.Scale(given.jobs, given.kills), seed, show, given.keep),
        ),
        "takeover": (
            given.leaders,
            lambda show: takeover.run(takeover.Scale(given.leaders, given.lease), seed, show),
        ),
        "durability": (
            given.local_kills,
            lambda show: durability.run(durability.Scale(given.local_kills), seed, show),
        ),
        "memory": (
            given.short_jobs,
            lambda show: memory.run(memory.Scale(given.short_jobs, given.cut_every), seed, show),
        ),
    }


def _run(name: str, steps: int, scenario: Scenario) -> Outcome:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=CONSOLE) as progress:
        task = progress.add_task(name, total=steps)

        async def run() -> Outcome:
            return await scenario(lambda done: progress.update(task, completed=done))

        outcome = asyncio.run(run())
    _show(outcome)
    return outcome


def _show(outcome: Outcome) -> None:
    table = Table(title=outcome.scenario, title_justify="left", show_header=False)
    for measure, value in outcome.measures.items():
        table.add_row(measure, value)
    table.add_row("findings", str(len(outcome.findings)))
    CONSOLE.print(table)
    for finding in outcome.findings:
        CONSOLE.print(f"[red]{outcome.scenario}[/red]: {finding}", highlight=False, markup=True)


if __name__ == "__main__":
    began = time.monotonic()
    outcome = main()
    CONSOLE.print(f"{time.monotonic() - began:.0f} s")
    raise SystemExit(outcome)

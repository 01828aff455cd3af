"""``python -m bench.admission.estimates``: what the estimates take from admission, over HTTP.

The same world is run in pairs, with estimates and without, in alternating order.  The process of the
estimates runs beside that of the controllers, and must take no time of it and hardly any of its turns on the
processors.  Exits with status 1 if a limit of ``limits.yaml`` is broken.
"""

import asyncio
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from bench.admission.run import NotDone, Outcome, Plan, run
from bench.limits import check_limits
from bench.worlds import BASELINE
from quorate.api.configuration.process import EstimateRules

SCALE: Final = 0.2
WITHIN_S: Final = 600.0
_CONFIGURATION: Final = """apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
estimates: {{cpu: {cpu}}}
"""


def main(
    pairs: Annotated[
        int, typer.Option(min=1, help="Number of runs with estimates, and of runs without.")
    ] = 3,
    scale: Annotated[
        float, typer.Option(min=0.01, help="The part of the workloads of the scenario.")
    ] = SCALE,
    cpu: Annotated[
        float, typer.Option(min=0.01, help="estimates.cpu of the runs with estimates.")
    ] = EstimateRules().cpu,
) -> None:
    """Compare the rate of admissions and the CPU of the controllers with and without estimates."""
    console = Console()
    rates, costs = [], []
    for number in range(pairs):
        outcomes: dict[float, Outcome] = {}
        for each in (cpu, 0.0) if number % 2 == 0 else (0.0, cpu):
            outcome = outcomes[each] = _outcome(scale, each)
            usage, record = outcome.controllers, outcome.record
            assert usage is not None
            beside_s = usage.cpu_s - usage.own_cpu_s
            console.print(
                f"estimates.cpu {each:g}: {record.admissions:,} admissions in {record.wall_s:.1f} s, "
                f"CPU of the controllers {usage.own_cpu_s:.2f} s, of the estimates {beside_s:.2f} s"
            )
            if (beside_s > 0) != (each > 0):
                console.print("[red]error[/]: the process of the estimates is not as configured")
                sys.exit(2)
        rates.append(_rate(outcomes[cpu]) / _rate(outcomes[0.0]))
        costs.append(_cost(outcomes[cpu]) / _cost(outcomes[0.0]))
    measured = {
        "estimates: admissions a second, with ÷ without": rates,
        "estimates: CPU of the controllers an admission, with ÷ without": costs,
    }
    sys.exit(check_limits(measured, console))


def _outcome(scale: float, cpu: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="quorate-bench-") as temporary:
        directory = Path(temporary)
        file = directory / "configuration.yaml"
        file.write_text(_CONFIGURATION.format(cpu=cpu))
        controllers = shlex.join((sys.executable, "-m", "quorate", "controllers", "--config", str(file)))
        plan = Plan(BASELINE.scaled(scale), None, controllers, None, WITHIN_S, directory)
        try:
            return asyncio.run(run(plan, lambda _: None))
        except* NotDone as failure:
            sys.exit("\n".join(map(str, failure.exceptions)))


def _rate(outcome: Outcome) -> float:
    return outcome.record.admissions / outcome.record.wall_s


def _cost(outcome: Outcome) -> float:
    assert outcome.controllers is not None
    return outcome.controllers.own_cpu_s / outcome.record.admissions


if __name__ == "__main__":
    typer.run(main)

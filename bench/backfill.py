"""``python -m bench.backfill``: how long jobs wait in a queue with planned starts, beside one without.

Plays the jobs of Lublin and Feitelson's model on 128 processors, five seeds each, in virtual time.  A job
declares its run time, or two or five times that, as its maximum execution time, or nothing.  Exits with
status 1 if a limit of ``limits.yaml`` is broken.
"""

import sys
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.limits import check_limits
from quorate.queueing.cluster_queue import BACKFILL, EASY
from quorate.simulate.engine.player import play
from quorate.simulate.inputs.world import read_world_text
from quorate.simulate.results.summary import summarize

PROCESSORS: Final = 128
LARGE: Final = PROCESSORS // 2  # processors, which a large job exceeds
SEEDS: Final = range(1, 6)
# By name: the queueing strategy, whether starts are planned, and what jobs declare ÷ what they run.
SETTINGS: Final[dict[str, tuple[str, str, float | None]]] = {
    "BestEffortFIFO": ("BestEffortFIFO", "", None),
    "StrictFIFO": ("StrictFIFO", "", None),
    "EASY, exact": ("BestEffortFIFO", EASY, 1),
    "EASY, twice": ("BestEffortFIFO", EASY, 2),
    "EASY, five times": ("BestEffortFIFO", EASY, 5),
    "EASY, nothing declared": ("BestEffortFIFO", EASY, None),
}
SCENARIO: Final = """\
apiVersion: simulate.quorate.dev/v1alpha1
kind: Scenario
seed: {seed}
models:
- {{lublinFeitelson: {{jobs: {jobs}, processors: {processors}}}, queue: batch, stretch: 0.9{declared}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: default}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: batch, annotations: {{{annotation}: "{backfill}"}}}}
spec:
  queueingStrategy: {strategy}
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: {processors}}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: batch}}
spec: {{clusterQueue: batch}}
"""


class Waits(NamedTuple):
    """Means over the seeds, seconds."""

    mean: float
    large: float  # of jobs with more than half of the processors
    longest: float
    slowdown: float
    utilisation: float  # from 0 to 1


def waits(setting: str, jobs: int) -> Waits:
    strategy, backfill, overestimate = SETTINGS[setting]
    runs: list[Waits] = []
    for seed in SEEDS:
        text = SCENARIO.format(
            seed=seed,
            jobs=jobs,
            processors=PROCESSORS,
            declared="" if overestimate is None else f", overestimate: {overestimate}",
            annotation=BACKFILL,
            backfill=backfill,
            strategy=strategy,
        )
        run = play(read_world_text(text, "bench.backfill", Path()))
        summary, records = summarize(run), run.jobs
        waited_s = (np.array(records.admitted_ms) - np.array(records.submitted_ms)) / 1000
        of_large = waited_s[np.array(records.pods) > LARGE]
        share = summary.utilisation[0].share
        assert share is not None, "the queue has quota"
        runs.append(
            Waits(
                float(waited_s.mean()),
                float(of_large.mean()),
                float(waited_s.max()),
                summary.jobs.slowdown,
                share,
            )
        )
    return Waits(*(float(np.mean(values)) for values in zip(*runs, strict=True)))


def main(
    jobs: Annotated[int, typer.Option(help="Jobs of each run.")] = 1_500,
) -> None:
    """Play six settings with five seeds each, and compare how long jobs wait with the limits."""
    console = Console()
    played = {setting: waits(setting, jobs) for setting in track(SETTINGS, "playing", console=console)}
    console.print(_table(played))
    baseline = played["BestEffortFIFO"]
    values: dict[str, list[float]] = {}
    for setting, measured in played.items():
        if setting.startswith("EASY"):
            name = f"backfill: {setting}"
            values[f"{name}: wait of large jobs ÷ BestEffortFIFO"] = [measured.large / baseline.large]
            values[f"{name}: mean wait ÷ BestEffortFIFO"] = [measured.mean / baseline.mean]
            values[f"{name}: utilisation ÷ BestEffortFIFO"] = [measured.utilisation / baseline.utilisation]
    sys.exit(check_limits(values, console))


def _table(played: dict[str, Waits]) -> Table:
    table = Table("setting", box=SIMPLE_HEAD)
    for title in ("mean wait, s", "large jobs, s", "longest, s", "slowdown", "utilisation"):
        table.add_column(title, justify="right")
    for setting, of_setting in played.items():
        table.add_row(
            setting,
            f"{of_setting.mean:,.0f}",
            f"{of_setting.large:,.0f}",
            f"{of_setting.longest:,.0f}",
            f"{of_setting.slowdown:.0f}",
            f"{of_setting.utilisation:.1%}",
        )
    return table


if __name__ == "__main__":
    typer.run(main)

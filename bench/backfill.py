"""``python -m bench.backfill``: how long jobs wait in a queue with planned starts, beside one without.

Plays ``examples/simulate/supercomputer.yaml``, jobs of Lublin and Feitelson's model on 128 processors, with
five seeds each, in virtual time.  A job declares its run time, or two or five times that, as its maximum
execution time, or nothing.  Exits with status 1 if a limit of ``limits.yaml`` is broken.
"""

import sys
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import numpy as np
import typer
from msgspec.structs import replace
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.limits import check_limits
from quorate.kube.resources import CLUSTER_QUEUES
from quorate.queueing.planning.rules import BACKFILL
from quorate.simulate.engine.player import play
from quorate.simulate.inputs.world import World, read_world
from quorate.simulate.results.summary import summarize

LARGE: Final = 64  # processors, half of those of the example, which a large job exceeds
SEEDS: Final = range(1, 6)
# By name: the queueing strategy, whether starts are planned, and what jobs declare ÷ what they run.
SETTINGS: Final[dict[str, tuple[str, str, float | None]]] = {
    "BestEffortFIFO": ("BestEffortFIFO", "", None),
    "StrictFIFO": ("StrictFIFO", "", None),
    "EASY, exact": ("BestEffortFIFO", "EASY", 1),
    "EASY, twice": ("BestEffortFIFO", "EASY", 2),
    "EASY, five times": ("BestEffortFIFO", "EASY", 5),
    "EASY, nothing declared": ("BestEffortFIFO", "EASY", None),
}
EXAMPLE: Final = Path("examples/simulate/supercomputer.yaml")


class Waits(NamedTuple):
    """Means over the seeds, seconds."""

    mean: float
    large: float  # of jobs with more than half of the processors
    longest: float
    slowdown: float
    utilisation: float  # from 0 to 1


def world_of(setting: str, jobs: int, seed: int) -> World:
    """Return the world of the example with the queue and the declarations of a setting."""
    strategy, backfill, overestimate = SETTINGS[setting]
    world = read_world(EXAMPLE)
    models = [replace(model, jobs=jobs, overestimate=overestimate) for model in world.scenario.models]
    (queue,) = world.of_kind(CLUSTER_QUEUES)
    changed = replace(
        queue,
        metadata=replace(queue.metadata, annotations={BACKFILL: backfill}),
        spec=replace(queue.spec, queueing_strategy=strategy),
    )
    key = CLUSTER_QUEUES.api_version, CLUSTER_QUEUES.kind, queue.metadata.key
    scenario = replace(world.scenario, seed=seed, models=tuple(models))
    return replace(world, scenario=scenario, objects={**world.objects, key: changed})


def waits(setting: str, jobs: int) -> Waits:
    runs: list[Waits] = []
    for seed in SEEDS:
        run = play(world_of(setting, jobs, seed))
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

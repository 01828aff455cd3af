"""The end of the demo: its jobs in the simulator, as they are and with more nodes."""

from importlib.resources import as_file, files
from typing import Final

from rich.table import Table

from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.engine.records import NEVER
from quorate.simulate.inputs.changes import changed
from quorate.simulate.inputs.world import read_world

EXAMPLES: Final = "examples/simulate"
WORLD: Final = "all-or-nothing.yaml"
CHANGE: Final = "two-more-nodes.yaml"


def what_if() -> Table:
    """Return a table of when each job of the demo ends, with its nodes and with two more."""
    with as_file(files("quorate") / EXAMPLES) as directory:
        world = read_world(directory / WORLD)
        runs = play(world), play(changed(world, directory / CHANGE))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("JOB", "AS IT IS", "WITH TWO MORE NODES"):
        table.add_column(heading)
    before, after = map(_ends, runs)
    for name, text in before.items():
        table.add_row(name, text, after[name])
    return table


def _ends(run: Run) -> dict[str, str]:
    """Return by class when its job ends."""
    jobs = run.jobs
    return {
        run.world.classes[jobs.class_index[at]].name: (
            "does not end" if jobs.ended_ms[at] == NEVER else f"ends after {jobs.ended_ms[at] / 1000:.0f} s"
        )
        for at in range(len(jobs))
    }

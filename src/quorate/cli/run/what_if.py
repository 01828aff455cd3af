"""The end of the demo: its jobs in the simulator, as they are and with more nodes."""

from collections.abc import Sequence
from importlib.resources import as_file, files
from typing import Final, NamedTuple

from rich.table import Table

from quorate.inspect.formatting import format_duration
from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.engine.records import NEVER
from quorate.simulate.inputs.changes import changed
from quorate.simulate.inputs.world import read_world

EXAMPLES: Final = "examples/simulate"
WORLD: Final = "all-or-nothing.yaml"
CHANGE: Final = "two-more-nodes.yaml"


class JobEnds(NamedTuple):
    """When a job of the demo ends, seconds after the start; None: never."""

    job: str
    as_it_is: float | None
    with_two_more_nodes: float | None


def what_if() -> tuple[JobEnds, ...]:
    """Play the jobs of the demo with its nodes and with two more."""
    with as_file(files("quorate") / EXAMPLES) as directory:
        world = read_world(directory / WORLD)
        before = _ends(play(world))
        after = _ends(play(changed(world, directory / CHANGE)))
    return tuple(JobEnds(name, end_s, after[name]) for name, end_s in before.items())


def what_if_table(ends: Sequence[JobEnds]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("JOB", "AS IT IS", "WITH TWO MORE NODES"):
        table.add_column(heading)
    for of_job in ends:
        moments = (of_job.as_it_is, of_job.with_two_more_nodes)
        texts = (
            "does not end" if end_s is None else f"ends after {format_duration(end_s)}" for end_s in moments
        )
        table.add_row(of_job.job, *texts)
    return table


def _ends(run: Run) -> dict[str, float | None]:
    """Return by class when its job ends, seconds; None: never."""
    jobs = run.jobs
    return {
        run.world.classes[jobs.class_index[at]].name: (
            None if jobs.ended_ms[at] == NEVER else float(jobs.ended_ms[at]) / 1000
        )
        for at in range(len(jobs))
    }

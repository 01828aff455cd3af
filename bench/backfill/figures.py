"""Play one world with one setting, and compute how long jobs wait."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.backfill.late_starts import LateStarts
from bench.backfill.learned_bounds import LearnedBounds
from bench.backfill.worlds import GPUS, Setting, gpus_of, world_of
from quorate.queueing.state import State
from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.results.summary import summarize, waits_ms


class Figures(NamedTuple):
    """Of one run, or means of several; times in seconds."""

    mean: float  # wait of all jobs
    decile: float  # mean wait of the largest tenth of the jobs, and of those as large as the smallest of it
    large: float  # mean wait of the jobs that take more than half of the machine
    longest: float
    slowdown: float
    utilisation: float  # from 0 to 1
    jobs: float
    planned: float  # workloads that had a planned start
    late: float  # of those: which started late, or were planned later, and nothing before them came
    revised: float  # of those: which started late, or were planned later, for any reason


def jobs_in(name: str, jobs: int) -> int:
    """Return how many jobs of a world are played: of the slowest one, the GPU cluster, a third."""
    return jobs // 3 if name == GPUS else jobs


def play_setting(name: str, setting: Setting, jobs: int, seed: int) -> Figures:
    """Return the figures of one run with ``jobs_in`` jobs."""
    starts, learned = LateStarts(), LearnedBounds()

    def observe(state: State, now: float) -> None:
        starts.observe(state, now)
        if setting.learns:
            learned.observe(state, now)

    with TemporaryDirectory() as directory:
        run = play(world_of(name, setting, jobs_in(name, jobs), seed, Path(directory)), at_rest=observe)
    summary, waited_s, sizes = summarize(run), waits_ms(run) / 1000, sizes_of(name, run)
    share = summary.utilisation[-1].share
    assert share is not None, "the queue has quota"
    assert not np.isnan(waited_s).any(), "every job starts"
    smallest = np.sort(sizes)[-(-len(sizes) * 9 // 10)]
    return Figures(
        mean=float(waited_s.mean()),
        decile=float(waited_s[sizes >= smallest].mean()),
        large=float(waited_s[sizes > 64].mean()),
        longest=float(waited_s.max()),
        slowdown=summary.jobs.slowdown,
        utilisation=share,
        jobs=len(sizes),
        planned=starts.made,
        late=starts.late,
        revised=starts.revised,
    )


def means(runs: Sequence[Figures]) -> Figures:
    return Figures(*(float(np.mean(values)) for values in zip(*runs, strict=True)))


def sizes_of(name: str, run: Run) -> NDArray[np.int64]:
    """Return the processors or GPUs of each job, of 128 in every world."""
    if name != GPUS:
        return np.array(run.jobs.pods, np.int64)
    names = [run.world.classes[index].name for index in run.jobs.class_index]
    return np.array(
        [gpus_of(class_, pods) for class_, pods in zip(names, run.jobs.pods, strict=True)], np.int64
    )

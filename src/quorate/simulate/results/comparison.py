"""The difference between runs of one scenario: which jobs wait less, which wait longer."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from quorate.simulate.engine.recorder import Run
from quorate.simulate.limits import NOTICED_MS
from quorate.simulate.results.summary import NO_JOBS, Mask, Numbers, Summary, Waits, summarize, waits_ms

Indexes = NDArray[np.unsignedinteger[Any]]


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """How the jobs of a queue or class fare, compared with the first run."""

    before: Waits
    after: Waits
    sooner: int | None  # jobs that start more than a second earlier; None if the runs have other jobs
    later: int | None


class Comparison(msgspec.Struct, frozen=True, rename="camel"):
    name: str  # of the second run
    before: Summary
    after: Summary
    jobs: Change
    by_queue: dict[str, Change]
    by_class: dict[str, Change]


def compare(name: str, first: Run, second: Run) -> Comparison:
    """Return how the second run, called ``name``, differs from the first.

    Jobs are compared one by one if both runs have the same jobs; a job that starts in one run only
    starts sooner in that run.
    """
    before, after = summarize(first), summarize(second)
    moved = _moved(first, second)

    def change(one: Waits, other: Waits, chosen: Mask) -> Change:
        if moved is None:
            return Change(one, other, None, None)
        return Change(one, other, int((moved[chosen] < 0).sum()), int((moved[chosen] > 0).sum()))

    def changes(olds: Mapping[str, Waits], news: Mapping[str, Waits], index: Indexes) -> dict[str, Change]:
        return {
            key: change(olds.get(key, NO_JOBS), new, index == at)
            for at, (key, new) in enumerate(news.items())
        }

    queue_index = np.frombuffer(second.jobs.queue_index, np.uint32)
    class_index = np.frombuffer(second.jobs.class_index, np.uint16)
    return Comparison(
        name,
        before,
        after,
        change(before.jobs, after.jobs, np.ones(len(second.jobs), bool)),
        changes(before.by_queue, after.by_queue, queue_index),
        changes(before.by_class, after.by_class, class_index),
    )


def _moved(first: Run, second: Run) -> Numbers | None:
    """Return -1, 0 or 1 for each job: it starts sooner, as before, or later in the second run."""
    same = first.jobs.submitted_ms == second.jobs.submitted_ms and first.jobs.runs_ms == second.jobs.runs_ms
    if not same or first.queues != second.queues:
        return None
    never = float(max(first.ended_ms, second.ended_ms)) + 2 * NOTICED_MS
    waits, others = (np.nan_to_num(waits_ms(run), nan=never) for run in (first, second))
    difference = others - waits
    return np.where(np.abs(difference) > NOTICED_MS, np.sign(difference), 0.0)

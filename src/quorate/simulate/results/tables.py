"""Tables of a run for data analysis: one row for each job, and the use of quota between samples.

A table maps names to columns of equal length: lists of text, or arrays of numbers in which NaN means
never.  Times are in seconds after the start of the scenario.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quorate.api.quantity import Quantity
from quorate.quota.amount import base_units
from quorate.simulate.engine.recorder import Run
from quorate.simulate.engine.records import NEVER, Outcome
from quorate.simulate.results.summary import waits_ms

Column = list[str] | NDArray[Any]
Columns = dict[str, Column]


def job_columns(run: Run) -> Columns:
    """Return one row for each job, in the order of submission."""
    jobs = run.jobs
    outcomes = [outcome.name.lower() for outcome in Outcome]
    return {
        "job": np.arange(len(jobs)),
        "class": _texts([job_class.name for job_class in run.world.classes], jobs.class_index),
        "queue": _texts([str(key) for key in run.queues], jobs.queue_index),
        "submitted_s": np.frombuffer(jobs.submitted_ms, np.int64) / 1000,
        "admitted_s": _seconds(jobs.admitted_ms),  # for the first time
        "ended_s": _seconds(jobs.ended_ms),
        "wait_s": waits_ms(run) / 1000,
        "runs_s": np.frombuffer(jobs.runs_ms, np.int64) / 1000,
        "pods": np.frombuffer(jobs.pods, np.uint32),
        "admissions": np.frombuffer(jobs.admissions, np.uint32),
        "preemptions": np.frombuffer(jobs.preemptions, np.uint32),
        "evictions": np.frombuffer(jobs.evictions, np.uint32),
        "outcome": _texts(outcomes, jobs.outcome),
    }


def usage_columns(run: Run) -> Columns:
    """Return one row for each interval between samples, cluster queue, flavor and resource, in that order.

    ``amount`` is the mean in the interval, in the unit of the resource (one cpu, one byte, one device);
    ``waiting`` is the number of jobs that waited at its end, in all queues.
    """
    usage = run.usage
    ends_ms = np.array(usage.sampled_ms, np.float64)
    starts_ms = np.concatenate(([0.0], ends_ms[:-1]))
    pairs = sorted(usage.samples)
    amounts = [
        np.diff(np.array([0, *usage.samples[queue, pair]], np.float64))
        / (ends_ms - starts_ms)
        / base_units(pair.resource, Quantity.of_units(1))
        for queue, pair in pairs
    ]
    intervals = len(ends_ms)
    return {
        "from_s": np.repeat(starts_ms / 1000, len(pairs)),
        "until_s": np.repeat(ends_ms / 1000, len(pairs)),
        "cluster_queue": [queue for queue, _ in pairs] * intervals,
        "flavor": [pair.flavor for _, pair in pairs] * intervals,
        "resource": [pair.resource for _, pair in pairs] * intervals,
        "amount": np.column_stack(amounts).ravel() if amounts else np.zeros(0),
        "waiting": np.repeat(np.array(usage.waiting, np.int64), len(pairs)),
    }


def stacked(tables: Mapping[str, Columns]) -> Columns:
    """Return the rows of all tables, by the name of their run, with that name as the first column."""
    names: list[str] = []
    for name, table in tables.items():
        names += [name] * number_of_rows(table)
    columns = next(iter(tables.values()))
    return {
        "run": names,
        **{column: _joined(table[column] for table in tables.values()) for column in columns},
    }


def number_of_rows(table: Columns) -> int:
    return len(next(iter(table.values())))


def _joined(parts: Iterable[Column]) -> Column:
    columns = list(parts)
    if isinstance(columns[0], list):
        return [text for column in columns for text in column]
    return np.concatenate(columns)


def _texts(names: Sequence[str], index: Iterable[int]) -> list[str]:
    return [names[at] for at in index]


def _seconds(times_ms: Any) -> NDArray[Any]:
    times = np.frombuffer(times_ms, np.int64)
    return np.where(times == NEVER, np.nan, times / 1000)


class MissingExtra(ImportError):
    """An optional package is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed"
            f" (run: pip install {package}, or in a clone: pip install '.[{extra}]')"
        )

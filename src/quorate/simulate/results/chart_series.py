"""The numbers of the charts, thinned to what a chart can show.

Times are in ms after the start of the run, amounts in base units.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quorate.api.kueue.topology import HOSTNAME
from quorate.kube.resources import CLUSTER_QUEUES
from quorate.quota.amount import FlavorResource, base_units
from quorate.simulate.engine.recorder import NO_FLAVOR, Run
from quorate.simulate.engine.records import NEVER, Transition
from quorate.simulate.results.summary import waits_ms

MOST_QUEUES: Final = 11  # of a chart; the others are added up
OTHERS: Final = "other queues"
MOST_CLASSES: Final = 11  # of a chart; those with the most jobs
MOST_POINTS: Final = 400  # of a distribution
MOST_BARS: Final = 60
MOST_NODES: Final = 80  # rows of a heat map; of more nodes, equal numbers share a row


class Line(NamedTuple):
    """One line of a chart; ``x`` ascends."""

    name: str
    x: list[float]
    y: list[float]


class HeatMap(NamedTuple):
    """The used share of nodes, or of groups of consecutive nodes, between samples."""

    nodes: list[str]
    sampled_ms: list[int]  # the end of each interval
    shares: list[list[float]]  # by node and interval


class Phase(StrEnum):
    """The state of a job in one interval of a chart."""

    WAITS = "waits"
    RUNS = "runs"
    PREEMPTED = "waits after a preemption"
    EVICTED = "waits after an eviction"


_PHASE_AFTER: Final = {
    Transition.ADMITTED: Phase.RUNS,
    Transition.PREEMPTED: Phase.PREEMPTED,
    Transition.EVICTED: Phase.EVICTED,
}


class Interval(NamedTuple):
    starts_ms: int
    ends_ms: int
    phase: Phase


class Bar(NamedTuple):
    """One job of a window."""

    job: str
    queue: str  # namespace/name of the local queue
    intervals: tuple[Interval, ...]  # from its submission to its end, or that of the run


def resources(run: Run) -> list[str]:
    """Return the names of the resources with quota, in order."""
    return sorted(
        {
            resource
            for queue in run.world.of_kind(CLUSTER_QUEUES)
            for group in queue.spec.resource_groups
            for resource in group.covered_resources
        }
    )


def amounts_in_use(run: Run, resource: str, most: int = MOST_QUEUES) -> list[Line]:
    """Return the mean amount that each cluster queue used between samples: the ``most`` largest, by name."""
    by_queue: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    times = np.array([0, *run.usage.sampled_ms], np.float64)
    for (queue, pair), integrals in run.usage.samples.items():
        if pair.resource == resource:
            means = np.diff(np.array([0, *integrals], np.float64)) / np.diff(times)
            by_queue[queue] = by_queue.get(queue, 0.0) + means
    order = sorted(by_queue, key=lambda queue: (-by_queue[queue].sum(), queue))
    shown = sorted(order[:most])
    lines = [Line(queue, times[1:].tolist(), by_queue[queue].tolist()) for queue in shown]
    rest = order[most:]
    if rest:
        total = sum((by_queue[queue] for queue in rest), np.zeros(len(times) - 1))
        lines.append(Line(OTHERS, times[1:].tolist(), total.tolist()))
    return lines


def nominal_quota(run: Run, resource: str) -> int:
    """Return the nominal quota of all cluster queues together."""
    return sum(
        base_units(quota.name, quota.nominal_quota)
        for queue in run.world.of_kind(CLUSTER_QUEUES)
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
        if quota.name == resource
    )


def waiting_jobs(run: Run) -> Line:
    """Return the number of waiting jobs at each sample."""
    return Line("waiting", [0.0, *map(float, run.usage.sampled_ms)], [0.0, *map(float, run.usage.waiting)])


def distribution_of_waits(run: Run) -> Line:
    """Return the share of all jobs that were admitted within ``x`` ms of their submission."""
    return _distribution("all jobs", waits_ms(run))


def distributions_by_class(run: Run, most: int = MOST_CLASSES) -> list[Line]:
    """Return the waits of the jobs of each class: the ``most`` classes with the most jobs, by name."""
    waits = waits_ms(run)
    index = np.frombuffer(run.jobs.class_index, np.uint16)
    names = [class_.name for class_ in run.world.classes]
    counts = np.bincount(index, minlength=len(names))
    order = sorted((at for at in range(len(names)) if counts[at]), key=lambda at: (-counts[at], names[at]))
    shown = sorted(order[:most], key=lambda at: names[at])
    return [_distribution(names[at], waits[index == at]) for at in shown]


def _distribution(name: str, waits: NDArray[np.float64]) -> Line:
    admitted = np.sort(waits[~np.isnan(waits)])
    if not len(admitted):
        return Line(name, [], [])
    chosen = np.unique(np.linspace(0, len(admitted) - 1, min(MOST_POINTS, len(admitted))).round().astype(int))
    shares = (chosen + 1) / len(waits)
    return Line(name, admitted[chosen].tolist(), shares.tolist())


def use_of_nodes(run: Run, resource: str, most: int = MOST_NODES) -> HeatMap | None:
    """Return which share of ``resource`` the pods used on each node, in at most ``most`` rows.

    Return None if no node has the resource, or if no node is used.
    """
    times = np.array([0, *run.node_usage.sampled_ms], np.float64)
    amounts = {
        node.metadata.labels.get(HOSTNAME, node.metadata.name): base_units(resource, quantity)
        for node in run.world.nodes
        if (quantity := node.status.allocatable.get(resource))
    }
    if not amounts or not run.node_usage.samples:
        return None
    idle = np.zeros(len(times) - 1)
    rows = []
    for host, amount in amounts.items():
        integrals = run.node_usage.samples.get((host, FlavorResource(NO_FLAVOR, resource)))
        used = idle if integrals is None else np.diff(np.array([0, *integrals], np.float64)) / np.diff(times)
        rows.append(used / amount)
    hosts, size = list(amounts), -(-len(amounts) // most)
    groups = [slice(first, first + size) for first in range(0, len(hosts), size)]
    names = [
        members[0] if len(members) == 1 else f"{members[0]} to {members[-1]}"
        for members in (hosts[group] for group in groups)
    ]
    shares = [np.mean(rows[group], axis=0).round(4).tolist() for group in groups]
    return HeatMap(names, run.node_usage.sampled_ms, shares)


def busiest_ms(run: Run) -> int:
    """Return the first sample at which the most jobs waited."""
    waiting = run.usage.waiting
    return run.usage.sampled_ms[int(np.argmax(waiting))] if waiting else 0


def window(run: Run, busiest: int, most: int = MOST_BARS) -> list[Bar]:
    """Return the jobs around ``busiest``, a time in ms, in order of submission, at most ``most``."""
    submitted = np.frombuffer(run.jobs.submitted_ms, np.int64)
    ended = np.frombuffer(run.jobs.ended_ms, np.int64)
    present = np.flatnonzero((submitted <= busiest) & ((ended == NEVER) | (ended >= busiest)))
    later = np.flatnonzero(submitted > busiest)
    chosen = np.sort(np.concatenate((present[-most:], later))[:most])
    return list(_bars(run, chosen.tolist()))


def _bars(run: Run, numbers: list[int]) -> Iterator[Bar]:
    jobs, classes = run.jobs, run.world.classes
    transitions: dict[int, list[tuple[int, Transition]]] = {number: [] for number in numbers}
    for at_ms, number, kind in zip(*run.transitions.columns, strict=True):
        if number in transitions:
            transitions[number].append((at_ms, Transition(kind)))
    for number in numbers:
        name = classes[jobs.class_index[number]].name
        yield Bar(
            job=f"{name} {number}",
            queue=str(run.queues[jobs.queue_index[number]]),
            intervals=tuple(_intervals(run, number, transitions[number])),
        )


def _intervals(run: Run, number: int, transitions: Sequence[tuple[int, Transition]]) -> Iterator[Interval]:
    """Yield what a job did, without phases of no length."""
    jobs = run.jobs
    admitted_ms, ended_ms = jobs.admitted_ms[number], jobs.ended_ms[number]
    changes = [(at_ms, _PHASE_AFTER[kind]) for at_ms, kind in transitions]
    if admitted_ms != NEVER and (not changes or changes[0][0] != admitted_ms):  # before the run
        changes.insert(0, (admitted_ms, Phase.RUNS))
    since_ms, phase = jobs.submitted_ms[number], Phase.WAITS
    for at_ms, following in (*changes, (run.ended_ms if ended_ms == NEVER else ended_ms, phase)):
        if at_ms > since_ms:
            yield Interval(since_ms, at_ms, phase)
        since_ms, phase = at_ms, following

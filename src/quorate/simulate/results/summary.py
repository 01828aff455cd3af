"""The figures of a run: waits, slowdown, utilisation and fairness; and the difference between two runs.

A wait lasts from the submission of an admitted job to its first admission.  The bounded slowdown of a
job that ended is the time from submission to its end, divided by the larger of its run time and 10 s, and at
least 1 (Feitelson, *Metrics for Parallel Job Scheduling and their Convergence*, 2001).  Fairness is Jain's
index of the use of the cluster queues in units of their nominal quota: 1 if all are equal (Jain et al.,
DEC-TR-301).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from quorate.api.kueue.topology import HOSTNAME
from quorate.kube.resources import CLUSTER_QUEUES
from quorate.quota.amount import as_quantity, base_units
from quorate.simulate.engine.clusters import ClustersRun
from quorate.simulate.engine.recorder import NO_FLAVOR, Run, Unended
from quorate.simulate.engine.records import NEVER, Outcome, Transition
from quorate.simulate.limits import NOTICED_MS

BOUND_MS: Final = 10_000.0
Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

Indexes = NDArray[np.unsignedinteger[Any]]


class Waits(msgspec.Struct, frozen=True, rename="camel"):
    """Of some jobs; times in seconds.  The figures are 0 if no job was admitted."""

    jobs: int
    admitted: int
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    slowdown: float  # the mean bounded slowdown of the jobs that ended
    preemptions: int
    evictions: int
    ended: int


NO_JOBS: Final = Waits(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0)


class Utilisation(msgspec.Struct, frozen=True, rename="camel"):
    """Of one flavor and resource of one cluster queue, over the whole run."""

    cluster_queue: str
    flavor: str
    resource: str
    nominal: str  # a quantity
    mean: str  # the mean amount in use
    share: float | None  # mean / nominal; None if nominal is 0


class NodeUse(msgspec.Struct, frozen=True, rename="camel"):
    """Of one resource of all nodes that have it, over the whole run."""

    resource: str
    nodes: int
    allocatable: str  # a quantity, the sum
    mean: str  # the mean amount in use
    share: float  # mean / allocatable
    least: float  # the share of the node with the smallest one
    most: float


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    duration_s: float  # virtual, until the last event
    jobs: Waits
    by_queue: dict[str, Waits]  # by local queue, as namespace/name
    by_class: dict[str, Waits]
    utilisation: tuple[Utilisation, ...]
    nodes: tuple[NodeUse, ...]  # empty if no pods had places on nodes
    fairness: float | None  # None with less than two cluster queues with nominal quota
    outcomes: dict[str, int]
    admissions: int  # a job that was evicted may have several
    waiting: tuple[Unended, ...]  # the first of the jobs that wait at the end, with reasons


def summarize(run: Run) -> Summary:
    """Return the figures of ``run``."""
    jobs = run.jobs
    columns = _Columns(run)
    transitions = np.bincount(np.frombuffer(run.transitions.kind, np.uint8), minlength=len(Transition))
    outcomes = np.bincount(np.frombuffer(jobs.outcome, np.uint8), minlength=len(Outcome))
    queue_index = np.frombuffer(jobs.queue_index, np.uint32)
    class_index = np.frombuffer(jobs.class_index, np.uint16)
    utilisation = tuple(_utilisation(run))
    return Summary(
        duration_s=run.ended_ms / 1000,
        jobs=columns.waits(np.ones(len(jobs), bool)),
        by_queue={str(key): columns.waits(queue_index == at) for at, key in enumerate(run.queues)},
        by_class={
            class_.name: columns.waits(class_index == at) for at, class_ in enumerate(run.world.classes)
        },
        utilisation=utilisation,
        nodes=tuple(node_use(run)),
        fairness=_fairness(utilisation),
        outcomes={outcome.name.lower(): int(outcomes[outcome]) for outcome in Outcome},
        admissions=int(transitions[Transition.ADMITTED]),
        waiting=run.waiting,
    )


def waits_ms(run: Run) -> Numbers:
    """Return the wait of each job in ms; NaN if it was never admitted."""
    submitted = np.frombuffer(run.jobs.submitted_ms, np.int64)
    admitted = np.frombuffer(run.jobs.admitted_ms, np.int64)
    return np.where(admitted == NEVER, np.nan, admitted - submitted)


class _Columns:
    """The records of a run as arrays."""

    def __init__(self, run: Run) -> None:
        jobs = run.jobs
        self.waits_ms = waits_ms(run)
        self.runs_ms = np.frombuffer(jobs.runs_ms, np.int64).astype(np.float64)
        submitted = np.frombuffer(jobs.submitted_ms, np.int64)
        ended = np.frombuffer(jobs.ended_ms, np.int64)
        self.ended: Mask = ended != NEVER
        in_system_ms = (ended - submitted).astype(np.float64)
        bound = np.maximum(self.runs_ms, BOUND_MS)
        self.slowdown = np.maximum(in_system_ms / bound, 1.0)
        self.preemptions = np.frombuffer(jobs.preemptions, np.uint32)
        self.evictions = np.frombuffer(jobs.evictions, np.uint32)

    def waits(self, chosen: Mask) -> Waits:
        """Return the figures of the chosen jobs."""
        waits = self.waits_ms[chosen]
        waits = waits[~np.isnan(waits)] / 1000
        p50, p90, p99 = np.percentile(waits, (50, 90, 99)).tolist() if len(waits) else (0.0, 0.0, 0.0)
        slowdown = self.slowdown[chosen & self.ended]
        return Waits(
            jobs=int(chosen.sum()),
            admitted=len(waits),
            mean_s=float(waits.mean()) if len(waits) else 0.0,
            p50_s=p50,
            p90_s=p90,
            p99_s=p99,
            slowdown=float(slowdown.mean()) if len(slowdown) else 0.0,
            preemptions=int(self.preemptions[chosen].sum()),
            evictions=int(self.evictions[chosen].sum()),
            ended=int((chosen & self.ended).sum()),
        )


def _utilisation(run: Run) -> Iterable[Utilisation]:
    """Yield the use of each flavor and resource of each cluster queue, in order."""
    for queue in run.world.of_kind(CLUSTER_QUEUES):
        for group in queue.spec.resource_groups:
            for flavor in group.flavors:
                for quota in flavor.resources:
                    name = queue.metadata.name
                    mean = run.usage.mean(name, flavor.name, quota.name, run.ended_ms)
                    nominal = base_units(quota.name, quota.nominal_quota)
                    yield Utilisation(
                        cluster_queue=name,
                        flavor=flavor.name,
                        resource=quota.name,
                        nominal=str(quota.nominal_quota),
                        mean=str(as_quantity(quota.name, round(mean))),
                        share=mean / nominal if nominal else None,
                    )


def _fairness(utilisation: Sequence[Utilisation]) -> float | None:
    """Return Jain's index of the largest share of each cluster queue that was used at all."""
    shares: dict[str, float] = {}
    for used_part in utilisation:
        if used_part.share is not None:
            shares[used_part.cluster_queue] = max(shares.get(used_part.cluster_queue, 0.0), used_part.share)
    used = [share for share in shares.values() if share > 0]
    if len(used) < 2:
        return None
    return sum(used) ** 2 / (len(used) * sum(share**2 for share in used))


def node_use(run: Run) -> Iterator[NodeUse]:
    """Yield the use of each resource in order; nothing if no pods had places on nodes."""
    if not run.node_usage.samples:
        return
    shares: dict[str, list[float]] = {}
    amounts: dict[str, int] = {}
    used: dict[str, float] = {}
    for node in run.world.nodes:
        for resource, quantity in node.status.allocatable.items():
            amount = base_units(resource, quantity)
            if not amount:
                continue
            host = node.metadata.labels[HOSTNAME]
            mean = run.node_usage.mean(host, NO_FLAVOR, resource, run.ended_ms)
            shares.setdefault(resource, []).append(mean / amount)
            amounts[resource] = amounts.get(resource, 0) + amount
            used[resource] = used.get(resource, 0.0) + mean
    for resource in sorted(shares):
        yield NodeUse(
            resource=resource,
            nodes=len(shares[resource]),
            allocatable=str(as_quantity(resource, amounts[resource])),
            mean=str(as_quantity(resource, round(used[resource]))),
            share=used[resource] / amounts[resource],
            least=min(shares[resource]),
            most=max(shares[resource]),
        )


class ClusterUse(msgspec.Struct, frozen=True, rename="camel"):
    jobs: int  # of the manager, which the cluster started
    preemptions: int
    evictions: int  # for another reason
    share: float | None  # the largest share of the quota of a flavor that was used on average


class ClustersSummary(msgspec.Struct, frozen=True, rename="camel"):
    """Of one dispatcher in one world; a job is admitted when a cluster starts it."""

    name: str  # of the run
    jobs: Waits
    copies: int  # workloads created in clusters
    moved: int  # of these: removed before any cluster started the job
    clusters: dict[str, ClusterUse]


def summarize_clusters(name: str, run: ClustersRun) -> ClustersSummary:
    """Return the figures of ``run``, called ``name``."""
    started = Counter(run.started_in.values())
    clusters = {}
    for cluster, worker in run.workers.items():
        summary = summarize(worker)
        shares = [use.share for use in summary.utilisation if use.share is not None]
        clusters[cluster] = ClusterUse(
            jobs=started[cluster],
            preemptions=summary.jobs.preemptions,
            evictions=summary.jobs.evictions,
            share=max(shares, default=None),
        )
    return ClustersSummary(name, summarize(run.manager).jobs, run.copies, run.moved, clusters)


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

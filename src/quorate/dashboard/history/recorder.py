"""What is recorded: samples of each cluster queue and of the whole cluster, and transitions of workloads."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from quorate.api.kueue import Workload
from quorate.api.meta import Key, epoch
from quorate.api.quantity import NANOS
from quorate.api.volcano import PENDING, PodGroup
from quorate.dashboard.history.store import RAW_S, StoredSample, StoredTransition
from quorate.dashboard.history.timeline import true_steps
from quorate.dashboard.limits import MAX_WAITS
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.observe.workload_transitions import transition_samples
from quorate.queueing.restored_history import stored_preemption
from quorate.quota.amount import as_quantity

OVERVIEW: Final = "overview"
PENDING_COUNT: Final = "pending"
ADMITTED_COUNT: Final = "admitted"
WAITS: Final = {"wait p50": 0.5, "wait p90": 0.9}
_ADMISSION_WAIT: Final = "admission_wait_time_seconds"


def queue_subject(name: str) -> str:
    return f"queue/{name}"


class Recorder:
    """Collects waits between two samples; everything else is read from the data of the moment."""

    def __init__(self) -> None:
        self._waits: list[float] = []  # of the workloads admitted since the last sample, in seconds
        self.pending: list[StoredTransition] = []  # to be written

    def workload_changed(self, data: ClusterData, old: Workload | None, new: Workload) -> None:
        """Record the steps that ``new`` shows and ``old`` does not."""
        before = set() if old is None else {(step.step, step.at, step.reason) for step in true_steps(old)}
        for step in true_steps(new):
            if (step.step, step.at, step.reason) in before:
                continue
            preemptor = data.workloads.key_of_uid(_preemptor(new)) if step.step == "Preempted" else None
            self.pending.append(
                StoredTransition(
                    at=epoch(step.at),
                    kind="Workload",
                    namespace=new.metadata.namespace,
                    name=new.metadata.name,
                    uid=new.metadata.uid,
                    step=step.step,
                    reason=step.reason,
                    message=step.message,
                    preemptor="" if preemptor is None else str(preemptor),
                    cluster_queue=_cluster_queue(data, old, new),
                )
            )
        if old is not None and len(self._waits) < MAX_WAITS:
            for sample in transition_samples(old, new):
                if sample.name == _ADMISSION_WAIT and sample.seconds is not None:
                    self._waits.append(sample.seconds)

    def group_changed(self, old: PodGroup | None, new: PodGroup, now: float) -> None:
        """Record a new phase of a pod group, of which the object has no time."""
        phase = new.status.phase or PENDING
        if old is None or phase == (old.status.phase or PENDING):
            return
        self.pending.append(
            StoredTransition(
                at=float(int(now)), kind="PodGroup", namespace=new.metadata.namespace,
                name=new.metadata.name, uid=new.metadata.uid, step=phase, reason="", message="",
                preemptor="", cluster_queue="",
            )
        )  # fmt: skip

    def samples(self, data: ClusterData, now: float) -> Iterator[StoredSample]:
        """Yield the samples of this moment."""
        at = int(now) // RAW_S * RAW_S
        pending = admitted = 0
        for name, queue in data.ledger.cluster_queues.items():
            totals, number = queue.totals, len(queue.pending)
            means: dict[str, float] = {PENDING_COUNT: number, ADMITTED_COUNT: totals.admitted}
            for pair, limits in queue.node.limits.items():
                used = totals.reserved_usage.get(pair, 0)
                means[f"{pair.flavor}/{pair.resource} used"] = _whole_units(pair.resource, used)
                means[f"{pair.flavor}/{pair.resource} nominal"] = _whole_units(pair.resource, limits.nominal)
            pending, admitted = pending + number, admitted + totals.admitted
            yield StoredSample(queue_subject(name), RAW_S, at, 1, means)
        means = {PENDING_COUNT: pending, ADMITTED_COUNT: admitted, **used_shares(data)}
        if self._waits:
            means |= {name: _percentile(self._waits, share) for name, share in WAITS.items()}
        self._waits = []
        yield StoredSample(OVERVIEW, RAW_S, at, 1, means)


def used_shares(data: ClusterData) -> dict[str, float]:
    """Return the part of the nominal quota of all cluster queues that is used, by resource."""
    nominal: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for queue in data.ledger.cluster_queues.values():
        for pair, limits in queue.node.limits.items():
            nominal[pair.resource] += limits.nominal
            used[pair.resource] += queue.totals.reserved_usage.get(pair, 0)
    return {
        f"{resource} used share": used[resource] / amount
        for resource, amount in sorted(nominal.items())
        if amount > 0
    }


def _whole_units(resource: str, amount: int) -> float:
    return as_quantity(resource, amount).nanos / NANOS


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _preemptor(workload: Workload) -> str:
    preemption = stored_preemption(workload)
    return "" if preemption is None else preemption.preemptor


def _cluster_queue(data: ClusterData, old: Workload | None, new: Workload) -> str:
    """Return the cluster queue in which the workload is, or was when it lost its quota."""
    for workload in (new, old):
        if workload is not None and workload.status.admission is not None:
            return workload.status.admission.cluster_queue
    return data.cluster_queue_of_workload(Key(new.metadata.namespace, new.metadata.name))

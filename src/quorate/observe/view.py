"""A read-only view of the model and the workloads of a replica, for metrics and the visibility API."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from quorate.api.configuration.process import Metrics
from quorate.api.kueue import ClusterQueue, Cohort, Workload
from quorate.api.meta import Key, find_condition, matches_selector
from quorate.api.quorate import Reservation
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import RESERVATIONS
from quorate.observe.custom_labels import CustomLabels
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import LocalQueueState
from quorate.queueing.ledger import Ledger
from quorate.queueing.planning.bounds import LearnedBounds
from quorate.queueing.state import State

Labels = tuple[tuple[str, str], ...]


class View:
    """Create it before the informer ``workloads`` runs, so that it counts every change."""

    def __init__(
        self,
        state: State,
        workloads: Informer[Workload],
        custom: CustomLabels,
        informers: Sequence[Informer[Any]] = (),
    ) -> None:
        """``informers`` hold all objects that the model is made of."""
        self.state = state
        self.informers = tuple(informers)
        # Takes over learned bounds; what decides by the model sets it, to decide again.
        self.learn: Callable[[LearnedBounds], None] = state.set_learned_bounds
        self._workloads = workloads
        self.custom = custom
        # Unfinished admitted workloads, by the labels of a cluster queue or of a local queue and the custom
        # labels of the workload; empty if workloads give no labels.
        self.admitted: dict[Labels, Counter[Labels]] = {}
        # Finished workloads that still exist; the model does not keep them.
        self.finished_in_cluster_queue: Counter[str] = Counter()
        self.finished_in_local_queue: Counter[Key] = Counter()
        # Workloads that are neither admitted nor finished, by local queue, the cluster queue of their quota
        # reservation or "", and the reasons of Admitted and of QuotaReserved.
        self.unadmitted: Counter[tuple[Key, str, str, str]] = Counter()
        # Cohorts that continue without an object.  As in Kueue, their gauges of quota and share return with
        # the next change of an object below.
        self.deleted_cohorts: set[str] = set()
        workloads.subscribe(self._changed)

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of the model."""
        return self.state.ledger

    def workload(self, key: Key) -> Workload | None:
        """Return the workload of the model, else the stored workload; None if there is no such workload."""
        ledger = self.ledger
        entry = ledger.entries.get(key) or ledger.reservations.get(key)
        return self._workloads.get(key) if entry is None else entry.workload

    def reservations(self) -> Iterator[Reservation]:
        """Yield the stored Reservations."""
        for informer in self.informers:
            if informer.resource is RESERVATIONS:
                yield from informer

    def workload_keys(self, namespace: str) -> list[Key]:
        """Return the stored workloads of a namespace, or of all if it is empty, in order."""
        keys = self._workloads.keys()
        return sorted(key for key in keys if namespace in ("", key.namespace))

    def cohort_changed(self, change: Change[Cohort]) -> None:
        """Call it after the model has the change, like ``cluster_queue_changed``."""
        if change.new is None and change.key.name in self.ledger.cohorts:
            self.deleted_cohorts.add(change.key.name)
        else:
            self._changed_below(change.key.name)

    def cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        for queue in change.versions:
            self._changed_below(queue.spec.cohort_name)

    def _changed_below(self, cohort: str) -> None:
        node = self.ledger.cohorts.get(cohort)
        above = () if node is None else node.path()
        self.deleted_cohorts -= {cohort, *(ancestor.name for ancestor in above)}

    def _changed(self, change: Change[Workload]) -> None:
        for workload, sign in ((change.old, -1), (change.new, 1)):
            if workload is not None and c.is_finished(workload):
                self.finished_in_local_queue[local_queue_of(workload)] += sign
                if workload.status.admission is not None:
                    self.finished_in_cluster_queue[workload.status.admission.cluster_queue] += sign
            elif workload is not None and not c.is_admitted(workload):
                self._count_unadmitted(workload, sign)
            elif workload is not None:
                self._count_admitted(workload, sign)

    def _count_admitted(self, workload: Workload, sign: int) -> None:
        admission = workload.status.admission
        if admission is None or not self.custom.names(("Workload",)):
            return
        values = tuple(self.custom.values_of("Workload", workload.metadata).items())
        local = local_queue_labels(local_queue_of(workload))
        for queue in ({"cluster_queue": admission.cluster_queue}, local):
            counts = self.admitted.setdefault(tuple(queue.items()), Counter())
            counts[values] += sign
            if not counts[values]:
                del counts[values]
            if not counts:
                del self.admitted[tuple(queue.items())]

    def _count_unadmitted(self, workload: Workload, sign: int) -> None:
        admission = workload.status.admission
        labels = (
            local_queue_of(workload),
            admission.cluster_queue if admission is not None else "",
            _reason(workload, c.ADMITTED, c.NO_RESERVATION),
            ""
            if c.has_quota_reservation(workload)
            else _reason(workload, c.QUOTA_RESERVED, c.PENDING_EVALUATION),
        )
        self.unadmitted[labels] += sign
        if not self.unadmitted[labels]:
            del self.unadmitted[labels]


def local_queue_of(workload: Workload) -> Key:
    return Key(workload.metadata.namespace, workload.spec.queue_name)


def _reason(workload: Workload, type_: str, unset: str) -> str:
    """Return the reason of a condition, ``unset`` if the workload does not have it."""
    condition = find_condition(workload.status.conditions, type_)
    return unset if condition is None else condition.reason


def local_queue_labels(key: Key) -> dict[str, str]:
    return {"name": key.name, "namespace": key.namespace}


def is_shown(queue: LocalQueueState, rules: Metrics) -> bool:
    """Return True if a local queue has series of its own."""
    if queue.object is None or rules.local_queues is None:
        return False
    return matches_selector(rules.local_queues, queue.object.metadata.labels)

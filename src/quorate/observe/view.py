"""What a replica knows of the cluster, for those who look: they read the model and leave it alone."""

from collections import Counter

from quorate.api.configuration.process import Metrics
from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition, matches_selector
from quorate.kube.informer import Change, Informer
from quorate.observe.custom_labels import CustomLabels
from quorate.queueing.cluster_queue import LocalQueueState
from quorate.queueing.conditions import (
    ADMITTED,
    NO_RESERVATION,
    PENDING_EVALUATION,
    QUOTA_RESERVED,
    has_quota_reservation,
    is_admitted,
    is_finished,
)
from quorate.queueing.state import State


class View:
    """Made before ``workloads`` runs, so that it sees every change."""

    def __init__(self, state: State, workloads: Informer[Workload], custom: CustomLabels) -> None:
        self.state = state
        self.custom = custom
        # Admitted workloads that have not finished: by cluster queue, and by the custom labels they give.
        self.admitted: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        # Finished workloads that still exist: the model forgets them.
        self.finished_in_cluster_queue: Counter[str] = Counter()
        self.finished_in_local_queue: Counter[Key] = Counter()
        # Workloads that are neither admitted nor finished: by local queue, by the cluster queue that holds
        # quota for them or nothing, and by the reasons of Admitted and of QuotaReserved.
        self.unadmitted: Counter[tuple[Key, str, str, str]] = Counter()
        workloads.subscribe(self._changed)

    def _changed(self, change: Change[Workload]) -> None:
        for workload, sign in ((change.old, -1), (change.new, 1)):
            if workload is not None and is_finished(workload):
                self.finished_in_local_queue[local_queue_of(workload)] += sign
                if workload.status.admission is not None:
                    self.finished_in_cluster_queue[workload.status.admission.cluster_queue] += sign
            elif workload is not None and not is_admitted(workload):
                self._count_unadmitted(workload, sign)
            elif workload is not None:
                self._count_admitted(workload, sign)

    def _count_admitted(self, workload: Workload, sign: int) -> None:
        admission = workload.status.admission
        if admission is not None and self.custom.names(("Workload",)):
            values = self.custom.values_of("Workload", workload.metadata)
            one = (admission.cluster_queue, tuple(values.items()))
            self.admitted[one] += sign
            if not self.admitted[one]:
                del self.admitted[one]

    def _count_unadmitted(self, workload: Workload, sign: int) -> None:
        admission = workload.status.admission
        why = (
            local_queue_of(workload),
            admission.cluster_queue if admission is not None else "",
            _reason(workload, ADMITTED, NO_RESERVATION),
            "" if has_quota_reservation(workload) else _reason(workload, QUOTA_RESERVED, PENDING_EVALUATION),
        )
        self.unadmitted[why] += sign
        if not self.unadmitted[why]:
            del self.unadmitted[why]


def local_queue_of(workload: Workload) -> Key:
    return Key(workload.metadata.namespace, workload.spec.queue_name)


def _reason(workload: Workload, type_: str, unset: str) -> str:
    """Of a condition that is false; ``unset`` while nobody has said anything."""
    found = find_condition(workload.status.conditions, type_)
    return unset if found is None else found.reason


def local_queue_labels(key: Key) -> dict[str, str]:
    return {"name": key.name, "namespace": key.namespace}


def is_shown(queue: LocalQueueState, rules: Metrics) -> bool:
    """Whether a local queue has series of its own."""
    if queue.object is None or rules.local_queues is None:
        return False
    return matches_selector(rules.local_queues, queue.object.metadata.labels)

"""What a replica knows of the cluster, for those who look: they read the model and leave it alone."""

from collections import Counter

from quorate.api.configuration_process import Metrics
from quorate.api.kueue import Workload
from quorate.api.meta import Key, matches_selector
from quorate.kube.informer import Change, Informer
from quorate.queueing.conditions import is_finished
from quorate.queueing.queues import LocalQueueState
from quorate.queueing.state import State


class View:
    """Made before ``workloads`` runs, so that it sees every change."""

    def __init__(self, state: State, workloads: Informer[Workload]) -> None:
        self.state = state
        # Finished workloads that still exist: the model forgets them.
        self.finished_in_cluster_queue: Counter[str] = Counter()
        self.finished_in_local_queue: Counter[Key] = Counter()
        workloads.subscribe(self._changed)

    def _changed(self, change: Change[Workload]) -> None:
        for workload, sign in ((change.old, -1), (change.new, 1)):
            if workload is not None and is_finished(workload):
                self.finished_in_local_queue[local_queue_of(workload)] += sign
                if workload.status.admission is not None:
                    self.finished_in_cluster_queue[workload.status.admission.cluster_queue] += sign


def local_queue_of(workload: Workload) -> Key:
    return Key(workload.metadata.namespace, workload.spec.queue_name)


def local_queue_labels(key: Key) -> dict[str, str]:
    return {"name": key.name, "namespace": key.namespace}


def is_shown(queue: LocalQueueState, rules: Metrics) -> bool:
    """Whether a local queue has series of its own."""
    if queue.object is None or rules.local_queues is None:
        return False
    return matches_selector(rules.local_queues, queue.object.metadata.labels)

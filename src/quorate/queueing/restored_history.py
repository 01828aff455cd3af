"""The preemption history of a new process, restored from the stored workloads.

The condition Preempted names the last preemptor of a workload, and the times in the statuses show the last
external event, as far as it left a trace.  See ``preemption.history``.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.ledger import Ledger
from quorate.quota.tree import Node

_PREEMPTOR: Final = re.compile(r"Preempted to accommodate a workload \(UID: ([^,)]+), ")


class StoredPreemption(NamedTuple):
    """The last preemption of a workload, or its next start after it, as its status tells."""

    preemptor: Uid
    at: float  # epoch seconds


def stored_preemption(workload: Workload) -> StoredPreemption | None:
    """Return the last preemption of ``workload``; None if it was never preempted."""
    preempted = find_condition(workload.status.conditions, c.PREEMPTED)
    match = None if preempted is None else _PREEMPTOR.search(preempted.message)
    if preempted is None or match is None:
        return None
    return StoredPreemption(Uid(match[1]), c.transition_time(preempted))


def last_external_event(workload: Workload) -> float:
    """Return the latest time (epoch seconds) at which ``workload`` took part in an external event."""
    conditions = workload.status.conditions
    times = [c.created_at(workload)]
    finished, evicted = find_condition(conditions, c.FINISHED), find_condition(conditions, c.EVICTED)
    if finished is not None:
        times.append(c.transition_time(finished))
    if evicted is not None and evicted.status == "True" and evicted.reason != "Preempted":
        times.append(c.transition_time(evicted))
    return max(times)


def restore_preemption_history(ledger: Ledger, workloads: Iterable[Workload]) -> None:
    """Restore the preemption history from ``workloads``, all that are stored, before the first cycle."""
    external_at: dict[Node, float] = {}
    preemptions: list[tuple[Node, StoredPreemption, Uid]] = []
    for workload in workloads:
        queue = _cluster_queue_of(ledger, workload)
        if queue is None:
            continue
        root = queue.node.root
        external_at[root] = max(external_at.get(root, 0.0), last_external_event(workload))
        preemption = stored_preemption(workload)
        if preemption is not None and not c.is_finished(workload):
            preemptions.append((root, preemption, workload.metadata.uid))
    for root, preemption, victim in preemptions:
        if preemption.at >= external_at[root]:
            ledger.preemption_history.record(root, preemption.preemptor, victim)


def _cluster_queue_of(ledger: Ledger, workload: Workload) -> ClusterQueueState | None:
    """Return the cluster queue that reserved quota for ``workload``, or in which it is to get some."""
    admission = workload.status.admission
    if admission is not None:
        return ledger.cluster_queues.get(admission.cluster_queue)
    local_queue = ledger.local_queues.get(Key(workload.metadata.namespace, workload.spec.queue_name))
    return None if local_queue is None else ledger.cluster_queues.get(local_queue.cluster_queue)

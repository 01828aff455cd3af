"""Use of quota by pods beyond what is charged for their workload.

A tenant may remove the gate of a pod, or create a job that an admitted job owns, and nothing prevents this
without a webhook that looks at each pod.  What such pods use counts in the cluster queue of the workload,
whatever the state of the workload is, so that no other workload is admitted on it.  The controllers record it
as an annotation of the workload: the model, other processes and the next leader read it there.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.quantity import Quantity
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.queue_trees import QueueTrees
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Usage, as_quantity, base_units

ANNOTATION: Final = "quorate.dev/outside-quota"  # of a workload


@dataclass(frozen=True, slots=True)
class OutsideUse:
    """What pods of a workload use of the quota of a cluster queue, beyond what that workload is charged."""

    cluster_queue: str
    usage: Usage  # no amount is 0


class _Recorded(msgspec.Struct, frozen=True, rename="camel"):
    """The annotation: amounts by flavor and resource."""

    cluster_queue: str
    flavors: Mapping[str, Mapping[str, Quantity]]


def recorded_use(workload: Workload) -> OutsideUse | None:
    """Return what the annotation records; None without the annotation, or if another program wrote it."""
    text = workload.metadata.annotations.get(ANNOTATION)
    if text is None:
        return None
    try:
        recorded = codec.decode(_Recorded, text.encode())
    except msgspec.DecodeError:
        return None
    usage = {
        FlavorResource(flavor, resource): base_units(resource, amount)
        for flavor, amounts in recorded.flavors.items()
        for resource, amount in amounts.items()
    }
    return OutsideUse(recorded.cluster_queue, {pair: amount for pair, amount in usage.items() if amount > 0})


def as_annotation(use: OutsideUse) -> str:
    """Return the value of the annotation that records ``use``."""
    flavors: dict[str, dict[str, Quantity]] = {}
    for pair, amount in sorted(use.usage.items()):
        flavors.setdefault(pair.flavor, {})[pair.resource] = as_quantity(pair.resource, amount)
    return codec.encode(_Recorded(use.cluster_queue, flavors)).decode()


def is_larger(use: OutsideUse | None, recorded: OutsideUse | None) -> bool:
    """Return True if ``use`` is more of anything than ``recorded``, or of another cluster queue."""
    if use is None or recorded is None or use.cluster_queue != recorded.cluster_queue:
        return use is not None
    return any(amount > recorded.usage.get(pair, 0) for pair, amount in use.usage.items())


class OutsideUsage(QueueTrees):
    """The recorded uses of all workloads; a use in an existing cluster queue is part of the queue's usage."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: dict[Key, OutsideUse] = {}

    def put_outside(self, workload: Key, use: OutsideUse | None) -> None:
        """Replace the recorded use of a workload; None: it has none."""
        old = self.outside.get(workload)
        if old == use:
            return
        if old is not None:
            del self.outside[workload]
            if (queue := self.cluster_queues.get(old.cluster_queue)) is not None:
                self._count(queue, workload, None)
                queue.generation += 1
                self.note_external_change(queue)
        if use is not None:
            self.outside[workload] = use
            if (queue := self.cluster_queues.get(use.cluster_queue)) is not None:
                self._count(queue, workload, use.usage)
                self.note_usage_change(queue)

    def count_outside(self, queue: ClusterQueueState) -> None:
        """Count the recorded uses of a cluster queue that has just been added."""
        for workload, use in self.outside.items():
            if use.cluster_queue == queue.name:
                self._count(queue, workload, use.usage)

    def uncount_outside(self, queue: ClusterQueueState) -> None:
        """Remove all recorded uses from the usage of a cluster queue that is removed."""
        for workload in list(queue.outside):
            self._count(queue, workload, None)

    @contextmanager
    def without_outside(self, queue: ClusterQueueState, workload: Key) -> Iterator[None]:
        """Leave what pods of ``workload`` use outside of quota out of the usage of ``queue``."""
        usage = queue.outside.get(workload)
        self._count(queue, workload, None)
        try:
            yield
        finally:
            self._count(queue, workload, usage)

    def _count(self, queue: ClusterQueueState, workload: Key, usage: Usage | None) -> None:
        old = queue.outside.pop(workload, None)
        if old is not None:
            tree.remove_usage(queue.node, old)
        if usage is not None:
            queue.outside[workload] = usage
            tree.add_usage(queue.node, usage)

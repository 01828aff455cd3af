"""How long workloads wait until their admission, by their size."""

from collections.abc import Iterator
from typing import Final

from quorate.api.kueue import Workload
from quorate.api.meta import true_condition
from quorate.observe.workload_transitions import Sample
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState, usage_of

# Part of the nominal quota that a workload uses of the resource of which it uses most, up to the first bound.
_SIZES: Final = ((0.1, "small"), (0.5, "medium"))
_LARGEST: Final = "large"


def wait_by_size(old: Workload, new: Workload, queue: ClusterQueueState) -> Iterator[Sample]:
    """Yield how long a workload of ``queue`` waited that was admitted, by its size."""
    admitted = true_condition(new.status.conditions, c.ADMITTED)
    if admitted is None or true_condition(old.status.conditions, c.ADMITTED) is not None:
        return
    waited_s = max(0.0, c.transition_time(admitted) - c.queued_since(new))
    yield Sample("quorate_admission_wait_by_size_seconds", {"size": size_class(new, queue)}, waited_s)


def size_class(workload: Workload, queue: ClusterQueueState) -> str:
    """Return ``small`` up to a tenth of the nominal quota of ``queue``, ``medium`` up to half, ``large``."""
    admission = workload.status.admission
    part = 0.0
    for pair, amount in (usage_of(workload, admission) if admission is not None else {}).items():
        limits = queue.node.limits.get(pair)
        nominal = 0 if limits is None else limits.nominal
        if amount:
            part = max(part, amount / nominal if nominal else 1.0)
    return next((name for most, name in _SIZES if part <= most), _LARGEST)

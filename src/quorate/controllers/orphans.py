"""Workloads whose job is gone: nobody will run them any more, and nobody else lets them go."""

from collections.abc import Iterable

from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import Workload
from quorate.controllers.finalizers import released
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Write, status_patch
from quorate.queueing.lifecycle.statuses import finish_status


def let_go(workloads: Iterable[Workload], gates: Gates, now: float) -> tuple[Write, ...]:
    """The writes that finish each, unless a gate leaves that or it is being deleted, and let it go."""
    writes: list[Write] = []
    for workload in workloads:
        if gates.finish_orphaned_workloads and workload.metadata.deletion_timestamp is None:
            gone = finish_status(workload, "OwnerNotFound", "The job of the workload is gone", now)
            writes += status_patch(WORKLOADS, workload, gone)
        writes += released(WORKLOADS, workload.metadata)
    return tuple(writes)

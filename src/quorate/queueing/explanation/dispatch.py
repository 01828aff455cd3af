"""What an explanation says of worker clusters: where a workload runs, or which of them may admit it."""

from quorate.api.explanation import Dispatch
from quorate.api.kueue import Workload
from quorate.api.meta import find_condition
from quorate.api.names.multikueue import CLUSTER_CHOICE


def dispatch_of(workload: Workload) -> Dispatch | None:
    """Return the worker clusters of a workload; None if there are none."""
    status = workload.status
    if not status.cluster_name and not status.nominated_cluster_names:
        return None
    choice = find_condition(status.conditions, CLUSTER_CHOICE)
    why = "" if choice is None else choice.message
    return Dispatch(
        cluster=status.cluster_name,
        nominated=status.nominated_cluster_names,
        choice=why,
        since=None if choice is None else choice.last_transition_time,
        text=f"{_text(workload)}{f' ({why})' if why else ''}",
    )


def awaited_clusters(workload: Workload) -> str:
    """Return what a workload needs that waits for its MultiKueue check."""
    nominated = workload.status.nominated_cluster_names
    if not nominated:
        return "a worker cluster must be nominated"
    if len(nominated) == 1:
        return f"worker cluster {nominated[0]} must admit it"
    return f"one of the worker clusters {', '.join(nominated)} must admit it"


def _text(workload: Workload) -> str:
    status = workload.status
    if status.cluster_name:
        return f"worker cluster {status.cluster_name} has admitted it"
    clusters = ", ".join(status.nominated_cluster_names)
    return f"nominated worker cluster{'' if len(status.nominated_cluster_names) == 1 else 's'}: {clusters}"

"""Requests of a gated pod, compared with what its admitted workload is charged for each pod of its pod set.

The role of a pod is an annotation of its author, so that a pod may name the role of smaller pods, and a
workload of its author may have pods of any size.  Such a pod stays gated.
"""

from quorate.api import codec
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import PodSpec, PodTemplate
from quorate.api.core.pod_resources import PodResources, pod_requests
from quorate.api.kueue import PodSet, PodSetAssignment
from quorate.controllers.pods.queued_pod import QueuedPod
from quorate.queueing.pending.effective_requests import quota_requests
from quorate.quota.amount import as_quantity, base_units


def uncharged_requests(
    pod: QueuedPod, pod_set: PodSet, assignment: PodSetAssignment, options: ResourceOptions
) -> str:
    """Return how the pod exceeds its share of the charged usage, such as ``cpu 8, charged 1``; empty if not.

    A pod that requests no more than the pod set's template may always start: another program may have
    reserved less.  An extended resource that is not charged at all may not exceed the template's.  Other
    resources that are not charged have no quota, or are defaults of the namespace.
    """
    requested = _counted(codec.decode(PodSpec, pod.spec), options)
    count = assignment.count or 0
    usage = {name: base_units(name, amount) for name, amount in assignment.resource_usage.items()}
    charged = {name: 0 for name in requested if "/" in name}
    charged |= {name: amount // count if count else 0 for name, amount in usage.items()}
    exceeded = sorted(name for name in charged if requested.get(name, 0) > charged[name])
    if not exceeded:
        return ""
    template = _counted(codec.decode(PodTemplate, pod_set.template).spec, options)
    return "; ".join(
        f"{name} {as_quantity(name, requested[name])}, charged {as_quantity(name, charged[name])}"
        for name in exceeded
        if requested[name] > template.get(name, 0)
    )


def _counted(spec: PodResources, options: ResourceOptions) -> dict[str, int]:
    return quota_requests(pod_requests(spec), options)

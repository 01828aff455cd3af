"""Requests of a pod, compared with what its admitted workload is charged for each pod of its pod set.

The role of a pod is an annotation of its author, so that a pod may name the role of smaller pods, and a
workload of its author may have pods of any size.  Such a pod stays gated.

A running pod that was resized in place (KEP-1287) has other cpu and memory than its workload.  As in Kueue, a
pod that differs from its workload is stopped, but a resize within what is charged is no such difference.
"""

import copy
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import PodSpec, PodTemplate
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import PodResources, pod_requests
from quorate.api.kueue import PodSet, PodSetAssignment, Workload
from quorate.controllers.jobframework.ensure_one_workload import is_equivalent
from quorate.controllers.jobframework.podset_info import read_template
from quorate.queueing.pending.effective_requests import quota_requests
from quorate.quota.amount import as_quantity, base_units

_RESIZABLE: Final = ("cpu", "memory")


def uncharged_requests(
    pod: Pod, pod_set: PodSet, assignment: PodSetAssignment, options: ResourceOptions
) -> str:
    """Return how the pod exceeds its share of the charged usage, such as ``cpu 8, charged 1``; empty if not.

    A pod that requests no more than the pod set's template may always start: another program may have
    reserved less.  An extended resource that is not charged at all may not exceed the template's.  Other
    resources that are not charged have no quota, or are defaults of the namespace.
    """
    requested = _counted(codec.decode(PodSpec, pod.written), options)
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


def is_resized(workload: Workload, pod_set: PodSet, maximum_execution_s: int | None) -> bool:
    """Return True if a running pod fits its ``workload``, but for amounts that a resize changes."""
    unsized = tuple(map(_unsized, workload.spec.pod_sets))
    spec = msgspec.structs.replace(workload.spec, pod_sets=unsized)
    other = msgspec.structs.replace(workload, spec=spec)
    return is_equivalent(other, (_unsized(pod_set),), maximum_execution_s, suspended=False)


def _unsized(pod_set: PodSet) -> PodSet:
    """Return the pod set without the amounts that can be resized, for comparison."""
    template = copy.deepcopy(read_template(pod_set.template))
    spec = template.get("spec") or {}
    for part in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        part["resources"] = _without_amounts(part.get("resources") or {})
    return msgspec.structs.replace(pod_set, template=msgspec.Raw(codec.encode(template)))


def _without_amounts(resources: dict[str, Any]) -> dict[str, Any]:
    kept = {
        field: {name: amount for name, amount in (value or {}).items() if name not in _RESIZABLE}
        if field in ("requests", "limits")
        else value
        for field, value in resources.items()
    }
    return {field: value for field, value in kept.items() if value}

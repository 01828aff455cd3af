"""A running pod that was resized in place (KEP-1287): its cpu and memory differ from those of its workload.

As in Kueue, a pod that differs from its workload is stopped.  A resize within the quota that the workload is
charged for is no such difference.
"""

import copy
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.kueue import PodSet, Workload
from quorate.controllers.jobframework.equivalence import is_equivalent
from quorate.controllers.jobframework.podset_info import read_template

_RESIZABLE: Final = ("cpu", "memory")


def is_resized(workload: Workload, pod_set: PodSet, maximum_execution_s: int | None) -> bool:
    """Return True if a running pod is the one of its ``workload``, but for amounts that a resize changes."""
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

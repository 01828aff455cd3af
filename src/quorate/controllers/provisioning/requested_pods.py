"""What is asked of the autoscaler: which pods, in how many templates, and what those templates say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.core import Container
from quorate.api.kueue import (
    SLICE_NAME,
    WORKLOAD_ANNOTATION,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    Workload,
)
from quorate.api.kueue.provisioning import MergePolicy, ProvisioningRequestConfigSpec
from quorate.controllers.jobframework.podset_info import InjectionConflict, inject
from quorate.controllers.jobframework.starting import FlavorNotSeen, info_of
from quorate.controllers.provisioning.request_names import CLASS_NAME, CONSUMES
from quorate.kube.patches import merged
from quorate.kube.resources import Json

# What an earlier admission left in the template; these pods are neither of it, nor of its request.
_STALE: Final = (CONSUMES, CLASS_NAME, WORKLOAD_ANNOTATION, SLICE_NAME)
# Parts of a pod spec that say where it may run, besides what its containers request.
_REQUIREMENTS: Final = ("resources", "nodeSelector", "tolerations", "affinity", "resourceClaims")


@dataclass(frozen=True, slots=True)
class RequestedPods:
    """Equal pods of one or, merged, of several pod sets."""

    pod_set: PodSet  # whose template stands for all, and whose name names it
    assignment: PodSetAssignment
    count: int
    covers: tuple[str, ...]  # the names of the pod sets, in their order


def requested_pods(workload: Workload, config: ProvisioningRequestConfigSpec) -> tuple[RequestedPods, ...]:
    """The pods of the reservation that need a managed resource; none: no request is needed."""
    admission = workload.status.admission
    assignments = {} if admission is None else {each.name: each for each in admission.pod_set_assignments}
    asked: list[RequestedPods] = []
    for pod_set in workload.spec.pod_sets:
        assignment = assignments.get(pod_set.name, PodSetAssignment(name=pod_set.name))
        count = pod_set.count if assignment.count is None else assignment.count
        if pod_set.count <= 0 or count <= 0 or not _uses(pod_set, config.managed_resources):
            continue
        for index, before in enumerate(asked):
            if _are_alike(before.pod_set, pod_set, config.pod_set_merge_policy):
                covers = (*before.covers, pod_set.name)
                asked[index] = replace(before, count=before.count + count, covers=covers)
                break
        else:
            asked.append(RequestedPods(pod_set, assignment, count, (pod_set.name,)))
    return tuple(asked)


def _uses(pod_set: PodSet, managed: Sequence[str]) -> bool:
    if not managed:
        return True
    spec = decode_template(pod_set.template).spec
    return any(
        resource in container.resources.requests or resource in container.resources.limits
        for container in (*spec.init_containers, *spec.containers)
        for resource in managed
    )


def _are_alike(one: PodSet, other: PodSet, policy: MergePolicy | None) -> bool:
    if policy is None:
        return False
    first, second = _template(one), _template(other)
    if policy == "IdenticalPodTemplates":
        return first == second
    spec, other_spec = first.get("spec") or {}, second.get("spec") or {}
    if any((spec.get(part) or None) != (other_spec.get(part) or None) for part in _REQUIREMENTS):
        return False
    pods, other_pods = decode_template(one.template).spec, decode_template(other.template).spec
    return _requests(pods.containers) == _requests(other_pods.containers) and _requests(
        pods.init_containers
    ) == _requests(other_pods.init_containers)


def _requests(containers: Sequence[Container]) -> list[object]:
    return [container.resources.requests for container in containers]


def _template(pod_set: PodSet) -> Json:
    template: Json = codec.decode(dict[str, Any], pod_set.template)
    return template


def pod_template(
    asked: RequestedPods, flavors: Mapping[str, ResourceFlavor]
) -> Json | FlavorNotSeen | InjectionConflict:
    """The template of ``asked`` as its pods will be, on the flavors that were reserved.

    No gate is left on it, as the autoscaler does not make room for gated pods; a resource that is only
    limited is requested as much.
    """
    missing = sorted(name for name in asked.assignment.flavors.values() if name not in flavors)
    if missing:
        return FlavorNotSeen(missing[0])
    template = _template(asked.pod_set)
    spec = template.setdefault("spec", {})
    spec.pop("schedulingGates", None)
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    for key in _STALE:
        annotations.pop(key, None)
    change = inject(msgspec.Raw(codec.encode(template)), info_of(asked.pod_set, asked.assignment, flavors))
    if isinstance(change, InjectionConflict):
        return change
    result = merged(template, change)
    spec = result["spec"]
    for holder in (spec, *(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = holder.get("resources") or {}
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **(resources.get("requests") or {})}
    return result

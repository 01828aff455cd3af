"""The pods in a ProvisioningRequest, merged into few pod sets, their templates, and the names of both."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.core import Container
from quorate.api.core.pod_resources import pod_level_requests
from quorate.api.kueue import PodSet, PodSetAssignment, ResourceFlavor, Workload
from quorate.api.kueue.provisioning import MergePolicy, ProvisioningRequestConfigSpec
from quorate.api.names.kueue import SLICE_NAME, WORKLOAD_ANNOTATION
from quorate.controllers.jobframework.podset_info import FlavorNotFound, InjectionConflict, info_of, inject
from quorate.controllers.limits import MAX_HASHED_ATTEMPTS
from quorate.kube.patches import merged
from quorate.kube.resources import Json

CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"

_HASH_DIGITS: Final = 5
_MAX_PLAIN: Final = 252 - _HASH_DIGITS  # a name has at most 253 characters, one of them the dash


def request_name(workload: str, check: str, attempt: int) -> str:
    return _limited(f"{workload}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    return _limited(f"ppt-{request}-{pod_set}")


def attempt_of(request: str, workload: str, check: str) -> int | None:
    """Return the attempt number of a request; None if it is not of this workload and check."""
    prefix = f"{workload}-{check}-"
    number = request.removeprefix(prefix)
    if number != request and number.isascii() and number.isdecimal():
        return int(number)
    if len(prefix) < _MAX_PLAIN - len(str(MAX_HASHED_ATTEMPTS)):
        return None
    attempts = range(1, MAX_HASHED_ATTEMPTS + 1)
    return next((attempt for attempt in attempts if request_name(workload, check, attempt) == request), None)


def _limited(name: str) -> str:
    """Return ``name``, truncated and with a hash of the whole name appended if it is too long."""
    if len(name) <= _MAX_PLAIN:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[:_MAX_PLAIN]}-{digest[:_HASH_DIGITS]}"


# Set on the template by an earlier admission; they do not apply to this request.
_STALE_ANNOTATIONS: Final = (CONSUMES, CLASS_NAME, WORKLOAD_ANNOTATION, SLICE_NAME)
# Fields of a pod spec that restrict its placement, besides the requests of its containers.
_PLACEMENT_FIELDS: Final = ("resources", "nodeSelector", "tolerations", "affinity", "resourceClaims")


@dataclass(frozen=True, slots=True)
class RequestedPods:
    """Equal pods of one pod set, or of several merged pod sets."""

    pod_set: PodSet  # the first of the merged: its template and its name are used
    assignment: PodSetAssignment
    count: int
    covers: tuple[str, ...]  # the names of the merged pod sets, in their order


def requested_pods(workload: Workload, config: ProvisioningRequestConfigSpec) -> tuple[RequestedPods, ...]:
    """Return the reserved pods that use a managed resource; without any, nothing is requested."""
    admission = workload.status.admission
    assigned = () if admission is None else admission.pod_set_assignments
    assignments = {assignment.name: assignment for assignment in assigned}
    requested: list[RequestedPods] = []
    for pod_set in workload.spec.pod_sets:
        assignment = assignments.get(pod_set.name, PodSetAssignment(name=pod_set.name))
        count = pod_set.count if assignment.count is None else assignment.count
        if pod_set.count <= 0 or count <= 0 or not _uses_managed(pod_set, config.managed_resources):
            continue
        for index, earlier in enumerate(requested):
            if _are_mergeable(earlier.pod_set, pod_set, config.pod_set_merge_policy):
                covers = (*earlier.covers, pod_set.name)
                requested[index] = replace(earlier, count=earlier.count + count, covers=covers)
                break
        else:
            requested.append(RequestedPods(pod_set, assignment, count, (pod_set.name,)))
    return tuple(requested)


def _uses_managed(pod_set: PodSet, managed: Sequence[str]) -> bool:
    if not managed:
        return True
    spec = decode_template(pod_set.template).spec
    return any(
        resource in container.resources.requests or resource in container.resources.limits
        for container in (*spec.init_containers, *spec.containers)
        for resource in managed
    )


def _are_mergeable(one: PodSet, other: PodSet, policy: MergePolicy | None) -> bool:
    if policy is None:
        return False
    first, second = _template(one), _template(other)
    if policy == "IdenticalPodTemplates":
        return first == second
    spec, other_spec = first.get("spec") or {}, second.get("spec") or {}
    if any((spec.get(field) or None) != (other_spec.get(field) or None) for field in _PLACEMENT_FIELDS):
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
    requested: RequestedPods, flavors: Mapping[str, ResourceFlavor]
) -> Json | FlavorNotFound | InjectionConflict:
    """Return the template of the requested pods as they will be, on their reserved flavors.

    It has no scheduling gates, as the autoscaler ignores gated pods.  A resource with only a limit is
    requested with the amount of its limit; at pod level only if no container requests it.
    """
    missing = sorted(name for name in requested.assignment.flavors.values() if name not in flavors)
    if missing:
        return FlavorNotFound(missing[0])
    template = _template(requested.pod_set)
    spec = template.setdefault("spec", {})
    spec.pop("schedulingGates", None)
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    for key in _STALE_ANNOTATIONS:
        annotations.pop(key, None)
    change = inject(
        msgspec.Raw(codec.encode(template)), info_of(requested.pod_set, requested.assignment, flavors)
    )
    if isinstance(change, InjectionConflict):
        return change
    result = merged(template, change)
    spec = result["spec"]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **(resources.get("requests") or {})}
    pod_level = pod_level_requests(decode_template(requested.pod_set.template).spec)
    if pod_level:
        own = spec["resources"].get("requests") or {}
        spec["resources"]["requests"] = {name: str(amount) for name, amount in pod_level.items()} | own
    return result

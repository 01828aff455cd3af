"""Effective requests of pods: from a pod spec to the amounts that are counted against quota.

``api.core.pod_resources`` defines what one pod requests, and ``adjust_spec`` what the API server makes
of a template when it stores a pod of it, in its order: defaults, then the admission plugins LimitRanger and
RuntimeClass.  Amounts are rounded up once per pod, before they are multiplied by the number of pods (ten
pods of 0.0001 cpu count ten millicores).  The exclusions and transformations that follow are Kueue's rules.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from quorate.api.configuration.feature_gates import DEFAULT_GATES, Gates
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import Container, LimitRangeItem, PodSpec, ResourceRequirements, Resources, RuntimeClass
from quorate.api.core.pod_resources import (
    as_stored,
    container_requests,
    default_requests,
    max_resources,
    pod_level_requests,
)
from quorate.api.kueue import PodSetAssignment, Workload
from quorate.api.meta import ObjectMeta
from quorate.api.quantity import NANOS, PODS, Quantity
from quorate.quota.amount import base_units

_ZERO: Final = Quantity(0)


class LimitRangeDefaults(msgspec.Struct, frozen=True):
    """Defaults of the limit ranges of one namespace, for each container."""

    limits: Resources = {}
    requests: Resources = {}


NO_DEFAULTS: Final = LimitRangeDefaults()
NO_RUNTIME_CLASS: Final = RuntimeClass(metadata=ObjectMeta())


def limit_range_defaults(items: Iterable[LimitRangeItem]) -> LimitRangeDefaults:
    """Combine the defaults of several limit ranges.

    Bounds are the defaults of missing defaults, as in stored limit ranges.  Which of several limit ranges the
    API server applies first changes from pod to pod, so the largest amount counts.
    """
    limits: Resources = {}
    requests: Resources = {}
    for item in items:
        if item.type == "Container":
            default = item.max | item.default
            limits = max_resources(limits, default)
            requests = max_resources(requests, item.min | default | item.default_request)
    return LimitRangeDefaults(limits, requests)


class LimitRangeBounds(msgspec.Struct, frozen=True):
    """Bounds of the limit ranges of one namespace, for each container or for each pod."""

    minimum: Resources = {}
    maximum: Resources = {}
    max_limit_request_ratio: Resources = {}


def limit_range_bounds(items: Iterable[LimitRangeItem], type_: str) -> LimitRangeBounds:
    """Combine the bounds of several limit ranges: the narrowest of each."""
    minimum: Resources = {}
    maximum: Resources = {}
    max_ratio: Resources = {}
    for item in items:
        if item.type == type_:
            minimum = max_resources(minimum, item.min)
            maximum, max_ratio = _min(maximum, item.max), _min(max_ratio, item.max_limit_request_ratio)
    return LimitRangeBounds(minimum, maximum, max_ratio)


def bounds_violations(
    bounds: LimitRangeBounds, requests: Resources, limits: Resources, subject: str
) -> tuple[str, ...]:
    """Return one text for each way in which ``requests`` and ``limits`` of ``subject`` violate ``bounds``.

    Like the API server, require a request of what has a minimum, a limit of what has a maximum, and both of
    what has a ratio.
    """
    findings: list[str] = []
    for resource, minimum in sorted(bounds.minimum.items()):
        least = _least(resource, requests, limits) if resource in requests else None
        if least is None or least < minimum:
            given = "not requested" if least is None else least
            findings.append(f"{subject}: {resource} is {given}, at least {minimum} is required")
    for resource, maximum in sorted(bounds.maximum.items()):
        most = max(limits[resource], requests.get(resource, _ZERO)) if resource in limits else None
        if most is None or most > maximum:
            given = "not limited" if most is None else most
            findings.append(f"{subject}: {resource} is {given}, at most {maximum} is allowed")
    for resource, ratio in sorted(bounds.max_limit_request_ratio.items()):
        limit, request = limits.get(resource, _ZERO), requests.get(resource, _ZERO)
        if not limit or not request or limit.nanos * NANOS > request.nanos * ratio.nanos:
            findings.append(
                f"{subject}: the limit of {resource} is {limit} for a request of {request}, "
                f"at most {ratio} times as much is allowed"
            )
    return tuple(findings)


def _least(resource: str, requests: Resources, limits: Resources) -> Quantity:
    return min(requests[resource], limits.get(resource, requests[resource]))


def adjust_spec(spec: PodSpec, runtime_class: RuntimeClass, defaults: LimitRangeDefaults) -> PodSpec:
    """Return ``spec`` as the API server stores a pod of it.

    The order matters: a limit becomes the missing request of its container or pod before the defaults of
    limit ranges apply, and only to containers.
    """

    def adjusted(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple([_with_defaults(container, defaults) for container in containers])

    resources = spec.resources
    if resources.requests or resources.limits:
        requests = as_stored(resources.requests) | pod_level_requests(spec)
        resources = ResourceRequirements(requests=requests, limits=as_stored(resources.limits))
    return msgspec.structs.replace(
        spec,
        overhead=spec.overhead or runtime_class.overhead.pod_fixed,
        node_selector=runtime_class.scheduling.node_selector | spec.node_selector,
        tolerations=(*spec.tolerations, *runtime_class.scheduling.tolerations),
        containers=adjusted(spec.containers),
        init_containers=adjusted(spec.init_containers),
        resources=resources,
    )


def _with_defaults(container: Container, defaults: LimitRangeDefaults) -> Container:
    own = container.resources
    if not own.limits and defaults == NO_DEFAULTS and as_stored(own.requests) is own.requests:
        return container  # as most are
    resources = ResourceRequirements(
        requests={**defaults.requests, **container_requests(container)},
        limits={**defaults.limits, **as_stored(own.limits)},
    )
    return msgspec.structs.replace(container, resources=resources)


def invalid_requests(pod_set: str, spec: PodSpec) -> tuple[str, ...]:
    """Return one text for each negative amount and for each request of pods, which the queue counts."""
    findings: list[str] = []
    for place, resources in _places(spec):
        amounts = default_requests(resources.requests, resources.limits)
        for resource in sorted(name for name, amount in amounts.items() if amount.nanos < 0 or name == PODS):
            amount = amounts[resource]
            rule = "must be at least 0" if amount.nanos < 0 else "which a queue counts itself"
            findings.append(f"{place} of pod set {pod_set} asks for {amount} of {resource}, {rule}")
    return tuple(findings)


def uncounted_claims(pod_set: str, spec: PodSpec) -> tuple[str, ...]:
    """Return a text if the pods claim devices, which are not counted with the feature gate off."""
    if not spec.resource_claims:
        return ()
    names = ", ".join(claim.name for claim in spec.resource_claims)
    return (
        "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled: pod set "
        f"{pod_set} claims devices ({names})",
    )


def requests_above_limits(pod_set: str, spec: PodSpec) -> tuple[str, ...]:
    """Return one text for each request, of a container or of the pod, that exceeds its own limit."""
    findings: list[str] = []
    for place, resources in _places(spec):
        requests, limits = resources.requests, resources.limits
        exceeded = (name for name in limits if name in requests and requests[name] > limits[name])
        findings += (
            f"{place} of pod set {pod_set} requests {requests[resource]} of {resource}, "
            f"more than its limit {limits[resource]}"
            for resource in sorted(exceeded)
        )
    return tuple(findings)


def _places(spec: PodSpec) -> Iterator[tuple[str, ResourceRequirements]]:
    """Return the amounts of each container with any, named by index, and those of the pod.

    Shapes do not keep the names of containers.
    """
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            resources = container.resources
            if resources.requests or resources.limits:
                yield f"{field}[{index}]", resources
    yield "a pod", spec.resources


def _min(one: Resources, other: Resources) -> Resources:
    return one | {name: min(one.get(name, amount), amount) for name, amount in other.items()}


def needed_counts(workload: Workload, gates: Gates) -> dict[str, int]:
    """Return by pod set how many pods may still run: the size of the job without ``reclaimablePods``.

    A workload that was admitted with fewer pods than its job requests needs no more than those.
    """
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    if gates.reclaimable_pods:
        for pods in workload.status.reclaimable_pods:
            counts[pods.name] = max(0, counts.get(pods.name, 0) - pods.count)
    return counts


def held_count(assigned: PodSetAssignment, needed: Mapping[str, int]) -> int:
    """Return how many of the admitted pods of a pod set need quota; ``needed``: see ``needed_counts``."""
    most = needed.get(assigned.name, 0)
    return most if assigned.count is None else min(assigned.count, most)


def held_counts(workload: Workload) -> dict[str, int]:
    """Return by pod set how many pods of an admitted workload need quota."""
    admission, needed = workload.status.admission, needed_counts(workload, DEFAULT_GATES)
    assignments = () if admission is None else admission.pod_set_assignments
    return {assignment.name: held_count(assignment, needed) for assignment in assignments}


def quota_requests(request: Mapping[str, Quantity], options: ResourceOptions) -> dict[str, int]:
    """Return what the ``request`` of one pod counts against quota, in base units, rounded up.

    Applies the exclusions and transformations of ``options``.  An excluded resource is an input and a
    multiplier of transformations like any other: only its own amount does not count.
    """
    counted = {
        resource: quantity
        for resource, quantity in request.items()
        if not resource.startswith(options.exclude_resource_prefixes)
    }
    generated: Resources = {}
    for rule in options.transformations:
        if rule.input not in request:
            continue
        value = request[rule.input]
        if rule.multiply_by in request:
            value = _times(value, request[rule.multiply_by])
        for resource, per_unit in rule.outputs.items():
            generated[resource] = generated.get(resource, _ZERO) + _times(per_unit, value)
        if rule.strategy == "Replace":
            counted.pop(rule.input, None)
    for resource, quantity in generated.items():
        counted[resource] = counted.get(resource, _ZERO) + max(quantity, _ZERO)
    return {resource: max(0, base_units(resource, quantity)) for resource, quantity in counted.items()}


def _times(one: Quantity, other: Quantity) -> Quantity:
    return Quantity(-(-one.nanos * other.nanos // NANOS), one.form)

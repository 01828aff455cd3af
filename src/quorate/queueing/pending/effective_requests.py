"""Effective requests of pods: from a pod spec to the amounts that are counted against quota.

Quantities are added exactly and rounded up once per pod, before they are multiplied by the number of pods
(ten pods of 0.0001 cpu count ten millicores).  ``api.core.pod_resources`` defines what one pod requests.
The defaults applied before, and the exclusions and transformations applied after, are Kueue's rules.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from quorate.api.configuration.feature_gates import Gates
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import Container, LimitRangeItem, PodSpec, ResourceRequirements, Resources
from quorate.api.core.pod_resources import default_requests
from quorate.api.kueue import PodSetAssignment, Workload
from quorate.api.quantity import NANOS, Quantity
from quorate.api.validation.workloads import PODS
from quorate.quota.amount import base_units

_ZERO: Final = Quantity(0)


class LimitRangeDefaults(msgspec.Struct, frozen=True):
    """Defaults of the limit ranges of one namespace, for each container and for pod-level resources."""

    container_limits: Resources = {}
    container_requests: Resources = {}
    pod_limits: Resources = {}
    pod_requests: Resources = {}


def limit_range_defaults(items: Iterable[LimitRangeItem]) -> LimitRangeDefaults:
    """Combine the defaults of several limit ranges: the first that names a resource wins."""
    by_type: dict[str, tuple[Resources, Resources]] = {"Container": ({}, {}), "Pod": ({}, {})}
    for item in items:
        if item.type in by_type:
            limits, requests = by_type[item.type]
            by_type[item.type] = ({**item.default, **limits}, {**item.default_request, **requests})
    return LimitRangeDefaults(*by_type["Container"], *by_type["Pod"])


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
            minimum = _max(minimum, item.min)
            maximum, max_ratio = _min(maximum, item.max), _min(max_ratio, item.max_limit_request_ratio)
    return LimitRangeBounds(minimum, maximum, max_ratio)


def bounds_violations(
    bounds: LimitRangeBounds, requests: Resources, limits: Resources, subject: str
) -> tuple[str, ...]:
    """Return one text for each way in which ``requests`` and ``limits`` of ``subject`` violate ``bounds``."""
    findings: list[str] = []
    bounded = {*bounds.minimum, *bounds.maximum, *bounds.max_limit_request_ratio}
    for resource in sorted(bounded & {*requests, *limits}):
        given = [amounts[resource] for amounts in (requests, limits) if resource in amounts]
        if resource in bounds.minimum and min(given) < bounds.minimum[resource]:
            findings.append(
                f"{subject}: {resource} is {min(given)}, at least {bounds.minimum[resource]} is required"
            )
        if resource in bounds.maximum and max(given) > bounds.maximum[resource]:
            findings.append(
                f"{subject}: {resource} is {max(given)}, at most {bounds.maximum[resource]} is allowed"
            )
        if resource in bounds.max_limit_request_ratio and resource in requests and resource in limits:
            ratio = bounds.max_limit_request_ratio[resource]
            if limits[resource].nanos * NANOS > requests[resource].nanos * ratio.nanos:
                findings.append(
                    f"{subject}: the limit of {resource} is {limits[resource]} for a request of "
                    f"{requests[resource]}, at most {ratio} times as much is allowed"
                )
    return tuple(findings)


def adjust_resources(spec: PodSpec, overhead: Resources, defaults: LimitRangeDefaults) -> PodSpec:
    """Apply the overhead of the runtime class, limit range defaults, and limits as missing requests.

    The order matters: a default request takes precedence over the container's own limit.
    """

    def adjusted(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            _with_resources(
                container,
                _with_defaults(container.resources, defaults.container_limits, defaults.container_requests),
            )
            for container in containers
        )

    return msgspec.structs.replace(
        spec,
        overhead=spec.overhead or overhead,
        containers=adjusted(spec.containers),
        init_containers=adjusted(spec.init_containers),
        resources=_with_defaults(spec.resources, defaults.pod_limits, defaults.pod_requests),
    )


def _with_resources(container: Container, resources: ResourceRequirements) -> Container:
    if resources is container.resources:
        return container
    return msgspec.structs.replace(container, resources=resources)


def _with_defaults(
    own: ResourceRequirements, default_limits: Resources, default_requests: Resources
) -> ResourceRequirements:
    if not (own.limits or default_limits or default_requests):
        return own
    limits = {**default_limits, **own.limits}
    return ResourceRequirements(requests={**limits, **default_requests, **own.requests}, limits=limits)


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


def _max(one: Resources, other: Resources) -> Resources:
    return one | {name: max(one.get(name, amount), amount) for name, amount in other.items()}


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


def quota_requests(request: Mapping[str, Quantity], options: ResourceOptions) -> dict[str, int]:
    """Return what the ``request`` of one pod counts against quota, in base units, rounded up.

    Applies the exclusions and transformations of ``options``.
    """
    kept = {
        resource: quantity
        for resource, quantity in request.items()
        if not resource.startswith(options.exclude_resource_prefixes)
    }
    counted = dict(kept)
    generated: Resources = {}
    for rule in options.transformations:
        if rule.input not in kept:
            continue
        value = kept[rule.input]
        if rule.multiply_by in kept:
            value = _times(value, kept[rule.multiply_by])
        for resource, per_unit in rule.outputs.items():
            generated[resource] = generated.get(resource, _ZERO) + _times(per_unit, value)
        if rule.strategy == "Replace":
            del counted[rule.input]
    for resource, quantity in generated.items():
        counted[resource] = counted.get(resource, _ZERO) + max(quantity, _ZERO)
    return {resource: max(0, base_units(resource, quantity)) for resource, quantity in counted.items()}


def _times(one: Quantity, other: Quantity) -> Quantity:
    return Quantity(-(-one.nanos * other.nanos // NANOS), one.form)

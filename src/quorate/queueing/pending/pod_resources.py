"""What the pods of a workload ask for, in base units: from a pod spec to what is charged to quota.

Quantities are added exactly and rounded up once, per single pod, before they are multiplied by the number
of pods (ten pods of 0.0001 cpu count ten milli-cpus).  What one pod requests is ``api.requests``; what is
filled in before, left out and transformed after, are Kueue's rules.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from quorate.api.configuration import ResourceOptions
from quorate.api.core import Container, LimitRangeItem, PodSpec, ResourceRequirements, Resources
from quorate.api.quantity import NANOS, Quantity
from quorate.api.validation.workloads import PODS
from quorate.quota.amount import base_units

_ZERO: Final = Quantity(0)


class LimitRangeDefaults(msgspec.Struct, frozen=True):
    """What the limit ranges of one namespace fill in: for each container, and for pod-level resources."""

    container_limits: Resources = {}
    container_requests: Resources = {}
    pod_limits: Resources = {}
    pod_requests: Resources = {}


def limit_range_defaults(items: Iterable[LimitRangeItem]) -> LimitRangeDefaults:
    """The defaults of several limit ranges together: the first that names a resource wins."""
    by_type: dict[str, tuple[Resources, Resources]] = {"Container": ({}, {}), "Pod": ({}, {})}
    for item in items:
        if item.type in by_type:
            limits, requests = by_type[item.type]
            by_type[item.type] = ({**item.default, **limits}, {**item.default_request, **requests})
    return LimitRangeDefaults(*by_type["Container"], *by_type["Pod"])


class LimitRangeBounds(msgspec.Struct, frozen=True):
    """What the limit ranges of one namespace demand of each container, or of each pod as a whole."""

    least: Resources = {}
    most: Resources = {}
    most_ratio: Resources = {}  # of limit to request


def limit_range_bounds(items: Iterable[LimitRangeItem], type_: str) -> LimitRangeBounds:
    """The bounds of several limit ranges together: the narrowest of each."""
    least: Resources = {}
    most: Resources = {}
    most_ratio: Resources = {}
    for item in items:
        if item.type == type_:
            least = _max(least, item.min)
            most, most_ratio = _min(most, item.max), _min(most_ratio, item.max_limit_request_ratio)
    return LimitRangeBounds(least, most, most_ratio)


def bounds_violations(
    bounds: LimitRangeBounds, requests: Resources, limits: Resources, what: str
) -> tuple[str, ...]:
    """Each way in which ``requests`` and ``limits`` of ``what`` break ``bounds``."""
    findings: list[str] = []
    for resource in sorted({*bounds.least, *bounds.most, *bounds.most_ratio} & {*requests, *limits}):
        given = [amounts[resource] for amounts in (requests, limits) if resource in amounts]
        if resource in bounds.least and min(given) < bounds.least[resource]:
            findings.append(
                f"{what}: {resource} is {min(given)}, at least {bounds.least[resource]} is required"
            )
        if resource in bounds.most and max(given) > bounds.most[resource]:
            findings.append(f"{what}: {resource} is {max(given)}, at most {bounds.most[resource]} is allowed")
        if resource in bounds.most_ratio and resource in requests and resource in limits:
            ratio = bounds.most_ratio[resource]
            if limits[resource].nanos * NANOS > requests[resource].nanos * ratio.nanos:
                findings.append(
                    f"{what}: the limit of {resource} is {limits[resource]} for a request of "
                    f"{requests[resource]}, at most {ratio} times as much is allowed"
                )
    return tuple(findings)


def adjust_resources(spec: PodSpec, overhead: Resources, defaults: LimitRangeDefaults) -> PodSpec:
    """The pod as admission sees it: overhead of its runtime class, limit range defaults, limits as requests.

    The order matters: a default request beats a container's own limit.
    """

    def filled(container: Container) -> Container:
        resources = _filled(container.resources, defaults.container_limits, defaults.container_requests)
        return msgspec.structs.replace(container, resources=resources)

    return msgspec.structs.replace(
        spec,
        overhead=spec.overhead or overhead,
        containers=tuple(filled(container) for container in spec.containers),
        init_containers=tuple(filled(container) for container in spec.init_containers),
        resources=_filled(spec.resources, defaults.pod_limits, defaults.pod_requests),
    )


def _filled(own: ResourceRequirements, limits: Resources, requests: Resources) -> ResourceRequirements:
    limited = {**limits, **own.limits}
    return ResourceRequirements(requests={**limited, **requests, **own.requests}, limits=limited)


def invalid_requests(pod_set: str, spec: PodSpec) -> tuple[str, ...]:
    """Each amount that no container can ask for: less than nothing, or pods, which a queue counts itself."""
    return tuple(
        f"{who} asks for {amount} of {resource}, "
        + ("must be at least 0" if amount.nanos < 0 else "which a queue counts itself")
        for who, resources in (*_asking(pod_set, spec), (f"a pod of pod set {pod_set}", spec.resources))
        for resource, amount in sorted({**resources.limits, **resources.requests}.items())
        if amount.nanos < 0 or resource == PODS
    )


def requests_above_limits(pod_set: str, spec: PodSpec) -> tuple[str, ...]:
    """Each container and resource that asks for more than its own limit."""
    return tuple(
        f"{who} requests {requested} of {resource}, more than its limit {resources.limits[resource]}"
        for who, resources in _asking(pod_set, spec)
        for resource, requested in sorted(resources.requests.items())
        if resource in resources.limits and requested > resources.limits[resource]
    )


def _asking(pod_set: str, spec: PodSpec) -> Iterator[tuple[str, ResourceRequirements]]:
    """What each container asks for.  They are told apart by place, as ``Shapes`` keeps no names of them."""
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for at, container in enumerate(containers):
            yield f"{field}[{at}] of pod set {pod_set}", container.resources


def _max(one: Resources, other: Resources) -> Resources:
    return one | {name: max(one.get(name, amount), amount) for name, amount in other.items()}


def _min(one: Resources, other: Resources) -> Resources:
    return one | {name: min(one.get(name, amount), amount) for name, amount in other.items()}


def quota_requests(request: Mapping[str, Quantity], rules: ResourceOptions) -> dict[str, int]:
    """What one pod's ``request`` counts against quota: exclusions and transformations applied, rounded up."""
    kept = {
        resource: quantity
        for resource, quantity in request.items()
        if not resource.startswith(rules.exclude_resource_prefixes)
    }
    counted = dict(kept)
    generated: Resources = {}
    for rule in rules.transformations:
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

"""Devices that pods claim (dynamic resource allocation), counted against quota.

A claim template requests a number of devices of each device class.  The configuration maps device classes to
resources, of which cluster queues have quota.  A claim that cannot be counted makes a workload inadmissible:
one of a class without a mapping, of a template that does not exist, by name (``resourceClaimName``), of all
devices, or of the first that is available.

An extended resource of which devices of a mapped class are given to pods counts as the resource of the class.

Source: Kueue 0.20 (KEP-2941), the words of which the findings contain.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import PodResourceClaim
from quorate.api.core.device_claims import EXACT_COUNT, DeviceClass, DeviceRequest, ResourceClaimSpec
from quorate.api.meta import ObjectMeta, epoch
from quorate.api.quantity import Quantity
from quorate.placement.filters.devices.quantities import INT64_MAX
from quorate.queueing.pending.device_sources import ClaimProblem
from quorate.quota.amount import base_units

Devices = Mapping[str, int]  # by device class


@dataclass(frozen=True, slots=True)
class CountedClaim:
    """What the claim of one pod counts, without what depends on the pod set."""

    devices: Devices | str  # or why they cannot be counted
    amounts: Mapping[str, int] = field(default_factory=dict)  # of parts of devices, by resource
    problems: tuple[ClaimProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class PodDevices:
    """What the devices of one pod count against quota."""

    amounts: Mapping[str, int] = field(default_factory=dict)  # by resource
    replaced: tuple[str, ...] = ()  # requested resources that count as other ones in ``amounts``
    findings: tuple[str, ...] = ()  # why claims cannot be counted
    short_by: int = 0  # how many more devices must match a claim


NO_DEVICES: Final = PodDevices()


def classes_by_extended_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the class of which pods get devices for each extended resource.

    Of several classes it is the newest, then the first by name (Kubernetes' rule).
    """
    ordered = sorted(classes, key=lambda device_class: device_class.metadata.name, reverse=True)
    ordered.sort(key=lambda device_class: _created(device_class.metadata))
    return {
        device_class.spec.extended_resource_name: device_class.metadata.name
        for device_class in ordered
        if device_class.spec.extended_resource_name
    }


def _created(metadata: ObjectMeta) -> float:
    return 0.0 if metadata.creation_timestamp is None else epoch(metadata.creation_timestamp)


def extended_resource_devices(
    request: Mapping[str, Quantity], backed: Mapping[str, str], options: ResourceOptions
) -> PodDevices:
    """Return what the requests of extended resources count as; ``backed``: their device classes."""
    amounts: dict[str, int] = {}
    replaced: list[str] = []
    findings: list[str] = []
    for name in sorted(request.keys() & backed.keys()):
        device_class = backed[name]
        resource, amount = options.device_classes.get(device_class), base_units(name, request[name])
        if amount > 0 and device_class in options.device_sources:
            kind = options.device_sources[device_class][0].kind
            findings.append(
                f"extended resource {name} resolves to DeviceClass {device_class} with a {kind} source "
                "configured (claim devices by a ResourceClaimTemplate)"
            )
        elif resource is not None and amount > 0:
            replaced.append(name)
            amounts[resource] = min(amounts.get(resource, 0) + amount, INT64_MAX)
    return PodDevices(amounts, tuple(replaced), tuple(findings))


def together(one: PodDevices, other: PodDevices) -> PodDevices:
    amounts = {
        name: min(one.amounts.get(name, 0) + other.amounts.get(name, 0), INT64_MAX)
        for name in (*one.amounts, *other.amounts)
    }
    findings = (*one.findings, *other.findings)
    return PodDevices(amounts, (*one.replaced, *other.replaced), findings, max(one.short_by, other.short_by))


def devices_of(spec: ResourceClaimSpec) -> Devices | str:
    """Return how many devices of each class a claim requests, or why they cannot be counted.

    A request with ``adminAccess`` counts nothing: it takes no device from other claims.
    """
    devices: dict[str, int] = {}
    for at, request in enumerate(spec.devices.requests):
        if problem := _problem(request):
            return f"devices.requests[{at}]{problem}"
        exactly = request.exactly
        if exactly is not None and exactly.device_class_name and not exactly.admin_access:
            name = exactly.device_class_name
            devices[name] = min(devices.get(name, 0) + max(exactly.count, 0), INT64_MAX)
    return devices


def _problem(request: DeviceRequest) -> str:
    """Return the field of a request that cannot be counted, with the rule; empty if there is none."""
    if request.first_available:
        return ": FirstAvailable device selection is not supported (write exactly)"
    if request.exactly is None:
        return ".exactly is missing"
    if request.exactly.admin_access:
        return ""
    if request.exactly.allocation_mode != EXACT_COUNT:
        mode = request.exactly.allocation_mode
        return f".exactly.allocationMode: AllocationMode '{mode}' is not supported (write {EXACT_COUNT})"
    return ""


def device_requests(
    pod_set: str,
    index: int,
    claims: Sequence[PodResourceClaim],
    template: Callable[[str], CountedClaim | None],
    resources: Mapping[str, str],
    absence: str,
) -> PodDevices:
    """Return what the claims of one pod count against quota.

    ``index``: of the pod set.  ``template``: what the claim of a template counts; None if the template is
    not known, of which ``absence`` is the reason.  ``resources``: by device class.
    """
    amounts: dict[str, int] = {}
    findings: list[str] = []
    short_by = 0
    for at, claim in enumerate(claims):
        subject = f"pod set {pod_set}: claim {claim.name}"
        if claim.resource_claim_name:
            findings.append(
                "KueueDRAIntegration feature does not support use of resource claims: "
                f"{subject} names ResourceClaim {claim.resource_claim_name} (name a ResourceClaimTemplate)"
            )
            continue
        name = claim.resource_claim_template_name
        if not name:
            continue
        counted = template(name)
        if counted is None:
            findings.append(f"{subject}: ResourceClaimTemplate {name} {absence}")
        elif isinstance(counted.devices, str):
            findings.append(f"{subject}: ResourceClaimTemplate {name}: {counted.devices}")
        else:
            for problem in counted.problems:
                short_by = max(short_by, problem.short_by)
                findings.append(
                    f"spec.podSets[{index}].template.spec.resourceClaims[{at}].{problem.field}: "
                    f"Internal error: ResourceClaimTemplate {name}: {problem.text}"
                )
            for resource, amount in counted.amounts.items():
                amounts[resource] = min(amounts.get(resource, 0) + amount, INT64_MAX)
            for device_class, count in counted.devices.items():
                if (counts_as := resources.get(device_class)) is not None:
                    amounts[counts_as] = min(amounts.get(counts_as, 0) + count, INT64_MAX)
                else:
                    findings.append(
                        f"DeviceClass {device_class} is not mapped in DRA configuration for podset {pod_set} "
                        f"(claim {claim.name})"
                    )
    return PodDevices(amounts, findings=tuple(findings), short_by=short_by)

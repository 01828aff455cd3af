"""Devices that pods claim (dynamic resource allocation), counted against quota.

A claim template requests a number of devices of each device class.  The configuration maps device classes to
resources, of which cluster queues have quota.  A claim that cannot be counted makes a workload inadmissible:
one of a class without a mapping, of a template that does not exist, by name (``resourceClaimName``), of all
devices, of the first that is available, or with administrator access.

Source: Kueue 0.19 (KEP-2941).  Selectors are not compared with the devices of the cluster.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quorate.api.core import PodResourceClaim
from quorate.api.core.device_claims import EXACT_COUNT, DeviceRequest, ResourceClaimSpec

Devices = Mapping[str, int]  # by device class
INT64_MAX: Final = 2**63 - 1  # as in Kueue: sums of counts do not exceed it
NOTHING: Final[Mapping[str, int]] = {}


def devices_of(spec: ResourceClaimSpec) -> Devices | str:
    """Return how many devices of each class a claim requests, or why they cannot be counted."""
    devices: dict[str, int] = {}
    for at, request in enumerate(spec.devices.requests):
        if problem := _problem(request):
            return f"devices.requests[{at}]{problem}"
        exactly = request.exactly
        if exactly is not None and exactly.device_class_name:
            name = exactly.device_class_name
            devices[name] = min(devices.get(name, 0) + max(exactly.count, 0), INT64_MAX)
    return devices


def _problem(request: DeviceRequest) -> str:
    """Return the field of a request that cannot be counted, with the rule; empty if there is none."""
    if request.first_available:
        return ".firstAvailable is not supported (write exactly)"
    if request.exactly is None:
        return ".exactly is missing"
    if request.exactly.admin_access:
        return ".exactly.adminAccess is not supported"
    if request.exactly.allocation_mode != EXACT_COUNT:
        mode = request.exactly.allocation_mode
        return f".exactly.allocationMode {mode} is not supported (write {EXACT_COUNT})"
    return ""


def device_requests(
    pod_set: str,
    claims: Sequence[PodResourceClaim],
    template: Callable[[str], Devices | str | None],
    resources: Mapping[str, str],
) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Return what the claims of one pod count against quota, and why claims cannot be counted.

    ``template``: ``devices_of`` a claim template; None if it does not exist.  ``resources``: by device class.
    """
    amounts: dict[str, int] = {}
    findings: list[str] = []
    for claim in claims:
        subject = f"pod set {pod_set}: claim {claim.name}"
        if claim.resource_claim_name:
            findings.append(
                f"{subject} names ResourceClaim {claim.resource_claim_name}, which is not supported "
                "(name a ResourceClaimTemplate)"
            )
            continue
        name = claim.resource_claim_template_name
        devices = template(name) if name else {}
        if devices is None:
            findings.append(f"{subject}: ResourceClaimTemplate {name} does not exist")
        elif isinstance(devices, str):
            findings.append(f"{subject}: ResourceClaimTemplate {name}: {devices}")
        else:
            for device_class, count in devices.items():
                resource = resources.get(device_class)
                if resource is None:
                    findings.append(
                        f"{subject}: device class {device_class} is not in resources.deviceClassMappings "
                        "of the Configuration"
                    )
                else:
                    amounts[resource] = min(amounts.get(resource, 0) + count, INT64_MAX)
    return amounts, tuple(findings)

"""Devices that pods have by claims (dynamic resource allocation), by the resource that counts their class.

A claim that was made for a pod from a template belongs to it.  Claims that pods share are of no queue.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.api.meta import ObjectMeta, Struct, Uid
from quorate.api.quantity import NANOS
from quorate.kube.resources import Resource


class _Exactly(Struct):
    device_class_name: str = ""


class _Alternative(Struct):
    name: str = ""
    device_class_name: str = ""


class _Request(Struct):
    name: str = ""
    exactly: _Exactly | None = None
    first_available: tuple[_Alternative, ...] = ()


class _Devices(Struct):
    requests: tuple[_Request, ...] = ()


class _Spec(Struct):
    devices: _Devices = _Devices()


class _Result(Struct):
    """One allocated device; ``request``: the name of the request, and of the alternative after a slash."""

    request: str = ""
    admin_access: bool = False


class _Results(Struct):
    results: tuple[_Result, ...] = ()


class _Allocation(Struct):
    devices: _Results = _Results()


class _Status(Struct):
    allocation: _Allocation | None = None


class WitnessedClaim(Struct):
    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


WITNESSED_CLAIMS: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, WitnessedClaim
)


def devices_by_pod(
    claims: Iterable[WitnessedClaim], resources: Mapping[str, str]
) -> dict[Uid, dict[str, int]]:
    """Return the allocated devices of each pod in nano-units; ``resources``: by device class.

    Devices that an administrator looks at are not used, and devices of other classes do not count.
    """
    devices: dict[Uid, dict[str, int]] = {}
    for claim in claims:
        pod, allocation = claim.metadata.controller, claim.status.allocation
        if pod is None or pod.kind != "Pod" or allocation is None:
            continue
        classes = _classes(claim.spec.devices.requests)
        amounts = devices.setdefault(pod.uid, {})
        for device in allocation.devices.results:
            resource = resources.get(classes.get(device.request, ""))
            if resource is not None and not device.admin_access:
                amounts[resource] = amounts.get(resource, 0) + NANOS
    return devices


def _classes(requests: Iterable[_Request]) -> dict[str, str]:
    classes: dict[str, str] = {}
    for request in requests:
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        for alternative in request.first_available:
            classes[f"{request.name}/{alternative.name}"] = alternative.device_class_name
    return classes

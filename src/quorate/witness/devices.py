"""Devices that pods have by claims (dynamic resource allocation), by the resource that counts their class.

A claim that was made for a pod from a template belongs to it.  One that pods share counts for the first of
them that is asked for.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import field

from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.meta import ObjectMeta, Struct, Uid
from quorate.api.quantity import NANOS, Quantity
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
    driver: str = ""
    admin_access: bool = False
    consumed_capacity: dict[str, Quantity] = field(default_factory=dict)  # of a shared device


class _Results(Struct):
    results: tuple[_Result, ...] = ()


class _Allocation(Struct):
    devices: _Results = _Results()


class _User(Struct):
    """An object that the claim is reserved for; ``resource``: its plural name."""

    resource: str = ""
    uid: Uid = Uid("")


class _Status(Struct):
    allocation: _Allocation | None = None
    reserved_for: tuple[_User, ...] = ()


class WitnessedClaim(Struct):
    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


WITNESSED_CLAIMS: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, WitnessedClaim
)


class ClaimedDevices:
    """The allocated devices that pods have; each claim is counted for one pod.

    Devices that an administrator looks at are not used, and devices of classes without a mapping do not
    count.  Of classes with ``sources`` the capacities that claims consume count; counters do not, because
    claims do not tell them.
    """

    def __init__(self, claims: Iterable[WitnessedClaim], options: ResourceOptions) -> None:
        self._claims: dict[Uid, list[dict[str, int]]] = {}  # by pod; ``take`` empties the amounts
        for claim in claims:
            amounts = _amounts(claim, options)
            for pod in _users(claim) if amounts else ():
                self._claims.setdefault(pod, []).append(amounts)

    def take(self, pod: Uid) -> dict[str, int]:
        """Return the devices of ``pod`` in nano-units, without claims that were counted for another pod."""
        devices: dict[str, int] = {}
        for amounts in self._claims.get(pod, ()):
            for resource, amount in amounts.items():
                devices[resource] = devices.get(resource, 0) + amount
            amounts.clear()
        return devices


def _users(claim: WitnessedClaim) -> Iterable[Uid]:
    owner = claim.metadata.controller
    if owner is not None and owner.kind == "Pod":
        return (owner.uid,)
    return (user.uid for user in claim.status.reserved_for if user.resource == "pods")


def _amounts(claim: WitnessedClaim, options: ResourceOptions) -> dict[str, int]:
    amounts: dict[str, int] = {}
    classes = _classes(claim.spec.devices.requests)
    allocation = claim.status.allocation
    for device in () if allocation is None else allocation.devices.results:
        if device.admin_access:
            continue
        device_class = classes.get(device.request, "")
        resource = options.device_classes.get(device_class)
        if resource is not None:
            amounts[resource] = amounts.get(resource, 0) + NANOS
        for source in options.device_sources.get(device_class, ()):
            names = (source.name, f"{source.driver}/{source.name}")
            consumed = [device.consumed_capacity[name] for name in names if name in device.consumed_capacity]
            if source.kind == "capacity" and source.driver == device.driver and consumed:
                amounts[source.resource] = amounts.get(source.resource, 0) + consumed[0].nanos
    return amounts


def uncounted_resources(options: ResourceOptions) -> tuple[str, ...]:
    """Return the resources that count counters of devices, of which the witness does not know the use."""
    sources = (source for sources in options.device_sources.values() for source in sources)
    return tuple(sorted({source.resource for source in sources if source.kind == "counter"}))


def _classes(requests: Iterable[_Request]) -> dict[str, str]:
    classes: dict[str, str] = {}
    for request in requests:
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        for alternative in request.first_available:
            classes[f"{request.name}/{alternative.name}"] = alternative.device_class_name
    return classes

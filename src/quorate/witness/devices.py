"""Devices that pods have by claims (dynamic resource allocation), by the resource that counts their class.

What a partition takes of the counters of its device is in the ResourceSlice that has it.

A claim that was made for a pod from a template belongs to it.  One that pods share counts for the first of
them that is asked for.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import field

from quorate.api.configuration.queueing import DeviceSource, ResourceOptions
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
    pool: str = ""
    device: str = ""
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


class _Counter(Struct):
    value: Quantity = Quantity(0)


class _Consumption(Struct):
    counters: dict[str, _Counter] = field(default_factory=dict)


class _Device(Struct):
    name: str = ""
    consumes_counters: tuple[_Consumption, ...] = ()


class _Pool(Struct):
    name: str = ""


class _SliceSpec(Struct):
    driver: str = ""
    pool: _Pool = _Pool()
    devices: tuple[_Device, ...] = ()


class WitnessedSlice(Struct):
    metadata: ObjectMeta
    spec: _SliceSpec = _SliceSpec()


WITNESSED_SLICES: Final = Resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, WitnessedSlice
)


class ClaimedDevices:
    """The allocated devices that pods have; each claim is counted for one pod.

    Devices that an administrator looks at are not used, and devices of classes without a mapping do not
    count.  Of classes with ``sources`` the capacities that claims consume count, and the counters that their
    devices consume.
    """

    def __init__(
        self, claims: Iterable[WitnessedClaim], slices: Iterable[WitnessedSlice], options: ResourceOptions
    ) -> None:
        self.uncounted: set[str] = set()  # resources of which a device is in no slice
        self._options = options
        self._devices: dict[tuple[str, str, str], _Device] = {  # by driver, pool and name
            (slice_.spec.driver, slice_.spec.pool.name, device.name): device
            for slice_ in slices
            for device in slice_.spec.devices
        }
        self._claims: dict[Uid, list[dict[str, int]]] = {}  # by pod; ``take`` empties the amounts
        for claim in claims:
            amounts = self._amounts(claim)
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

    def _amounts(self, claim: WitnessedClaim) -> dict[str, int]:
        amounts: dict[str, int] = {}
        classes = _classes(claim.spec.devices.requests)
        allocation = claim.status.allocation
        for result in () if allocation is None else allocation.devices.results:
            if result.admin_access:
                continue
            device_class = classes.get(result.request, "")
            resource = self._options.device_classes.get(device_class)
            if resource is not None:
                amounts[resource] = amounts.get(resource, 0) + NANOS
            for source in self._options.device_sources.get(device_class, ()):
                if source.driver == result.driver:
                    used = self._used(result, source)
                    amounts[source.resource] = amounts.get(source.resource, 0) + used
        return amounts

    def _used(self, result: _Result, source: DeviceSource) -> int:
        """Return what an allocated device takes of a counter or capacity, in nano-units."""
        if source.kind == "capacity":
            names = (source.name, f"{source.driver}/{source.name}")
            consumed = (result.consumed_capacity[name] for name in names if name in result.consumed_capacity)
            return next((amount.nanos for amount in consumed), 0)
        device = self._devices.get((result.driver, result.pool, result.device))
        if device is None:
            self.uncounted.add(source.resource)
            return 0
        consumptions = (consumption.counters.get(source.name) for consumption in device.consumes_counters)
        return sum(counter.value.nanos for counter in consumptions if counter is not None)


def _users(claim: WitnessedClaim) -> Iterable[Uid]:
    owner = claim.metadata.controller
    if owner is not None and owner.kind == "Pod":
        return (owner.uid,)
    return (user.uid for user in claim.status.reserved_for if user.resource == "pods")


def _classes(requests: Iterable[_Request]) -> dict[str, str]:
    classes: dict[str, str] = {}
    for request in requests:
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        for alternative in request.first_available:
            classes[f"{request.name}/{alternative.name}"] = alternative.device_class_name
    return classes

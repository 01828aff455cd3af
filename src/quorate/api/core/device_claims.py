"""resource.k8s.io/v1: devices, classes of them, and claims for them (dynamic resource allocation)."""

from typing import Final

import msgspec

from quorate.api.core import NodeSelector, Taint, Toleration
from quorate.api.meta import Int64, ObjectMeta, Struct, Uid
from quorate.api.quantity import Quantity

GROUP: Final = "resource.k8s.io"
VERSION: Final = "v1"

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"
DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"  # finalizer of allocated claims


class CelDeviceSelector(Struct):
    expression: str = ""


class DeviceSelector(Struct):
    cel: CelDeviceSelector | None = None


class CapacityRequirements(Struct):
    requests: dict[str, Quantity] = {}


class DeviceSubRequest(Struct):
    """One alternative of a request; ``name`` is empty in ``ExactDeviceRequest``."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: Int64 = 1
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements = CapacityRequirements()  # that a device has at least


class ExactDeviceRequest(DeviceSubRequest):
    admin_access: bool = False


class DeviceRequest(Struct):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Struct):
    requests: tuple[str, ...] = ()  # names; empty: all
    match_attribute: str = ""  # "": another kind of constraint


class DeviceClaim(Struct):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[msgspec.Raw, ...] = ()


class ResourceClaimSpec(Struct):
    devices: DeviceClaim = DeviceClaim()


class ResourceClaimTemplateSpec(Struct):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Struct):
    """What the claim of each pod that names the template requests; the spec does not change."""

    metadata: ObjectMeta
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class AllocatedDevice(Struct):
    """``request``: the name of the request, and of the alternative after a slash."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str = msgspec.field(default="", name="shareID")  # of a device that several claims share
    consumed_capacity: dict[str, Quantity] = {}


class DeviceAllocation(Struct):
    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[msgspec.Raw, ...] = ()


class ClaimAllocation(Struct):
    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None  # where the devices can be used; None: everywhere


class ClaimConsumer(Struct):
    resource: str = ""
    name: str = ""
    uid: Uid = Uid("")


class ResourceClaimStatus(Struct):
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()


class ResourceClaim(Struct):
    metadata: ObjectMeta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceClassSpec(Struct):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[msgspec.Raw, ...] = ()
    extended_resource_name: str = ""  # pods that request this resource get devices of the class


class DeviceClass(Struct):
    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct):
    """Exactly one of the fields is set."""

    int_value: Int64 | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRequestRange(Struct):
    """A request of a capacity is ``min`` plus a multiple of ``step``, at most ``max``."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Struct):
    """What a claim takes of a capacity: ``default``, or its request rounded up to what is valid."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestRange | None = None


class DeviceCapacity(Struct):
    value: Quantity = Quantity(0)
    request_policy: CapacityRequestPolicy = CapacityRequestPolicy()


class DeviceCounter(Struct):
    value: Quantity = Quantity(0)


class DeviceCounterConsumption(Struct):
    """What a device takes of counters that it shares with other devices of its pool."""

    counter_set: str = ""
    counters: dict[str, DeviceCounter] = {}


class Device(Struct):
    """``node_name`` and the next fields are set if the slice leaves them to its devices."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    taints: tuple[Taint, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    allow_multiple_allocations: bool = False
    binding_conditions: tuple[str, ...] = ()


class ResourcePool(Struct):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class CounterSet(Struct):
    """Counters that devices of the pool share."""

    name: str = ""
    counters: dict[str, DeviceCounter] = {}


class ResourceSliceSpec(Struct):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    shared_counters: tuple[CounterSet, ...] = ()
    devices: tuple[Device, ...] = ()


class ResourceSlice(Struct):
    metadata: ObjectMeta
    spec: ResourceSliceSpec = ResourceSliceSpec()

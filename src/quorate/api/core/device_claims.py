"""resource.k8s.io/v1: classes of devices and templates of claims for them (dynamic resource allocation)."""

from typing import Final

import msgspec

from quorate.api.meta import Int64, ObjectMeta, Struct

GROUP: Final = "resource.k8s.io"
VERSION: Final = "v1"

EXACT_COUNT: Final = "ExactCount"


class ExactDeviceRequest(Struct):
    device_class_name: str = ""
    allocation_mode: str = EXACT_COUNT
    count: Int64 = 1
    admin_access: bool = False


class DeviceRequest(Struct):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[msgspec.Raw, ...] = ()


class DeviceClaim(Struct):
    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(Struct):
    devices: DeviceClaim = DeviceClaim()


class ResourceClaimTemplateSpec(Struct):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Struct):
    """What the claim of each pod that names the template requests; the spec does not change."""

    metadata: ObjectMeta
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Struct):
    extended_resource_name: str = ""  # pods that request this resource get devices of the class


class DeviceClass(Struct):
    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()

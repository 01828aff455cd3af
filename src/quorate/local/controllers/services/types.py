"""Services and EndpointSlices, with the fields that the controller, the DNS server and the proxy read."""

from typing import Final

import msgspec

from quorate.api.meta import ObjectMeta, Struct
from quorate.kube.resources import Resource, untyped

SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"
HEADLESS: Final = "None"


class ServicePort(Struct):
    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    node_port: int = 0
    app_protocol: str | None = None


class ServiceSpec(Struct):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    ports: tuple[ServicePort, ...] = ()
    external_name: str = ""
    publish_not_ready_addresses: bool = False
    session_affinity: str = "None"


class Service(Struct):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


class EndpointConditions(Struct, omit_defaults=False):
    ready: bool | None = None  # None counts as ready
    serving: bool | None = None
    terminating: bool | None = None


class TargetReference(Struct):
    kind: str
    namespace: str
    name: str
    uid: str


class Endpoint(Struct):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str = ""
    node_name: str = ""
    target_ref: TargetReference | None = None

    @property
    def is_ready(self) -> bool:
        return self.conditions.ready is not False


class EndpointPort(Struct):
    name: str = ""
    port: int | None = None
    protocol: str = "TCP"
    app_protocol: str | None = None


class EndpointSlice(Struct):
    metadata: ObjectMeta
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


SERVICES: Final = Resource("", "v1", "services", "Service", True, Service)
ENDPOINT_SLICES: Final = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice
)
ENDPOINTS: Final = untyped("", "v1", "endpoints", "Endpoints", True)

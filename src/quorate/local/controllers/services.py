"""The endpoints controller: EndpointSlices and Endpoints of services with a selector.

The functions return which pods are endpoints, with which conditions and ports; the controller writes them.
The types have the fields that the controller, the DNS server and the proxy of nodes read.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from quorate.api.codec import Json, convert, encode_sorted, to_builtins
from quorate.api.meta import Key, ObjectMeta, Struct, is_true
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import Resource, untyped
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.pod_control import is_namespace_terminating, owner_references
from quorate.local.nodes.pod_types import PODS, Pod

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


PortMap = tuple[EndpointPort, ...]

MANAGED_BY_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
ENDPOINTS_MANAGED_BY_LABEL: Final = "endpoints.kubernetes.io/managed-by"
ENDPOINTS_MANAGER: Final = "endpoint-controller"
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"
MAX_ENDPOINTS: Final = 100  # of one slice


def has_endpoints(service: Service) -> bool:
    """Return True if the endpoints of a service are its pods; without a selector users write them."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def selects(service: Service, labels: Mapping[str, str]) -> bool:
    return service.spec.selector.items() <= labels.items()


def endpoints_by_ports(service: Service, pods: Iterable[Pod]) -> dict[PortMap, list[Endpoint]]:
    """Return the endpoints of the pods with an address, by their ports, which may differ between pods.

    ``pods`` are the pods that the service selects.
    """
    grouped: dict[PortMap, list[Endpoint]] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if pod.status.pod_ip and pod.status.phase not in ("Succeeded", "Failed"):
            grouped.setdefault(_ports(service, pod), []).append(_endpoint(service, pod))
    return grouped


def _ports(service: Service, pod: Pod) -> PortMap:
    numbers = ((port, _target(port, pod)) for port in service.spec.ports)
    return tuple(
        EndpointPort(name=port.name, port=number, protocol=port.protocol, app_protocol=port.app_protocol)
        for port, number in numbers
        if number
    )


def _target(port: ServicePort, pod: Pod) -> int:
    """Return the port of the pod; 0 if the pod has no port of that name."""
    if isinstance(port.target_port, int):
        return port.target_port or port.port
    named = (
        container_port.container_port
        for container in pod.spec.containers
        for container_port in container.ports
        if container_port.name == port.target_port and container_port.protocol == port.protocol
    )
    return next(named, 0)


def _endpoint(service: Service, pod: Pod) -> Endpoint:
    metadata = pod.metadata
    publish = service.spec.publish_not_ready_addresses
    serving = is_true(pod.status.conditions, "Ready")
    terminating = metadata.deletion_timestamp is not None
    has_name = pod.spec.hostname and pod.spec.subdomain == service.metadata.name
    return Endpoint(
        addresses=(pod.status.pod_ip,),
        conditions=EndpointConditions(
            ready=publish or (serving and not terminating), serving=serving, terminating=terminating
        ),
        hostname=pod.spec.hostname if has_name else "",
        node_name=pod.spec.node_name,
        target_ref=TargetReference(
            kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
        ),
    )


def desired_slices(service: Service, grouped: Mapping[PortMap, list[Endpoint]]) -> dict[str, Json]:
    """Return the slices of a service by name; a service without pods has one empty slice."""
    slices: dict[str, Json] = {}
    for ports, endpoints in sorted(grouped.items(), key=lambda group: str(group[0])) or [((), [])]:
        for start in range(0, max(len(endpoints), 1), MAX_ENDPOINTS):
            name = f"{service.metadata.name}-{len(slices)}"
            slices[name] = {
                "metadata": _metadata(service, name, SERVICE_NAME_LABEL, MANAGED_BY_LABEL, MANAGER),
                "addressType": "IPv4",
                "endpoints": to_builtins(endpoints[start : start + MAX_ENDPOINTS]),
                "ports": to_builtins(ports),
            }
    return slices


def desired_endpoints(service: Service, grouped: Mapping[PortMap, list[Endpoint]]) -> Json:
    """Return the Endpoints object of a service, the older form of its slices."""
    subsets = []
    for ports, endpoints in sorted(grouped.items(), key=lambda group: str(group[0])):
        subset: Json = {"addresses": [], "notReadyAddresses": [], "ports": to_builtins(ports)}
        for endpoint in endpoints:
            if endpoint.is_ready or not endpoint.conditions.terminating:
                field = "addresses" if endpoint.is_ready else "notReadyAddresses"
                subset[field].append(_address(endpoint))
        if subset["addresses"] or subset["notReadyAddresses"]:
            subsets.append({name: value for name, value in subset.items() if value})
    name = service.metadata.name
    metadata = _metadata(service, name, "", ENDPOINTS_MANAGED_BY_LABEL, ENDPOINTS_MANAGER)
    return {"metadata": metadata, "subsets": subsets}


def _address(endpoint: Endpoint) -> Json:
    address = {
        "ip": endpoint.addresses[0],
        "hostname": endpoint.hostname,
        "nodeName": endpoint.node_name,
        "targetRef": to_builtins(endpoint.target_ref),
    }
    return {name: value for name, value in address.items() if value}


def _metadata(service: Service, name: str, name_label: str, manager_label: str, manager: str) -> Json:
    labels = {**service.metadata.labels, manager_label: manager}
    if name_label:
        labels[name_label] = service.metadata.name
    if service.spec.cluster_ip == HEADLESS:
        labels[HEADLESS_LABEL] = ""
    return {
        "name": name,
        "namespace": service.metadata.namespace,
        "labels": labels,
        "ownerReferences": owner_references(SERVICES, service.metadata),
    }


class EndpointsController(Controller):
    """Watches pods only from the first service with a selector on: most clusters for batch jobs have none."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__("endpoints", context)
        self._services = Informer(self._client, SERVICES)
        self._slices = Informer(self._client, ENDPOINT_SLICES)
        self._pods = Informer(self._client, PODS)
        self._needs_pods = asyncio.Event()
        self._applied: dict[Key, bytes] = {}  # the Endpoints objects as this process has written them
        self._services.add_index("namespace", lambda service: (service.metadata.namespace,))
        self._pods.add_index("namespace", lambda pod: (pod.metadata.namespace,))
        self._slices.add_index("service", _service_of)
        self._services.subscribe(self._on_service)
        self._slices.subscribe(self._on_slice)
        self._pods.subscribe(self._on_pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._services.run())
            await self._services.synced.wait()
            await self._needs_pods.wait()
            for informer in (self._slices, self._pods):
                tasks.create_task(informer.run())
                await informer.synced.wait()
            tasks.create_task(super().run())

    def _on_service(self, change: Change[Service]) -> None:
        if any(map(has_endpoints, change.versions)):
            self._needs_pods.set()
            self._reconciler.enqueue(change.key)

    def _on_slice(self, change: Change[EndpointSlice]) -> None:
        for endpoint_slice in change.versions:
            for key in _service_of(endpoint_slice):
                self._reconciler.enqueue(key)

    def _on_pod(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and _is_same_endpoint(old, new):
            return
        for service in self._services.by_index("namespace", change.key.namespace):
            if has_endpoints(service) and any(
                selects(service, pod.metadata.labels) for pod in change.versions
            ):
                self._reconciler.enqueue(service.metadata.key)

    async def reconcile(self, key: Key) -> None:
        service = self._services.get(key)
        if service is None or service.metadata.deletion_timestamp is not None:
            self._applied.pop(key, None)  # the objects are deleted with their owner
            return
        if not has_endpoints(service):
            return
        pods = self._pods.by_index("namespace", key.namespace)
        grouped = endpoints_by_ports(service, (pod for pod in pods if selects(service, pod.metadata.labels)))
        try:
            await self._write_slices(key, desired_slices(service, grouped))
            await self._write_endpoints(key, desired_endpoints(service, grouped))
        except Forbidden as refusal:
            # A terminating namespace gets no new objects; its service is deleted soon.
            if not is_namespace_terminating(refusal):
                raise

    async def _write_slices(self, key: Key, desired: dict[str, Json]) -> None:
        present = {
            endpoint_slice.metadata.name: endpoint_slice
            for endpoint_slice in self._slices.by_index("service", key)
        }
        for name, content in desired.items():
            if name not in present or not _has_content(present[name], content):
                await self._client.apply(ENDPOINT_SLICES, Key(key.namespace, name), content)
        for name in present.keys() - desired.keys():
            with suppress(NotFound):
                await self._client.delete(ENDPOINT_SLICES, Key(key.namespace, name))

    async def _write_endpoints(self, key: Key, desired: Json) -> None:
        """Write the Endpoints of a service, unless a user has written them: for webhooks on this machine."""
        content = encode_sorted(desired)
        if self._applied.get(key) == content:
            return
        present = await self._client.find(ENDPOINTS, key)
        if present is None:
            present = desired
        if present["metadata"].get("labels", {}).get(ENDPOINTS_MANAGED_BY_LABEL) == ENDPOINTS_MANAGER:
            await self._client.apply(ENDPOINTS, key, desired)
        self._applied[key] = content


def _service_of(endpoint_slice: EndpointSlice) -> Iterable[Key]:
    """Return the key of the service if this controller keeps the slice."""
    labels = endpoint_slice.metadata.labels
    if labels.get(MANAGED_BY_LABEL) == MANAGER and SERVICE_NAME_LABEL in labels:
        return (Key(endpoint_slice.metadata.namespace, labels[SERVICE_NAME_LABEL]),)
    return ()


def _has_content(present: EndpointSlice, content: Json) -> bool:
    wanted = convert(EndpointSlice, content)
    return (
        (present.endpoints or ()) == (wanted.endpoints or ())
        and (present.ports or ()) == (wanted.ports or ())
        and wanted.metadata.labels.items() <= present.metadata.labels.items()
    )


def _is_same_endpoint(old: Pod, new: Pod) -> bool:
    """Return True if nothing that an endpoint shows differs, as in most updates of a pod."""
    return (
        old.status == new.status
        and old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    )

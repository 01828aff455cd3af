"""The endpoints of a service: which pods, with which conditions and ports."""

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.api.codec import Json, to_builtins
from quorate.api.meta import is_true
from quorate.local.controllers.pod_control import owner_references
from quorate.local.controllers.services.types import (
    HEADLESS,
    SERVICE_NAME_LABEL,
    SERVICES,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    Pod,
    Service,
    ServicePort,
    TargetReference,
)

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

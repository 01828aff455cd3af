"""Rules that relate fields of Services, Endpoints and EndpointSlices."""

from ipaddress import ip_network

from quorate.api.codec import Json
from quorate.local.objects import errors
from quorate.local.server.registry.validation.field_rules import Causes, Scope, check, relation
from quorate.local.server.registry.validation.formats import check_format, cidr, ip_address

HEADLESS = "None"
CLUSTER_IP = "spec.clusterIPs[0]"


def _service_type(spec: Json) -> str:
    return str(spec.get("type", "ClusterIP"))


@relation
def name_needed_among_ports(port: Json, path: str, scope: Scope) -> Causes:
    if len(scope.container.obj["ports"]) > 1 and not port.get("name"):
        yield errors.required(f"{path}.name")


@relation
def one_kind_of_peer(peer: Json, path: str, _: Scope) -> Causes:
    selectors = [name for name in ("podSelector", "namespaceSelector") if name in peer]
    if "ipBlock" in peer and selectors:
        yield errors.forbidden_field(path, "may not specify both ipBlock and another peer")
    elif "ipBlock" not in peer and not selectors:
        yield errors.required(path, "must specify a peer")


@relation
def excepted_networks(block: Json, path: str, _: Scope) -> Causes:
    """Check that exceptions are parts of the network of a block, which is checked by itself."""
    if any(cidr(block.get("cidr", ""))):
        return
    whole = ip_network(block["cidr"], strict=False)
    for index, text in enumerate(block.get("except", ())):
        where = f"{path}.except[{index}]"
        if problems := list(check_format(text, where, cidr)):
            yield from problems
            continue
        part = ip_network(text, strict=False)
        if (
            part.version != whole.version
            or part.network_address not in whole
            or part.prefixlen <= whole.prefixlen
        ):
            yield errors.invalid_value(where, text, "must be a strict subset of `cidr`")


@relation
def node_port_of_service_type(port: Json, path: str, scope: Scope) -> Causes:
    kind = _service_type(scope.container.obj)
    if port.get("nodePort") and kind in ("ClusterIP", "ExternalName"):
        yield errors.forbidden_field(f"{path}.nodePort", f"may not be used when `type` is '{kind}'")


@relation
def unique_service_port(port: Json, path: str, scope: Scope) -> Causes:
    if scope.container.is_duplicate("ports", (port.get("protocol"), port.get("port"))):
        yield errors.duplicate(path, port)


@relation
def service_address(spec: Json, path: str, scope: Scope) -> Causes:
    kind, address = _service_type(spec), spec.get("clusterIP", HEADLESS)
    if kind == "ExternalName":
        yield from check("ExternalNameService", spec, path, scope)
    elif address != HEADLESS:
        yield from check_format(address, CLUSTER_IP, ip_address)
    elif "clusterIP" in spec and kind in ("LoadBalancer", "NodePort"):
        yield errors.invalid_value(CLUSTER_IP, HEADLESS, f"may not be set to 'None' for {kind} services")


def validate_new_service(service: Json) -> list[errors.Cause]:
    """Check that the cluster has the IP families of a new service."""
    return list(_single_stack(service["spec"]))


def validate_service_update(new: Json, old: Json) -> list[errors.Cause]:
    """Check that an allocated cluster IP does not change, and that the cluster has the IP families."""
    return [*_single_stack(new["spec"]), *_kept_address(new, old)]


def validate_service_status(new: Json, _: Json) -> list[errors.Cause]:
    """Check that only a service of type LoadBalancer has an address of a load balancer."""
    ingress = new.get("status", {}).get("loadBalancer", {}).get("ingress")
    if ingress and _service_type(new["spec"]) != "LoadBalancer":
        where = "status.loadBalancer.ingress"
        return [errors.forbidden_field(where, "may only be used when `spec.type` is 'LoadBalancer'")]
    return []


def _single_stack(spec: Json) -> Causes:
    """Refuse two IP families, which only a headless service without a selector may have."""
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        return
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        message = "this cluster is not configured for dual-stack services"
        yield errors.invalid_value("spec.ipFamilyPolicy", "RequireDualStack", message)
    for index, family in enumerate(spec.get("ipFamilies", ())):
        if family not in ("IPv4", "IPv6"):
            yield errors.not_supported(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6"))
        elif family != "IPv4":
            yield errors.invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def _kept_address(new: Json, old: Json) -> list[errors.Cause]:
    now, was = new["spec"].get("clusterIP"), old["spec"].get("clusterIP")
    if not was or now == was or "ExternalName" in (new["spec"].get("type"), old["spec"].get("type")):
        return []
    return [errors.invalid_value(CLUSTER_IP, [now], "may not change once set")]


@relation
def endpoint_addresses(endpoint: Json, path: str, scope: Scope) -> Causes:
    if scope.container.obj.get("addressType", "") != "FQDN":
        for index, address in enumerate(endpoint.get("addresses", ())):
            yield from check_format(address, f"{path}.addresses[{index}]", ip_address)

"""What is behind a service: Endpoints and EndpointSlices."""

from quorate.local.server.errors import Cause, not_supported, required
from quorate.local.server.registry.validation.field_rules import Causes, Json, one_of, unchanged, within
from quorate.local.server.registry.validation.pods.containers import PORTS, PROTOCOLS
from quorate.local.server.registry.validation.pods.pod_spec import ip_address

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def endpoints(given: Json) -> list[Cause]:
    return list(_subsets(given.get("subsets", [])))


def _subsets(subsets: list[Json]) -> Causes:
    for index, subset in enumerate(subsets):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(field, ())):
                yield from ip_address(address.get("ip", ""), f"{path}.{field}[{position}].ip")
        yield from _ports(subset.get("ports", []), f"{path}.ports")


def _ports(ports: list[Json], path: str) -> Causes:
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        if len(ports) > 1 and not port.get("name"):
            yield required(f"{here}.name")
        yield from within(port, here, "port", *PORTS)
        yield from one_of(port, here, "protocol", PROTOCOLS)


def endpoint_slice(given: Json) -> list[Cause]:
    return list(_slice(given))


def _slice(given: Json) -> Causes:
    kind = given.get("addressType", "")
    if not kind:
        yield required("addressType")
    elif kind not in ADDRESS_TYPES:
        yield not_supported("addressType", kind, ADDRESS_TYPES)
    for index, endpoint in enumerate(given.get("endpoints") or ()):
        path = f"endpoints[{index}].addresses"
        if not endpoint.get("addresses"):
            yield required(path, "must contain at least 1 item")
        for position, address in enumerate(endpoint.get("addresses", ())):
            if kind != "FQDN":
                yield from ip_address(address, f"{path}[{position}]")
    yield from _ports(given.get("ports") or [], "ports")


def endpoint_slice_update(new: Json, old: Json) -> list[Cause]:
    return list(unchanged(new, old, "", "addressType"))

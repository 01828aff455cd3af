"""Allocation of cluster IPs and node ports to Services, and checks of requested addresses and ports."""

import ipaddress

from quorate.api.codec import Json
from quorate.local.objects.errors import Cause, invalid_value
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.storage.store import Entry

SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30_000, 32_768)
OUT_OF_RANGE = "provided port is not in the valid range."
IN_USE = "is already allocated"


def allocate(context: RequestContext, new: Json, old: Json | None = None) -> list[Cause]:
    """Allocate the cluster IP and the node ports that a Service needs and does not name.

    Return a cause for each address and port that the request names and that is out of range or in use.  A
    port keeps the number that the port of its name had; the uid determines where the search for a free one
    starts.
    """
    if context.kind.resource != "services":
        return []
    spec, former = new["spec"], old["spec"] if old else {}
    store, own = context.server.store, (context.namespace, new["metadata"].get("name"))
    services = [
        (address, ports)
        for name, address, ports in store.usable("services", _allocated_addresses, "service addresses")
        if name != own
    ]
    start = int(new["metadata"]["uid"].replace("-", ""), 16)
    causes = []
    if spec["type"] != "ExternalName":
        causes += _cluster_ip(spec, former, {address for address, _ in services}, start)
    if spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts"):
        _keep_node_ports(spec, former)
        used = set[int | None]().union(*(ports for _, ports in services))
        named = _node_ports(spec, former, used, start)
        is_dry_run = "dryRun" in context.query  # for which kube-apiserver does not check the range
        causes += [cause for cause in named if not (is_dry_run and OUT_OF_RANGE in cause.message)]
    return causes


def _cluster_ip(spec: Json, former: Json, used: set[str], start: int) -> list[Cause]:
    address = spec.get("clusterIP")
    if not address:
        size = SERVICE_NETWORK.num_addresses - 2
        candidates = (str(SERVICE_NETWORK[1 + (start + step) % size]) for step in range(size))
        spec["clusterIP"] = next(address for address in candidates if address not in used)
        spec["clusterIPs"] = [spec["clusterIP"]]
        return []
    if address == former.get("clusterIP"):
        return []
    try:
        in_range = ipaddress.ip_address(address) in SERVICE_NETWORK
    except ValueError:
        return []  # headless, or refused by the validation
    problem = "the provided network does not match the current range"
    if in_range:
        problem = f"provided IP {IN_USE}" if address in used else ""
    message = f"failed to allocate IP {address}: {problem}"
    return [invalid_value("spec.clusterIPs", [address], message)] if problem else []


def _keep_node_ports(spec: Json, former: Json) -> None:
    ports, named = spec.get("ports", ()), {port.get("nodePort") for port in spec.get("ports", ())}
    numbers = {port.get("name"): port.get("nodePort") for port in former.get("ports", ())}
    for port in ports:
        number = numbers.get(port.get("name"))
        if not port.get("nodePort") and number and number not in named:
            port["nodePort"] = number


def _node_ports(spec: Json, former: Json, used: set[int | None], start: int) -> list[Cause]:
    causes, own = [], set[tuple[int, str]]()
    kept = {port.get("nodePort") for port in former.get("ports", ())}
    out_of_range = f"{OUT_OF_RANGE} The range of valid ports is {NODE_PORTS[0]}-{NODE_PORTS[-1]}"
    for index, port in enumerate(spec.get("ports", ())):
        number, path = port.get("nodePort"), f"spec.ports[{index}].nodePort"
        if not number:
            continue
        if number in kept:
            pass
        elif number not in NODE_PORTS:
            causes.append(invalid_value(path, number, out_of_range))
        elif number in used or (number, port["protocol"]) in own:
            causes.append(invalid_value(path, number, f"provided port {IN_USE}"))
        own.add((number, port["protocol"]))
    taken = used | {port.get("nodePort") for port in spec.get("ports", ())}
    free = (NODE_PORTS[(start + step) % len(NODE_PORTS)] for step in range(len(NODE_PORTS)))
    shared = {port.get("port"): port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}
    for port in spec.get("ports", ()):
        if port.get("nodePort"):
            continue
        number = shared.get(port.get("port"))  # one number serves all protocols of a port
        if not number or (number, port["protocol"]) in own:
            number = next(number for number in free if number not in taken)
        port["nodePort"] = shared[port.get("port")] = number
        own.add((number, port["protocol"]))
    return causes


def _allocated_addresses(entry: Entry) -> tuple[tuple[str, str], str, set[int | None]]:
    """Return the namespace and name, the cluster IP and the node ports of a Service."""
    spec = entry.decode()["spec"]
    ports = {port.get("nodePort") for port in spec.get("ports") or ()}
    return (entry.key.namespace, entry.key.name), str(spec.get("clusterIP")), ports

"""Services: names and addresses for pods."""

from quorate.local.server.errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from quorate.local.server.registry.validation import formats, metadata
from quorate.local.server.registry.validation.field_rules import (
    Causes,
    Json,
    one_of,
    present,
    spelled,
    well_named,
    within,
)
from quorate.local.server.registry.validation.pods.containers import PORTS, PROTOCOLS, port
from quorate.local.server.registry.validation.pods.pod_spec import ip_address

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
CHOICES = {
    "sessionAffinity": ("ClientIP", "None"),
    "internalTrafficPolicy": ("Cluster", "Local"),
    "externalTrafficPolicy": ("Cluster", "Local"),
    "ipFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
}
HEADLESS = "None"


def validate(service: Json) -> list[Cause]:
    return list(_spec(service["spec"]))


def _spec(spec: Json) -> Causes:
    kind, ports = spec.get("type", "ClusterIP"), spec.get("ports", [])
    if kind not in TYPES:
        yield not_supported("spec.type", kind, TYPES)
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != HEADLESS:
        yield required("spec.ports")
    yield from _ports(ports, kind)
    yield from metadata.labels(spec.get("selector", {}), "spec.selector")
    for field, supported in CHOICES.items():
        yield from one_of(spec, "spec", field, supported)
    if kind == "ExternalName":
        yield from _external_name(spec)
    elif spec.get("clusterIP", HEADLESS) != HEADLESS:
        yield from ip_address(spec["clusterIP"], "spec.clusterIPs[0]")
    elif spec.get("clusterIP") == HEADLESS and kind in ("LoadBalancer", "NodePort"):
        yield invalid_value("spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services")
    for index, address in enumerate(spec.get("externalIPs", ())):
        yield from ip_address(address, f"spec.externalIPs[{index}]")
    if "externalTrafficPolicy" in spec and kind in ("ClusterIP", "ExternalName"):
        why = "may only be set for externally-accessible services"
        yield invalid_value("spec.externalTrafficPolicy", spec["externalTrafficPolicy"], why)


def _external_name(spec: Json) -> Causes:
    if spec.get("clusterIP"):
        yield forbidden_field("spec.clusterIPs", "may not be set for ExternalName services")
    yield from present(spec, "spec", "externalName")
    yield from well_named(spec, "spec", "externalName", formats.subdomain)


def _ports(ports: list[Json], kind: str) -> Causes:
    known, taken = set(), set()
    for index, given in enumerate(ports):
        here, name = f"spec.ports[{index}]", given.get("name", "")
        if len(ports) > 1 and not name:
            yield required(f"{here}.name")
        if name:
            yield from spelled(name, f"{here}.name", formats.label)
            if name in known:
                yield duplicate(f"{here}.name", name)
            known.add(name)
        yield from within({"port": 0} | given, here, "port", *PORTS)
        yield from one_of(given, here, "protocol", PROTOCOLS)
        yield from well_named(given, here, "appProtocol", formats.qualified)
        if given.get("targetPort"):
            yield from port(given["targetPort"], f"{here}.targetPort")
        if given.get("nodePort") and kind in ("ClusterIP", "ExternalName"):
            yield forbidden_field(f"{here}.nodePort", f"may not be used when `type` is '{kind}'")
        listening = (given.get("protocol"), given.get("port"))
        if listening in taken:
            yield duplicate(here, given)
        taken.add(listening)


def validate_update(new: Json, old: Json) -> list[Cause]:
    """An address that was given out is in use."""
    now, was = new["spec"].get("clusterIP"), old["spec"].get("clusterIP")
    if not was or now == was or "ExternalName" in (new["spec"].get("type"), old["spec"].get("type")):
        return []
    return [invalid_value("spec.clusterIPs[0]", [now], "may not change once set")]

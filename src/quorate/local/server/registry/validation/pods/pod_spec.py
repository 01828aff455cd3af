"""Pods, and the pod templates inside other kinds.

Knowingly missing: Windows, devices claimed through DRA, and the contents of volume sources that nothing here
ever mounts.
"""

import ipaddress
from collections.abc import Iterator

from quorate.api.quantity import parse_quantity
from quorate.local.server.errors import Cause, duplicate, forbidden_field, invalid_value, required
from quorate.local.server.registry.validation import formats, metadata
from quorate.local.server.registry.validation.field_rules import (
    MAX_INT32,
    Causes,
    Json,
    identified,
    not_negative,
    one_of,
    present,
    spelled,
    well_named,
    within,
)
from quorate.local.server.registry.validation.pods.containers import PROBES, container
from quorate.local.server.registry.validation.pods.scheduling import (
    affinity,
    scheduling_gates,
    tolerations,
    topology_spread,
)
from quorate.local.server.registry.validation.pods.volumes import volumes
from quorate.local.server.registry.validation.resource_amounts import (
    amount,
    container_resource_name,
    requirements,
)

CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "preemptionPolicy": ("Never", "PreemptLowerPriority"),
}
NAMES = {
    "serviceAccountName": formats.subdomain,
    "nodeName": formats.subdomain,
    "hostname": formats.label,
    "subdomain": formats.label,
    "priorityClassName": formats.subdomain,
    "runtimeClassName": formats.subdomain,
}


def validate(pod: Json) -> list[Cause]:
    return list(_pod(pod))


def _pod(pod: Json) -> Causes:
    given = pod["spec"]
    yield from spec(given, "spec")
    if given.get("nodeName") and given.get("schedulingGates"):
        yield forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def validate_create(pod: Json) -> list[Cause]:
    if pod["spec"].get("ephemeralContainers"):
        return [forbidden_field("spec.ephemeralContainers", "cannot be set on create")]
    return []


def template(given: Json, path: str) -> Causes:
    """What a job or a deployment makes its pods from."""
    described = given.get("metadata", {})
    yield from metadata.labels(described.get("labels", {}), f"{path}.labels")
    yield from metadata.annotations(described.get("annotations", {}), f"{path}.annotations")
    yield from spec(given.get("spec", {}), f"{path}.spec")
    if given.get("spec", {}).get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        yield forbidden_field(f"{path}.spec.ephemeralContainers", why)


def spec(given: Json, path: str) -> Causes:
    yield from volumes(given.get("volumes", []), f"{path}.volumes")
    yield from _containers(given, path)
    for field, supported in CHOICES.items():
        yield from one_of(given, path, field, supported)
    yield from within(given, path, "activeDeadlineSeconds", 1, MAX_INT32)
    for field, grammar in NAMES.items():
        yield from well_named(given, path, field, grammar)
    yield from metadata.labels(given.get("nodeSelector", {}), f"{path}.nodeSelector")
    yield from tolerations(given.get("tolerations", []), f"{path}.tolerations")
    yield from affinity(given.get("affinity", {}), f"{path}.affinity")
    yield from topology_spread(
        given.get("topologySpreadConstraints", []), f"{path}.topologySpreadConstraints"
    )
    yield from scheduling_gates(given.get("schedulingGates", []), f"{path}.schedulingGates")
    yield from _security(given.get("securityContext", {}), f"{path}.securityContext")
    yield from _network(given, path)
    yield from requirements(given.get("resources", {}), f"{path}.resources")
    for name, value in given.get("overhead", {}).items():
        yield from container_resource_name(name, f"{path}.overhead[{name}]")
        yield from amount(name, value, f"{path}.overhead[{name}]")
    for index, secret in enumerate(given.get("imagePullSecrets", ())):
        yield from present(secret, f"{path}.imagePullSecrets[{index}]", "name")
    for index, gate in enumerate(given.get("readinessGates", ())):
        where = f"{path}.readinessGates[{index}].conditionType"
        yield from spelled(gate.get("conditionType", ""), where, formats.qualified)


def _containers(given: Json, path: str) -> Causes:
    mountable = {volume.get("name", "") for volume in given.get("volumes", ())}
    known: set[str] = set()
    if not given.get("containers"):
        yield required(f"{path}.containers")
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for index, one in enumerate(given.get(field, ())):
            here = f"{path}.{field}[{index}]"
            yield from identified(one, here, "name", formats.label, known)
            yield from container(one, here, mountable)
            if field == "initContainers" and one.get("restartPolicy") != "Always":
                yield from _ends(one, here)
    yield from _host_ports(given, path)


def _ends(init_container: Json, path: str) -> Causes:
    """A container that others wait for is not watched while it runs."""
    for field in ("lifecycle", *PROBES):
        if field in init_container:
            why = "may not be set for init containers without restartPolicy=Always"
            yield forbidden_field(f"{path}.{field}", why)


def _host_ports(given: Json, path: str) -> Causes:
    taken = set()
    for index, one in enumerate(given.get("containers", ())):
        for position, port in enumerate(one.get("ports", ())):
            here = f"{path}.containers[{index}].ports[{position}]"
            if given.get("hostNetwork") and port.get("hostPort") != port.get("containerPort"):
                why = "must match `hostPort` when `hostNetwork` is true"
                yield invalid_value(f"{here}.containerPort", port.get("containerPort", 0), why)
            asked = (port.get("hostPort"), port.get("hostIP", ""), port.get("protocol", "TCP"))
            if port.get("hostPort") and asked in taken:
                yield duplicate(f"{here}.hostPort", "/".join(map(str, asked)))
            taken.add(asked)


def _security(security: Json, path: str) -> Causes:
    yield from not_negative(security, path, "runAsUser", "runAsGroup", "fsGroup")
    yield from one_of(security, path, "fsGroupChangePolicy", ("Always", "OnRootMismatch"))
    for index, group in enumerate(security.get("supplementalGroups", ())):
        if group < 0:
            yield invalid_value(f"{path}.supplementalGroups[{index}]", group, "must not be negative")


def _network(given: Json, path: str) -> Causes:
    for index, alias in enumerate(given.get("hostAliases", ())):
        here = f"{path}.hostAliases[{index}]"
        yield from ip_address(alias.get("ip", ""), f"{here}.ip")
        for position, hostname in enumerate(alias.get("hostnames", ())):
            yield from spelled(hostname, f"{here}.hostnames[{position}]", formats.subdomain)
    if given.get("dnsPolicy") == "None" and not given.get("dnsConfig", {}).get("nameservers"):
        why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required(f"{path}.dnsConfig.nameservers" if "dnsConfig" in given else f"{path}.dnsConfig", why)
    for index, server in enumerate(given.get("dnsConfig", {}).get("nameservers", ())):
        yield from ip_address(server, f"{path}.dnsConfig.nameservers[{index}]")


def ip_address(value: str, path: str) -> Causes:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        yield invalid_value(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def warnings(pod: Json) -> list[str]:
    """Amounts of memory and disk are counted in whole bytes."""
    return list(_fractions(pod["spec"], "spec"))


def _fractions(given: Json, path: str) -> Iterator[str]:
    for index, one in enumerate(given.get("containers", ())):
        for side in ("limits", "requests"):
            for name, value in sorted(one.get("resources", {}).get(side, {}).items()):
                if name in ("memory", "ephemeral-storage") and parse_quantity(value).milli % 1000:
                    where = f"{path}.containers[{index}].resources.{side}[{name}]"
                    yield f'{where}: fractional byte value "{value}" is invalid, must be an integer'

"""Pods, and the pod templates inside other kinds."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from quorate.api.quantity import parse_quantity
from quorate.local.server.errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    missing_reference,
    not_supported,
    required,
    show,
)
from quorate.local.server.validation import metadata, names, quantities

Json = dict[str, Any]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PROTOCOLS = ("SCTP", "TCP", "UDP")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NAMES = {"hostname": names.label, "subdomain": names.label, "nodeName": names.subdomain}
LAST_PORT = 65_535
LONGEST_DEADLINE_S = 2**31 - 1


def validate(pod: Json) -> list[Cause]:
    return list(spec_findings(pod.get("spec", {}), "spec"))


def template_findings(template: Json, path: str) -> Iterator[Cause]:
    meta = template.get("metadata", {})
    yield from metadata.labels(meta.get("labels", {}), f"{path}.metadata.labels")
    yield from metadata.annotations(meta.get("annotations", {}), f"{path}.metadata.annotations")
    yield from spec_findings(template.get("spec", {}), f"{path}.spec")


def spec_findings(spec: Json, path: str) -> Iterator[Cause]:
    volumes = spec.get("volumes", [])
    yield from _unique_names(volumes, f"{path}.volumes")
    known = {volume.get("name") for volume in volumes}
    containers, initial = spec.get("containers", []), spec.get("initContainers", [])
    if not containers:
        yield required(f"{path}.containers")
    yield from _containers(containers, known, (), f"{path}.containers")
    taken = [container.get("name", "") for container in containers]
    yield from _containers(initial, known, taken, f"{path}.initContainers")
    yield from _one_of(spec, "restartPolicy", RESTART_POLICIES, path)
    yield from _one_of(spec, "dnsPolicy", DNS_POLICIES, path)
    yield from _deadline(spec, path)
    yield from metadata.labels(spec.get("nodeSelector", {}), f"{path}.nodeSelector")
    for name, rule in NAMES.items():
        if name in spec:
            yield from (invalid_value(f"{path}.{name}", spec[name], why) for why in rule(spec[name]))
    yield from _tolerations(spec.get("tolerations", []), f"{path}.tolerations")
    yield from _affinity(spec.get("affinity", {}), f"{path}.affinity")
    yield from _spread(spec.get("topologySpreadConstraints", []), f"{path}.topologySpreadConstraints")
    for index, gate in enumerate(spec.get("schedulingGates", [])):
        name, where = gate.get("name", ""), f"{path}.schedulingGates[{index}]"
        yield from (invalid_value(where, name, why) for why in names.qualified(name))


def _one_of(holder: Json, name: str, supported: Sequence[str], path: str) -> Iterator[Cause]:
    if name in holder and holder[name] not in supported:
        yield not_supported(f"{path}.{name}", holder[name], supported)


def _deadline(spec: Json, path: str) -> Iterator[Cause]:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= LONGEST_DEADLINE_S:
        why = f"must be between 1 and {LONGEST_DEADLINE_S}, inclusive"
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, why)


def _unique_names(items: Iterable[Json], path: str, taken: Iterable[str] = ()) -> Iterator[Cause]:
    """Every item has a name, a label that no other has."""
    seen = set(taken)
    for index, item in enumerate(items):
        name, where = item.get("name", ""), f"{path}[{index}].name"
        if not name:
            yield required(where)
            continue
        yield from (invalid_value(where, name, why) for why in names.label(name))
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)


def _containers(
    containers: Sequence[Json], volumes: set[Any], taken: Iterable[str], path: str
) -> Iterator[Cause]:
    yield from _unique_names(containers, path, taken)
    for index, container in enumerate(containers):
        where = f"{path}[{index}]"
        if not container.get("image"):
            yield required(f"{where}.image")
        yield from _one_of(container, "imagePullPolicy", PULL_POLICIES, where)
        yield from _ports(container.get("ports", []), f"{where}.ports")
        for number, variable in enumerate(container.get("env", [])):
            if not variable.get("name"):
                yield required(f"{where}.env[{number}].name")
        for number, mount in enumerate(container.get("volumeMounts", [])):
            if mount.get("name") not in volumes:
                yield missing_reference(f"{where}.volumeMounts[{number}].name", mount.get("name", ""))
            if not mount.get("mountPath"):
                yield required(f"{where}.volumeMounts[{number}].mountPath")
        yield from quantities.resources(container.get("resources", {}), f"{where}.resources")


def _ports(ports: Sequence[Json], path: str) -> Iterator[Cause]:
    for index, port in enumerate(ports):
        number, where = port.get("containerPort", 0), f"{path}[{index}]"
        if not number:
            yield required(f"{where}.containerPort")
        elif not 1 <= number <= LAST_PORT:
            why = f"must be between 1 and {LAST_PORT}, inclusive"
            yield invalid_value(f"{where}.containerPort", number, why)
        yield from _one_of(port, "protocol", PROTOCOLS, where)


def _tolerations(tolerations: Sequence[Json], path: str) -> Iterator[Cause]:
    for index, toleration in enumerate(tolerations):
        where, operator = f"{path}[{index}]", toleration.get("operator", "Equal")
        key = toleration.get("key", "")
        if key:
            yield from (invalid_value(f"{where}.key", key, why) for why in names.qualified(key))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid_value(f"{where}.operator", toleration.get("operator", ""), why)
            continue
        if operator not in ("Equal", "Exists"):
            yield not_supported(f"{where}.operator", operator, ("Equal", "Exists"))
        elif operator == "Exists" and toleration.get("value"):
            why = "value must be empty when `operator` is 'Exists'"
            yield invalid_value(f"{where}.operator", toleration["value"], why)
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid_value(f"{where}.effect", toleration.get("effect", ""), why)
        if toleration.get("effect"):
            yield from _one_of(toleration, "effect", EFFECTS, where)


def _affinity(affinity: Json, path: str) -> Iterator[Cause]:
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    node = affinity.get("nodeAffinity", {}).get(hard)
    if node is not None and not node.get("nodeSelectorTerms"):
        where = f"{path}.nodeAffinity.{hard}.nodeSelectorTerms"
        yield required(where, "must have at least one node selector term")
    for name in ("podAffinity", "podAntiAffinity"):
        for index, term in enumerate(affinity.get(name, {}).get(hard, [])):
            where, key = f"{path}.{name}.{hard}[{index}].topologyKey", term.get("topologyKey", "")
            if not key:
                yield required(where, "can not be empty")
            yield from (invalid_value(where, key, why) for why in names.qualified(key))


def _spread(constraints: Sequence[Json], path: str) -> Iterator[Cause]:
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield invalid_value(f"{where}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
        if not constraint.get("topologyKey"):
            yield required(f"{where}.topologyKey", "can not be empty")
        actions = ("DoNotSchedule", "ScheduleAnyway")
        if constraint.get("whenUnsatisfiable") not in actions:
            yield not_supported(
                f"{where}.whenUnsatisfiable", constraint.get("whenUnsatisfiable", ""), actions
            )


MUTABLE_NOTE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_update(new: Json, old: Json) -> list[Cause]:
    """A pod's spec is what was scheduled: little of it may change."""
    findings: list[Cause] = []
    after, before = new["spec"], old["spec"]
    deadline, previous = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if previous is not None and (deadline is None or deadline > previous):
        why = "must be less than or equal to previous value"
        findings.append(invalid_value("spec.activeDeadlineSeconds", deadline, why))
    if findings:
        return findings
    gates = {gate["name"] for gate in before.get("schedulingGates", [])}
    added = [gate["name"] for gate in after.get("schedulingGates", []) if gate["name"] not in gates]
    if added:
        why = f"only deletion is allowed, but found new scheduling gates {show(added)}"
        return [forbidden_field("spec.schedulingGates", why)]
    if _settled(after, before) != _settled(before, before):
        findings.append(forbidden_field("spec", MUTABLE_NOTE))
    return findings


def _settled(spec: Json, before: Json) -> Json:
    """A spec without what may change."""
    free = {"activeDeadlineSeconds", "schedulingGates"}
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        free.add("terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        # Not scheduled yet: where it may go can still be narrowed.
        free |= {"nodeSelector", "affinity"}
    if all(toleration in spec.get("tolerations", []) for toleration in before.get("tolerations", [])):
        free.add("tolerations")
    settled = {name: value for name, value in spec.items() if name not in free}
    for name in ("containers", "initContainers"):
        if name in settled:
            settled[name] = [{k: v for k, v in item.items() if k != "image"} for item in settled[name]]
    return settled


def warn(pod: Json) -> list[str]:
    """Amounts of memory and disk are counted in whole bytes."""
    return list(_fractions(pod.get("spec", {}), "spec"))


def _fractions(spec: Json, path: str) -> Iterator[str]:
    for index, container in enumerate(spec.get("containers", [])):
        for kind in ("limits", "requests"):
            for name, amount in sorted(container.get("resources", {}).get(kind, {}).items()):
                if name in ("memory", "ephemeral-storage") and parse_quantity(amount).milli % 1000:
                    where = f"{path}.containers[{index}].resources.{kind}[{name}]"
                    yield f'{where}: fractional byte value "{amount}" is invalid, must be an integer'

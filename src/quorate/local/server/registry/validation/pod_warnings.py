"""Warnings about pods and pod templates that are accepted: what is deprecated, ambiguous or without effect.

Knowingly missing: paths of volumes that overlap, annotations for seccomp and AppArmor, and addresses in
unusual notations.
"""

from collections.abc import Callable, Iterable, Iterator

from quorate.api.codec import Json
from quorate.api.quantity import parse_quantity
from quorate.local.server.registry.validation.formats import label

DEPRECATED_LABELS = {
    old: f"{when}use {new} instead" if new else when
    for old, when, new in (
        ("beta.kubernetes.io/arch", "deprecated since v1.14; ", '"kubernetes.io/arch"'),
        ("beta.kubernetes.io/os", "deprecated since v1.14; ", '"kubernetes.io/os"'),
        (
            "failure-domain.beta.kubernetes.io/region",
            "deprecated since v1.17; ",
            '"topology.kubernetes.io/region"',
        ),
        (
            "failure-domain.beta.kubernetes.io/zone",
            "deprecated since v1.17; ",
            '"topology.kubernetes.io/zone"',
        ),
        (
            "beta.kubernetes.io/instance-type",
            "deprecated since v1.17; ",
            '"node.kubernetes.io/instance-type"',
        ),
        ("app.kubernetes.io/created-by", "deprecated since v1.9", ""),
        (
            "scheduler.alpha.kubernetes.io/preferAvoidPods",
            "deprecated since v1.22; ",
            "Taints and Tolerations",
        ),
        ("node-role.kubernetes.io/master", "", '"node-role.kubernetes.io/control-plane"'),
    )
}
"""Labels of nodes that no longer should be used, with what to use."""
NULL_SELECTOR = "a null labelSelector results in matching no pod"
FIELD_OF_TERMS = "DuringSchedulingIgnoredDuringExecution"


def pod_warnings(pod: Json) -> list[str]:
    return [*_name_warnings(pod, "the Pod's hostname"), *_spec_warnings(pod["spec"], "spec")]


def template_warnings(*path: str, named: bool = True) -> Callable[[Json], list[str]]:
    """Return the function that warns about the pod template at a path, such as ``spec``, ``template``.

    ``named``: the names of the pods begin with that of the object, about which it warns, too.
    """

    def warnings(obj: Json) -> list[str]:
        template = obj
        for name in path:
            template = template.get(name) or {}
        names = _name_warnings(obj, "Pod names and hostnames") if named else ()
        return [*names, *_spec_warnings(template.get("spec") or {}, f"{'.'.join(path)}.spec")]

    return warnings


def _name_warnings(obj: Json, use: str) -> Iterator[str]:
    if problems := list(label(obj["metadata"]["name"])):
        surprise = f"metadata.name: this is used in {use}, which can result in surprising behavior"
        yield f"{surprise}; a DNS label is recommended: [{' '.join(problems)}]"


def stateful_set_warnings(obj: Json) -> list[str]:
    warnings = template_warnings("spec", "template", named=False)(obj)
    if obj["spec"].get("revisionHistoryLimit", 0) < 0:
        kept = "a negative value retains all historical revisions; a value >= 0 is recommended"
        warnings.append(f"spec.revisionHistoryLimit: {kept}")
    return warnings


def _spec_warnings(spec: Json, path: str) -> Iterator[str]:
    """Yield the warnings about a pod spec in kube-apiserver's order."""
    for key in spec.get("nodeSelector") or {}:
        if key in DEPRECATED_LABELS:
            yield f"{path}.nodeSelector[{key}]: {DEPRECATED_LABELS[key]}"
    yield from _node_affinity(spec, path)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        where, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey")
        if key in DEPRECATED_LABELS:
            yield f"{where}.topologyKey: {key} is {DEPRECATED_LABELS[key]}"
        if "labelSelector" not in constraint:
            yield f"{where}.labelSelector: {NULL_SELECTOR}"
    yield from _duplicates(spec.get("hostAliases", ()), f"{path}.hostAliases", "ip", "ip")
    secrets = spec.get("imagePullSecrets", ())
    yield from _duplicates(secrets, f"{path}.imagePullSecrets", "name", "name")
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _fractional_bytes(spec.get("overhead") or {}, f"{path}.overhead")
    containers = [
        (container, f"{path}.{field}[{index}]")
        for field in ("initContainers", "containers", "ephemeralContainers")
        for index, container in enumerate(spec.get(field, ()))
    ]
    for container, where in containers:
        for side in ("limits", "requests"):
            amounts = (container.get("resources") or {}).get(side) or {}
            yield from _fractional_bytes(amounts, f"{where}.resources.{side}")
        yield from _hidden_variables(container.get("env", ()), where)
    yield from _ports(
        [(port, f"{at}.ports[{n}]") for c, at in containers for n, port in enumerate(c.get("ports", ()))]
    )
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        yield (
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be"
            " treated as 1"
        )
    yield from _pod_affinity(spec, path)


def _node_affinity(spec: Json, path: str) -> Iterator[str]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required, preferred = f"required{FIELD_OF_TERMS}", f"preferred{FIELD_OF_TERMS}"
    where = f"{path}.affinity.nodeAffinity"
    terms = [
        (term, f"{where}.{required}.nodeSelectorTerms[{index}]")
        for index, term in enumerate((affinity.get(required) or {}).get("nodeSelectorTerms", ()))
    ] + [
        (term.get("preference") or {}, f"{where}.{preferred}[{index}].preference")
        for index, term in enumerate(affinity.get(preferred, ()))
    ]
    for term, at in terms:
        for index, requirement in enumerate(term.get("matchExpressions", ())):
            if (key := requirement.get("key")) in DEPRECATED_LABELS:
                yield f"{at}.matchExpressions[{index}].key: {key} is {DEPRECATED_LABELS[key]}"


def _pod_affinity(spec: Json, path: str) -> Iterator[str]:
    for field in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(field) or {}
        where = f"{path}.affinity.{field}"
        for index, term in enumerate(affinity.get(f"required{FIELD_OF_TERMS}", ())):
            if "labelSelector" not in term:
                yield f"{where}.required{FIELD_OF_TERMS}[{index}].labelSelector: {NULL_SELECTOR}"
        for index, term in enumerate(affinity.get(f"preferred{FIELD_OF_TERMS}", ())):
            if "labelSelector" not in term.get("podAffinityTerm", {}):
                at = f"{where}.preferred{FIELD_OF_TERMS}[{index}].podAffinityTerm"
                yield f"{at}.labelSelector: {NULL_SELECTOR}"


def _duplicates(items: Iterable[Json], path: str, field: str, what: str) -> Iterator[str]:
    seen = set[str]()
    for index, item in enumerate(items):
        value = item.get(field, "")
        if value in seen:
            yield f'{path}[{index}].{field}: duplicate {what} "{value}"'
        seen.add(value)


def _fractional_bytes(amounts: Json, path: str) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        if name in amounts and parse_quantity(amounts[name]).milli % 1000:
            yield f'{path}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


def _hidden_variables(variables: Iterable[Json], path: str) -> Iterator[str]:
    """Yield a warning for each variable that replaces another of its name without a reference to it."""
    seen = set[str]()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        reference, value = f"$({name})", variable.get("value", "")
        if name in seen and ("valueFrom" in variable or value == reference or reference not in value):
            what = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{path}.env[{index}]: {what}"
        seen.add(name)


def _ports(ports: list[tuple[Json, str]]) -> Iterator[str]:
    others: dict[tuple[int, str], list[tuple[Json, str]]] = {}
    for port, where in ports:
        host_ip, host_port = port.get("hostIP", ""), port.get("hostPort", 0)
        number, protocol = port.get("containerPort", 0), port.get("protocol", "TCP")
        if host_ip and not host_port:
            fields = f"Name:{port.get('name', '')} HostPort:0 ContainerPort:{number} Protocol:{protocol}"
            yield f"{where}: hostIP set without hostPort: {{{fields} HostIP:{host_ip}}}"
        for other, at in others.setdefault((number, protocol), []):
            other_ip, other_port = other.get("hostIP", ""), other.get("hostPort", 0)
            if (host_ip, host_port) == (other_ip, other_port):
                yield f"{where}: duplicate port definition with {at}"
            elif not host_port or not other_port:
                yield f"{where}: overlapping port definition with {at}"
            elif host_port == other_port and bool(host_ip) != bool(other_ip):
                yield f"{where}: dangerously ambiguous port definition with {at}"
        others[number, protocol].append((port, where))
    names: dict[str, str] = {}
    for port, where in ports:
        name = port.get("name", "")
        first = names.setdefault(name, where)
        if name and first != where:
            uses = f"services and probes that select ports by name will use {first}"
            yield f'{where}: duplicate port name "{name}" with {first}, {uses}'

"""Validation of fields that several kinds share, such as labels and selectors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from quorate.api.core import PodTemplate, ResourceRequirements, Taint, Toleration
from quorate.api.findings import Finding, child_path
from quorate.api.meta import LabelSelector
from quorate.api.names.kueue import ADMISSION_GATED_BY
from quorate.api.syntax import is_dns_subdomain, is_label_value, is_qualified_name

Findings = Iterator[Finding]


def label_findings(path: str, labels: Mapping[str, str]) -> Findings:
    for key, value in labels.items():
        if not is_qualified_name(key):
            rule = "is not the key of a label (write name or example.com/name)"
            yield Finding(child_path(path, key), key, rule)
        if not is_label_value(value):
            yield Finding(child_path(path, key), value, _LABEL_VALUE_RULE)


_LABEL_VALUE_RULE: Final = "is not the value of a label (at most 63 letters, digits, '-', '_' or '.')"


def annotation_findings(path: str, annotations: Iterable[str]) -> Findings:
    for key in annotations:
        if not is_qualified_name(key):
            rule = "is not the key of an annotation (write name or example.com/name)"
            yield Finding(child_path(path, key), key, rule)


def taint_findings(path: str, taints: Sequence[Taint]) -> Findings:
    seen: dict[tuple[str, str], int] = {}
    for at, taint in enumerate(taints):
        if not is_qualified_name(taint.key):
            yield Finding(
                f"{path}[{at}].key", taint.key, "is not the key of a taint (write example.com/name)"
            )
        if not is_label_value(taint.value):
            yield Finding(f"{path}[{at}].value", taint.value, _LABEL_VALUE_RULE)
        first = seen.setdefault((taint.key, taint.effect), at)
        if first != at:
            rule = f"with effect {taint.effect} is given already in {path}[{first}] (keep one of them)"
            yield Finding(f"{path}[{at}].key", taint.key, rule)


def toleration_findings(path: str, tolerations: Sequence[Toleration]) -> Findings:
    for at, toleration in enumerate(tolerations):
        if toleration.key and not is_qualified_name(toleration.key):
            rule = "is not the key of a taint (write example.com/name)"
            yield Finding(f"{path}[{at}].key", toleration.key, rule)


def selector_findings(path: str, selector: LabelSelector | None) -> Findings:
    if selector is None:
        return
    yield from label_findings(f"{path}.matchLabels", selector.match_labels)
    for at, requirement in enumerate(selector.match_expressions):
        where = f"{path}.matchExpressions[{at}]"
        if not is_qualified_name(requirement.key):
            yield Finding(f"{where}.key", requirement.key, "is not the key of a label")
        match requirement.operator:
            case "In" | "NotIn" if not requirement.values:
                rule = f"must list a value for operator {requirement.operator}"
                yield Finding(f"{where}.values", list(requirement.values), rule)
            case "Exists" | "DoesNotExist" if requirement.values:
                rule = f"must be empty for operator {requirement.operator}"
                yield Finding(f"{where}.values", list(requirement.values), rule)
            case "In" | "NotIn" | "Exists" | "DoesNotExist":
                pass
            case unknown:
                rule = "is not an operator (write In, NotIn, Exists or DoesNotExist)"
                yield Finding(f"{where}.operator", unknown, rule)


MAX_KNOWN: Final = 50  # names of a list that may have thousands


def known_names_text(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - MAX_KNOWN} more" if len(ordered) > MAX_KNOWN else ""
    return f"known: {', '.join(ordered[:MAX_KNOWN]) or 'none'}{more}"


def join_names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


_PATH: Final = child_path("metadata.annotations", ADMISSION_GATED_BY)
_MAX_GATE_LENGTH: Final = 63


def gate_findings(annotations: Mapping[str, str]) -> Findings:
    """Validate the admission gates of a new object; an empty text contains none."""
    text = annotations.get(ADMISSION_GATED_BY, "")
    gates = text.split(",") if text else []
    for at, gate in enumerate(gates):
        if gate in gates[:at]:
            yield Finding(_PATH, gate, "is named twice (name it once)")
        elif not _is_gate(gate):
            rule = f"is not a gate (write example.com/name, at most {_MAX_GATE_LENGTH} characters)"
            yield Finding(_PATH, gate, rule)


def _is_gate(text: str) -> bool:
    """Return True for a domain-prefixed path, such as a controller name."""
    domain, slash, name = text.partition("/")
    return (
        bool(slash) and len(text) <= _MAX_GATE_LENGTH and is_dns_subdomain(domain) and is_qualified_name(name)
    )


def gate_update_findings(old: Mapping[str, str], new: Mapping[str, str]) -> Findings:
    """Validate an update of the admission gates, which may only be removed.

    A job without gates can therefore rely on getting none later.
    """
    before = set(filter(None, old.get(ADMISSION_GATED_BY, "").split(",")))
    for gate in filter(None, new.get(ADMISSION_GATED_BY, "").split(",")):
        if gate not in before:
            yield Finding(_PATH, gate, "cannot be added later (gates are given when the object is created)")


def template_resources(path: str, template: PodTemplate) -> Iterator[tuple[str, ResourceRequirements]]:
    """Return the resources of each container and of the pod, with their paths below ``path``."""
    for field, containers in (
        ("initContainers", template.spec.init_containers),
        ("containers", template.spec.containers),
    ):
        for at, container in enumerate(containers):
            yield f"{path}.spec.{field}[{at}].resources", container.resources
    yield f"{path}.spec.resources", template.spec.resources

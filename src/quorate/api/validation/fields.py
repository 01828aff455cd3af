"""Findings of the parts that several kinds share: labels, annotations, taints, selectors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from quorate.api.core import Taint, Toleration
from quorate.api.documents import child
from quorate.api.findings import Finding
from quorate.api.meta import LabelSelector
from quorate.api.names import is_label_value, is_qualified_name

Findings = Iterator[Finding]


def of_labels(path: str, labels: Mapping[str, str]) -> Findings:
    for key, value in labels.items():
        if not is_qualified_name(key):
            rule = "is not the key of a label (write name or example.com/name)"
            yield Finding(child(path, key), key, rule)
        if not is_label_value(value):
            yield Finding(child(path, key), value, _LABEL_VALUE_RULE)


_LABEL_VALUE_RULE: Final = "is not the value of a label (at most 63 letters, digits, '-', '_' or '.')"


def of_annotations(path: str, annotations: Iterable[str]) -> Findings:
    for key in annotations:
        if not is_qualified_name(key):
            rule = "is not the key of an annotation (write name or example.com/name)"
            yield Finding(child(path, key), key, rule)


def of_taints(path: str, taints: Sequence[Taint]) -> Findings:
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


def of_tolerations(path: str, tolerations: Sequence[Toleration]) -> Findings:
    for at, toleration in enumerate(tolerations):
        if toleration.key and not is_qualified_name(toleration.key):
            rule = "is not the key of a taint (write example.com/name)"
            yield Finding(f"{path}[{at}].key", toleration.key, rule)


def of_selector(path: str, selector: LabelSelector | None) -> Findings:
    if selector is None:
        return
    yield from of_labels(f"{path}.matchLabels", selector.match_labels)
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
                rule = "is no operator (write In, NotIn, Exists or DoesNotExist)"
                yield Finding(f"{where}.operator", unknown, rule)


def listed_names(names: Iterable[str]) -> str:
    return f"there is {', '.join(sorted(names)) or 'none'}"


def in_order(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"

"""The annotation by which others hold a job or a workload back: who may write what into it, and when."""

from collections.abc import Mapping
from typing import Final

from quorate.api.documents import child
from quorate.api.findings import Finding
from quorate.api.names import is_dns_subdomain, is_qualified_name
from quorate.api.validation.fields import Findings

ADMISSION_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
_PATH: Final = child("metadata.annotations", ADMISSION_GATED_BY)
_LONGEST_GATE: Final = 63


def gate_findings(annotations: Mapping[str, str]) -> Findings:
    """What is wrong with the gates a new object names; an empty text names none."""
    text = annotations.get(ADMISSION_GATED_BY, "")
    gates = text.split(",") if text else []
    for at, gate in enumerate(gates):
        if gate in gates[:at]:
            yield Finding(_PATH, gate, "is named twice (name it once)")
        elif not _is_gate(gate):
            rule = f"is no gate (write example.com/name, at most {_LONGEST_GATE} characters)"
            yield Finding(_PATH, gate, rule)


def _is_gate(text: str) -> bool:
    """A path below a domain, as controllers sign what is theirs."""
    domain, slash, name = text.partition("/")
    return bool(slash) and len(text) <= _LONGEST_GATE and is_dns_subdomain(domain) and is_qualified_name(name)


def gate_update_findings(old: Mapping[str, str], new: Mapping[str, str]) -> Findings:
    """Gates can only be taken away: whoever waits for none left must be able to rely on it."""
    before = set(filter(None, old.get(ADMISSION_GATED_BY, "").split(",")))
    for gate in filter(None, new.get(ADMISSION_GATED_BY, "").split(",")):
        if gate not in before:
            yield Finding(_PATH, gate, "cannot be added later (gates are given when the object is created)")

"""A finding about a cluster: severity, subject, text and remedy; findings about permissions."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from quorate.api import codec
from quorate.api.meta import Struct
from quorate.install.controller_rules import OWN, PolicyRule
from quorate.kube.client import Client


class Severity(StrEnum):
    """The worst first."""

    ERROR = "error"  # something does not work
    WARNING = "warning"  # something works differently than expected
    INFO = "info"  # worth knowing


class PreflightFinding(Struct):
    severity: Severity
    about: str  # the object or the part of the cluster
    says: str
    remedy: str = ""


def error(about: str, says: str, remedy: str = "") -> PreflightFinding:
    return PreflightFinding(severity=Severity.ERROR, about=about, says=says, remedy=remedy)


def warning(about: str, says: str, remedy: str = "") -> PreflightFinding:
    return PreflightFinding(severity=Severity.WARNING, about=about, says=says, remedy=remedy)


def info(about: str, says: str, remedy: str = "") -> PreflightFinding:
    return PreflightFinding(severity=Severity.INFO, about=about, says=says, remedy=remedy)


def by_severity(findings: Iterable[PreflightFinding]) -> tuple[PreflightFinding, ...]:
    """Sort by severity, otherwise keep the order."""
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def some(names: Sequence[str], most: int = 3) -> str:
    """Return the first names as text, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


_GROUP = "/apis/authorization.k8s.io/v1"


class _ReviewStatus(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _ReviewStatus = _ReviewStatus()


async def denied_requests(
    client: Client, rules: Iterable[PolicyRule], namespace: str, account: str
) -> Mapping[str, tuple[str, ...]]:
    """Return the denied requests as ``verb resource``, by what they are needed for.

    ``account`` is a service account NAMESPACE/NAME, or empty for the current user; ``namespace`` is that of
    the controllers.  Raises ``Forbidden`` without permission to create access reviews.
    """
    requests = [(rule, verb, resource) for rule in rules for verb, resource in rule]
    allowed = await asyncio.gather(
        *(_is_allowed(client, rule, verb, resource, namespace, account) for rule, verb, resource in requests)
    )
    missing: dict[str, list[str]] = {}
    for (rule, verb, resource), is_allowed in zip(requests, allowed, strict=True):
        if not is_allowed:
            full = f"{verb} {resource}.{rule.group}" if rule.group else f"{verb} {resource}"
            missing.setdefault(rule.needed_for, []).append(full)
    return {needed_for: tuple(denied) for needed_for, denied in missing.items()}


async def _is_allowed(
    client: Client, rule: PolicyRule, verb: str, resource: str, namespace: str, account: str
) -> bool:
    name, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": rule.group, "resource": name, "subresource": subresource}
    if rule.names:
        attributes["name"] = rule.names[0]
    if rule.namespace:
        attributes["namespace"] = namespace if rule.namespace == OWN else rule.namespace
    spec: dict[str, object] = {"resourceAttributes": attributes}
    kind = "SelfSubjectAccessReview"
    if account:
        home, _, _ = account.partition("/")
        kind = "SubjectAccessReview"
        spec |= {
            "user": f"system:serviceaccount:{account.replace('/', ':')}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"],
        }
    body = codec.encode({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
    review = await client.request_as(_Review, "POST", f"{_GROUP}/{kind.lower()}s", body=body)
    return review.status.allowed

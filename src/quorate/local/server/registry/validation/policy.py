"""Disruption budgets and network policies: stored for those who install them, not enforced here."""

from quorate.local.server.errors import Cause, invalid_value, not_supported
from quorate.local.server.registry.validation import selectors
from quorate.local.server.registry.validation.field_rules import Causes, Json, one_of
from quorate.local.server.registry.validation.pods.containers import PROTOCOLS

EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
DIRECTIONS = ("Ingress", "Egress")


def disruption_budget(given: Json) -> list[Cause]:
    return list(_budget(given["spec"]))


def _budget(spec: Json) -> Causes:
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec and not _is_share(spec[field]):
            why = "must be a number that is not negative, or a percentage of at most 100%"
            yield invalid_value(f"spec.{field}", spec[field], why)
    yield from selectors.label_selector(spec.get("selector", {}), "spec.selector")
    yield from one_of(spec, "spec", "unhealthyPodEvictionPolicy", EVICTION_POLICIES)


def _is_share(value: int | str) -> bool:
    if isinstance(value, int):
        return value >= 0
    percent = value.removesuffix("%")
    return percent != value and percent.isdecimal() and int(percent) <= 100


def network_policy(given: Json) -> list[Cause]:
    return list(_policy(given.get("spec", {})))


def _policy(spec: Json) -> Causes:
    yield from selectors.label_selector(spec.get("podSelector", {}), "spec.podSelector")
    for index, direction in enumerate(spec.get("policyTypes", ())):
        if direction not in DIRECTIONS:
            yield not_supported(f"spec.policyTypes[{index}]", direction, DIRECTIONS)
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(field, ())):
            path = f"spec.{field}[{index}]"
            for position, port in enumerate(rule.get("ports", ())):
                yield from one_of(port, f"{path}.ports[{position}]", "protocol", PROTOCOLS)
            for position, peer in enumerate(rule.get(peers, ())):
                yield from _peer(peer, f"{path}.{peers}[{position}]")


def _peer(peer: Json, path: str) -> Causes:
    for field in ("podSelector", "namespaceSelector"):
        yield from selectors.label_selector(peer.get(field, {}), f"{path}.{field}")

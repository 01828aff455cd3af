"""Which node can take one pod, and which of those is best: the rules of the plain scheduler.

Filters, in order: unschedulable or not ready nodes, taints (NoSchedule, NoExecute), node selector and
required node affinity, room.  Of the nodes that fit the one with the largest share of cpu and memory left
free is chosen; then the one with fewer pods; then by name.  Preferences (preferred affinity, spreading),
host ports, volumes and preemption are knowingly missing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.api.core import Node, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration
from quorate.api.core.pod_resources import pod_requests
from quorate.api.meta import find_condition, matches_requirement

Amounts = Mapping[str, int]  # by resource, in nano-units

SCORED: Final = ("cpu", "memory")
NANO: Final = 10**9


@dataclass(slots=True)
class NodeRoom:
    """A node, and how much of it is taken."""

    node: Node
    used: Counter[str] = field(default_factory=Counter)  # the sum over the pods bound to it
    pods: int = 0

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def allocatable(self, resource: str) -> int:
        amount = self.node.status.allocatable.get(resource)
        return amount.nanos if amount is not None else 0

    def take(self, amounts: Amounts) -> None:
        self.used.update(amounts)
        self.pods += 1

    def give_back(self, amounts: Amounts) -> None:
        self.used.subtract(amounts)
        self.pods -= 1
        assert all(amount >= 0 for amount in self.used.values()), f"more given back than taken: {self}"


@dataclass(frozen=True, slots=True)
class Placement:
    node: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no node takes the pod: how many were asked, and each reason with the number that gave it."""

    asked: int
    reasons: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        if not self.asked:
            return "no nodes available to schedule pods"
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.reasons)
        return f"0/{self.asked} nodes are available: {reasons}"


def amounts_of(spec: PodSpec) -> Amounts:
    return {name: amount.nanos for name, amount in pod_requests(spec).items()} | {"pods": NANO}


def choose_node(pod: Pod, nodes: Iterable[NodeRoom]) -> Placement | Refusal:
    amounts = amounts_of(pod.spec)
    best: tuple[tuple[int, int, str], str] | None = None
    reasons: Counter[str] = Counter()
    asked = 0
    for room in nodes:
        asked += 1
        against = _objections(pod.spec, amounts, room)
        reasons.update(against)
        if against:
            continue
        rank = (-_free_share(amounts, room), room.pods, room.name)
        if best is None or rank < best[0]:
            best = (rank, room.name)
    if best is not None:
        return Placement(best[1])
    return Refusal(asked, tuple(sorted(reasons.items())))


def _objections(spec: PodSpec, amounts: Amounts, room: NodeRoom) -> list[str]:
    """What speaks against the node; more than one thing only about room."""
    node = room.node
    if node.spec.unschedulable:
        return ["node(s) were unschedulable"]
    ready = find_condition(node.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        return ["node(s) were not ready"]
    for taint in node.spec.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerates(spec.tolerations, taint):
            return [f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"]
    if not matches_node(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return [
        "Too many pods" if resource == "pods" else f"Insufficient {resource}"
        for resource, amount in sorted(amounts.items())
        if amount > 0 and room.used[resource] + amount > room.allocatable(resource)
    ]


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(
        toleration.effect in ("", taint.effect)
        and (toleration.key == taint.key or (toleration.key == "" and toleration.operator == "Exists"))
        and (toleration.operator == "Exists" or toleration.value == taint.value)
        for toleration in tolerations
    )


def matches_node(spec: PodSpec, node: Node) -> bool:
    """The node selector and, of the required affinity, at least one term; an empty term matches nothing."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return any(_matches_term(term, node) for term in affinity.required.node_selector_terms)


def _matches_term(term: NodeSelectorTerm, node: Node) -> bool:
    fields = {"metadata.name": node.metadata.name}
    return bool(term.match_expressions or term.match_fields) and (
        all(matches_requirement(wanted, node.metadata.labels) for wanted in term.match_expressions)
        and all(matches_requirement(wanted, fields) for wanted in term.match_fields)
    )


def _free_share(amounts: Amounts, room: NodeRoom) -> int:
    """What would be left free of cpu and memory, together in thousandths of the node."""
    share = 0
    for resource in SCORED:
        whole = room.allocatable(resource)
        if whole > 0:
            share += (whole - room.used[resource] - amounts.get(resource, 0)) * 1000 // whole
    return share

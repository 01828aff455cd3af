"""Filtering and scoring of nodes for one pod, as the plain scheduler does it.

Filters, in order: unschedulable or not ready nodes, taints (NoSchedule, NoExecute), node selector and
required node affinity, resources. Of the feasible nodes, the one with the largest free share of cpu and
memory wins; then the one with fewer pods; then the first by name. Not supported: preferences (preferred
affinity, spreading), host ports, volumes and preemption.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.api.core import UNSCHEDULABLE_TAINT, Node, NodeSelectorTerm, Pod, PodSpec, tolerates
from quorate.api.core.pod_resources import pod_requests
from quorate.api.meta import find_condition, matches_requirement

ResourceAmounts = Mapping[str, int]  # by resource, in nano-units

SCORED_RESOURCES: Final = ("cpu", "memory")
NANO: Final = 10**9


@dataclass(slots=True)
class NodeInfo:
    """A node and the resources used on it."""

    node: Node
    used: Counter[str] = field(default_factory=Counter)  # sum over its pods
    pods: int = 0

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def allocatable(self, resource: str) -> int:
        amount = self.node.status.allocatable.get(resource)
        return amount.nanos if amount is not None else 0

    def add_pod(self, amounts: ResourceAmounts) -> None:
        self.used.update(amounts)
        self.pods += 1

    def remove_pod(self, amounts: ResourceAmounts) -> None:
        self.used.subtract(amounts)
        self.pods -= 1
        assert all(amount >= 0 for amount in self.used.values()), f"more given back than taken: {self}"


@dataclass(frozen=True, slots=True)
class SelectedNode:
    node: str


@dataclass(frozen=True, slots=True)
class FitError:
    """Why no node is feasible: the number of nodes, and each reason with its number of nodes."""

    node_count: int
    reasons: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        if not self.node_count:
            return "no nodes available to schedule pods"
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.reasons)
        return f"0/{self.node_count} nodes are available: {reasons}"


def pod_amounts(spec: PodSpec) -> ResourceAmounts:
    return {name: amount.nanos for name, amount in pod_requests(spec).items()} | {"pods": NANO}


def select_node(pod: Pod, nodes: Iterable[NodeInfo]) -> SelectedNode | FitError:
    amounts = pod_amounts(pod.spec)
    best: tuple[tuple[int, int, str], str] | None = None
    reasons: Counter[str] = Counter()
    node_count = 0
    for node_info in nodes:
        node_count += 1
        failures = _filter_failures(pod.spec, amounts, node_info)
        reasons.update(failures)
        if failures:
            continue
        rank = (-_least_allocated_score(amounts, node_info), node_info.pods, node_info.name)
        if best is None or rank < best[0]:
            best = (rank, node_info.name)
    if best is not None:
        return SelectedNode(best[1])
    return FitError(node_count, tuple(sorted(reasons.items())))


def _filter_failures(spec: PodSpec, amounts: ResourceAmounts, node_info: NodeInfo) -> list[str]:
    """Return the failed filters of a node; only resources can give several reasons."""
    node = node_info.node
    if node.spec.unschedulable and not tolerates(spec.tolerations, UNSCHEDULABLE_TAINT):
        return ["node(s) were unschedulable"]
    ready = find_condition(node.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        return ["node(s) were not ready"]
    for taint in node.spec.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerates(spec.tolerations, taint):
            return [f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"]
    if not matches_node_affinity(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return [
        "Too many pods" if resource == "pods" else f"Insufficient {resource}"
        for resource, amount in sorted(amounts.items())
        if amount > 0 and node_info.used[resource] + amount > node_info.allocatable(resource)
    ]


def matches_node_affinity(spec: PodSpec, node: Node) -> bool:
    """Return True if the node selector and at least one required affinity term match.

    An empty term matches nothing.
    """
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


def _least_allocated_score(amounts: ResourceAmounts, node_info: NodeInfo) -> int:
    """Return the free shares of cpu and memory after placement, in thousandths, added up."""
    share = 0
    for resource in SCORED_RESOURCES:
        whole = node_info.allocatable(resource)
        if whole > 0:
            share += (whole - node_info.used[resource] - amounts.get(resource, 0)) * 1000 // whole
    return share

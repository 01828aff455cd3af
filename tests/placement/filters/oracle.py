"""The rules of filters and scores, written for one node and one pod at a time.

Each result recounts all nodes and pods.  The rules are from kube-scheduler, not from the code under test.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quorate.api.core import Taint, Toleration
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node, PodAffinityTerm, TopologySpreadConstraint
from quorate.api.meta import LabelSelector, matches_requirement, matches_selector
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.framework import Capacity


@dataclass(frozen=True)
class Oracle:
    nodes: Sequence[Node]
    placed: Sequence[tuple[Pod, str, AllocationState]]
    capacity: Capacity = Capacity.IDLE

    def failure(self, pod: Pod, node: Node) -> str | None:
        if node.spec.unschedulable and not tolerated(
            pod, Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
        ):
            return "node(s) were unschedulable"
        for taint in node.spec.taints:
            if taint.effect != "PreferNoSchedule" and not tolerated(pod, taint):
                return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        if not chosen(pod, node):
            return "node(s) didn't match Pod's node affinity/selector"
        if any(self.ports_conflict(pod, other) for other in self.on(node)):
            return "node(s) didn't have free ports for the requested pod ports"
        for spread in hard(pod):
            if spread.topology_key not in node.metadata.labels:
                return "node(s) didn't match pod topology spread constraints (missing required label)"
            if self.skew(pod, node, spread) > spread.max_skew:
                return "node(s) didn't match pod topology spread constraints"
        if not self.satisfies_affinity(pod, node):
            return "node(s) didn't match pod affinity rules"
        for term in required_anti_affinity(pod):
            if any(matches_term(pod, term, other) for other in self.in_domain(node, term.topology_key)):
                return "node(s) didn't match pod anti-affinity rules"
        for located_on in self.nodes:
            for other in self.on(located_on):
                for term in required_anti_affinity(other):
                    if same_domain(located_on, node, term.topology_key) and matches_term(other, term, pod):
                        return "node(s) didn't satisfy existing pods anti-affinity rules"
        return None

    def affinity_score(self, pod: Pod, node: Node) -> int:
        total = 0
        for weight, term in preferred_terms(pod):
            total += weight * sum(
                matches_term(pod, term, other) for other in self.in_domain(node, term.topology_key)
            )
        for located_on in self.nodes:
            for other in self.on(located_on):
                for weight, term in (
                    *preferred_terms(other),
                    *((1, term) for term in required_affinity(other)),
                ):
                    if same_domain(located_on, node, term.topology_key) and matches_term(other, term, pod):
                        total += weight
        return total

    def on(self, node: Node) -> list[Pod]:
        return [
            pod
            for pod, name, state in self.placed
            if name == node.metadata.name
            and (self.capacity is Capacity.IDLE or state is not AllocationState.RELEASING)
        ]

    def in_domain(self, node: Node, key: str) -> list[Pod]:
        return [
            pod
            for located_on in self.nodes
            if same_domain(located_on, node, key)
            for pod in self.on(located_on)
        ]

    def ports_conflict(self, pod: Pod, other: Pod) -> bool:
        return any(
            (one.protocol, one.host_port) == (two.protocol, two.host_port)
            and (one.host_ip == two.host_ip or {one.host_ip, two.host_ip} & {"", "0.0.0.0"})
            for container in pod.spec.containers
            for one in container.ports
            for other_container in other.spec.containers
            for two in other_container.ports
        )

    def satisfies_affinity(self, pod: Pod, node: Node) -> bool:
        terms = required_affinity(pod)
        if any(term.topology_key not in node.metadata.labels for term in terms):
            return False
        wanted = [
            (located_on, other)
            for located_on in self.nodes
            for other in self.on(located_on)
            if all(matches_term(pod, term, other) for term in terms)
        ]
        is_first = not any(
            term.topology_key in located_on.metadata.labels for located_on, other in wanted for term in terms
        )
        if terms and is_first and all(matches_term(pod, term, pod) for term in terms):
            return True
        return all(
            any(same_domain(located_on, node, term.topology_key) for located_on, _ in wanted)
            for term in terms
        )

    def skew(self, pod: Pod, node: Node, spread: TopologySpreadConstraint) -> int:
        counts: dict[str, int] = {}
        for located_on in self.nodes:
            if any(other.topology_key not in located_on.metadata.labels for other in hard(pod)):
                continue
            if spread.node_affinity_policy == "Honor" and not chosen(pod, located_on):
                continue
            if spread.node_taints_policy == "Honor" and any(
                taint.effect != "PreferNoSchedule" and not tolerated(pod, taint)
                for taint in located_on.spec.taints
            ):
                continue
            value = located_on.metadata.labels[spread.topology_key]
            counts[value] = counts.get(value, 0) + sum(
                is_spread(pod, spread, other)
                for other, name, state in self.placed
                if name == located_on.metadata.name and state is not AllocationState.RELEASING
            )
        least = min(counts.values(), default=0) if len(counts) >= (spread.min_domains or 1) else 0
        here = counts.get(node.metadata.labels[spread.topology_key], 0)
        return here + is_spread(pod, spread, pod) - least


def tolerated(pod: Pod, taint: Taint) -> bool:
    return any(tolerates(toleration, taint) for toleration in pod.spec.tolerations)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    return (
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
    )


def chosen(pod: Pod, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    if not affinity or affinity.required is None:
        return True
    fields = {"metadata.name": node.metadata.name}
    return any(
        (term.match_expressions or term.match_fields)
        and all(matches_requirement(one, labels) for one in term.match_expressions)
        and all(matches_requirement(one, fields) for one in term.match_fields)
        for term in affinity.required.node_selector_terms
    )


def same_domain(one: Node, other: Node, key: str) -> bool:
    return key in one.metadata.labels and one.metadata.labels[key] == other.metadata.labels.get(key)


def matches_term(owner: Pod, term: PodAffinityTerm, other: Pod) -> bool:
    """Return True if the term of ``owner`` matches ``other``; namespaces have no labels here."""
    space = other.metadata.namespace
    everywhere = term.namespace_selector is not None and matches_selector(term.namespace_selector, {})
    own = not term.namespaces and term.namespace_selector is None and space == owner.metadata.namespace
    return (space in term.namespaces or everywhere or own) and _selects(
        owner, term.label_selector, term.match_label_keys, term.mismatch_label_keys, other
    )


def is_spread(owner: Pod, spread: TopologySpreadConstraint, other: Pod) -> bool:
    selects_labels = spread.label_selector != LabelSelector() or any(
        key in owner.metadata.labels for key in spread.match_label_keys
    )
    return (
        selects_labels
        and owner.metadata.namespace == other.metadata.namespace
        and _selects(owner, spread.label_selector, spread.match_label_keys, (), other)
    )


def _selects(
    owner: Pod, selector: LabelSelector | None, same: Iterable[str], unlike: Iterable[str], other: Pod
) -> bool:
    mine, theirs = owner.metadata.labels, other.metadata.labels
    return (
        matches_selector(selector, theirs)
        and all(theirs.get(key) == mine[key] for key in same if key in mine)
        and all(theirs.get(key) != mine[key] for key in unlike if key in mine)
    )


def hard(pod: Pod) -> list[TopologySpreadConstraint]:
    return [one for one in pod.spec.topology_spread_constraints if one.when_unsatisfiable == "DoNotSchedule"]


def required_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity and pod.spec.affinity.pod_affinity
    return affinity.required if affinity else ()


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    return affinity.required if affinity else ()


def preferred_terms(pod: Pod) -> list[tuple[int, PodAffinityTerm]]:
    """Return preferred terms with their weights, which are negative for anti-affinity."""
    affinity = pod.spec.affinity
    attracting = affinity.pod_affinity.preferred if affinity and affinity.pod_affinity else ()
    repelling = affinity.pod_anti_affinity.preferred if affinity and affinity.pod_anti_affinity else ()
    return [
        *((each.weight, each.pod_affinity_term) for each in attracting),
        *((-each.weight, each.pod_affinity_term) for each in repelling),
    ]

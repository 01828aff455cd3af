"""Pod selectors, affinity terms and topology spread constraints as values.

Pod affinity, anti-affinity and topology spread all count the pods that a selector matches in each topology
domain.  A ``PodSelector`` selects the pods; an ``AffinityTerm`` adds the topology key.  They are values:
ten thousand equal pods have equal terms.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quorate.api.core.scheduling import PodAffinityTerm, TopologySpreadConstraint
from quorate.api.meta import LabelSelector, SelectorRequirement, matches_requirement

Labels = Mapping[str, str]
# The namespace and labels of a pod: all that a selector reads of it.
PodLabelSet = tuple[str, frozenset[tuple[str, str]]]
Requirements = tuple[SelectorRequirement, ...]  # all must match; empty matches everything


def pod_label_set(namespace: str, labels: Labels) -> PodLabelSet:
    return namespace, frozenset(labels.items())


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selects pods by namespace and labels."""

    namespaces: frozenset[str]
    namespace_labels: Requirements | None  # selects further namespaces; None selects none
    pod_labels: Requirements | None  # None matches no pod

    @property
    def required_label(self) -> tuple[str, str] | None:
        """A label that every matching pod has, if a requirement says so."""
        for requirement in self.pod_labels or ():
            if requirement.operator == "In" and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
        return None

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Return True if it matches a pod with ``labels`` in ``namespace``.

        ``namespace_labels`` are the labels of that namespace.
        """
        return (namespace in self.namespaces or _match(self.namespace_labels, namespace_labels)) and _match(
            self.pod_labels, labels
        )


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A pod selector and the node label that defines the topology domains to count in."""

    selector: PodSelector
    topology_key: str


@dataclass(frozen=True, slots=True)
class WeightedAffinityTerm:
    """A preferred term, with the score of each matching pod in the domain.

    The weight is negative for anti-affinity.
    """

    term: AffinityTerm
    weight: int


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One topology spread constraint."""

    selector: PodSelector
    topology_key: str
    max_skew: int
    min_domains: int
    honors_node_affinity: bool  # count only nodes that the pod's node selector and affinity allow
    honors_node_taints: bool  # count only nodes with tolerated taints


def affinity_term(term: PodAffinityTerm, namespace: str, labels: Labels) -> AffinityTerm:
    """Compile the affinity term of a pod that is in ``namespace`` and has ``labels``."""
    own_namespace = not term.namespaces and term.namespace_selector is None
    pod_labels = _requirements(term.label_selector)
    pod_labels = _with_label_keys(pod_labels, "In", term.match_label_keys, labels)
    pod_labels = _with_label_keys(pod_labels, "NotIn", term.mismatch_label_keys, labels)
    selector = PodSelector(
        namespaces=frozenset({namespace} if own_namespace else term.namespaces),
        namespace_labels=_requirements(term.namespace_selector),
        pod_labels=pod_labels,
    )
    return AffinityTerm(selector, term.topology_key)


def spread_constraint(
    constraint: TopologySpreadConstraint, namespace: str, labels: Labels
) -> SpreadConstraint:
    """Compile the topology spread constraint of a pod with these labels.

    Kube-scheduler counts no pods for an empty selector.
    """
    pod_labels = _requirements(constraint.label_selector)
    pod_labels = _with_label_keys(pod_labels, "In", constraint.match_label_keys, labels) or None
    return SpreadConstraint(
        selector=PodSelector(namespaces=frozenset({namespace}), namespace_labels=None, pod_labels=pod_labels),
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_node_affinity=constraint.node_affinity_policy == "Honor",
        honors_node_taints=constraint.node_taints_policy == "Honor",
    )


def _match(requirements: Requirements | None, labels: Labels) -> bool:
    return requirements is not None and all(matches_requirement(one, labels) for one in requirements)


def _requirements(selector: LabelSelector | None) -> Requirements | None:
    """Return the requirements of the selector, sorted.

    Equivalent selectors have equal requirements.
    """
    if selector is None:
        return None
    pairs = (
        SelectorRequirement(key=key, operator="In", values=(value,))
        for key, value in selector.match_labels.items()
    )
    return _sorted({*pairs, *selector.match_expressions})


def _with_label_keys(
    requirements: Requirements | None, operator: str, keys: Iterable[str], labels: Labels
) -> Requirements | None:
    """Add a requirement for each of ``keys`` (``matchLabelKeys``) among the pod's labels.

    API servers from 1.34 on add these requirements to the selector when the pod is created, from the labels
    of that time.  A requirement with the same key and operator is therefore kept as it is.
    """
    if requirements is None:
        return None
    present = {(one.key, one.operator) for one in requirements}
    added = {
        SelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for key in keys
        if key in labels and (key, operator) not in present
    }
    return _sorted({*requirements, *added})


def _sorted(requirements: Iterable[SelectorRequirement]) -> Requirements:
    return tuple(sorted(requirements, key=lambda one: (one.key, one.operator, one.values)))

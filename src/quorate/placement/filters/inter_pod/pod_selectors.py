"""Which pods a term is about: the form in which selectors of pods are compared, kept and matched.

Pod affinity, anti-affinity and topology spread all ask how many of *those* pods are in *that* domain.  A
``PodSelector`` says which pods, a ``AffinityTerm`` adds the topology key.
They are values: the terms of ten thousand equal pods are one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quorate.api.core.scheduling import PodAffinityTerm, TopologySpreadConstraint
from quorate.api.meta import LabelSelector, SelectorRequirement, matches_requirement

Labels = Mapping[str, str]
PodLabelSet = tuple[
    str, frozenset[tuple[str, str]]
]  # namespace and labels: all that a term can tell pods apart by
Requirements = tuple[SelectorRequirement, ...]  # all must hold; without any, all is picked


def pod_label_set(namespace: str, labels: Labels) -> PodLabelSet:
    return namespace, frozenset(labels.items())


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods by namespace and labels."""

    namespaces: frozenset[str]
    spaces: Requirements | None  # further namespaces, by their labels; None: no further ones
    labels: Requirements | None  # None picks no pod at all

    @property
    def anchor(self) -> tuple[str, str] | None:
        """A label that every pod it picks has, if one can be told from its requirements."""
        for one in self.labels or ():
            if one.operator == "In" and len(one.values) == 1:
                return one.key, one.values[0]
        return None

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        return self.selects_namespace(namespace, namespace_labels) and meets(self.labels, labels)

    def selects_namespace(self, namespace: str, namespace_labels: Labels) -> bool:
        return namespace in self.namespaces or meets(self.spaces, namespace_labels)


def meets(requirements: Requirements | None, labels: Labels) -> bool:
    return requirements is not None and all(matches_requirement(one, labels) for one in requirements)


def requirements_of(selector: LabelSelector | None) -> Requirements | None:
    """The selector's requirements in an order of their own, so that equal selectors are equal values."""
    if selector is None:
        return None
    pairs = (
        SelectorRequirement(key=key, operator="In", values=(value,))
        for key, value in selector.match_labels.items()
    )
    return _ordered({*pairs, *selector.match_expressions})


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Pods, and the node label whose values are the domains in which they are looked for."""

    selector: PodSelector
    topology_key: str


@dataclass(frozen=True, slots=True)
class WeightedAffinityTerm:
    """A preference for the domains of the picked pods, or against them if the weight is negative."""

    term: AffinityTerm
    weight: int


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One topology spread constraint."""

    selector: PodSelector
    topology_key: str
    max_skew: int
    min_domains: int
    honors_node_affinity: bool  # only nodes that the pod's selector and affinity allow count as domains
    honors_node_taints: bool  # only nodes whose taints the pod tolerates do


def affinity_term(term: PodAffinityTerm, namespace: str, labels: Labels) -> AffinityTerm:
    """The affinity term of a pod that is in ``namespace`` and has ``labels``."""
    own = not term.namespaces and term.namespace_selector is None
    wanted = requirements_of(term.label_selector)
    wanted = _with_keys(wanted, "In", term.match_label_keys, labels)
    wanted = _with_keys(wanted, "NotIn", term.mismatch_label_keys, labels)
    selector = PodSelector(
        namespaces=frozenset({namespace} if own else term.namespaces),
        spaces=requirements_of(term.namespace_selector),
        labels=wanted,
    )
    return AffinityTerm(selector, term.topology_key)


def spread_constraint(spread: TopologySpreadConstraint, namespace: str, labels: Labels) -> SpreadConstraint:
    wanted = _with_keys(requirements_of(spread.label_selector), "In", spread.match_label_keys, labels)
    return SpreadConstraint(
        selector=PodSelector(namespaces=frozenset({namespace}), spaces=None, labels=wanted),
        topology_key=spread.topology_key,
        max_skew=spread.max_skew,
        min_domains=1 if spread.min_domains is None else spread.min_domains,
        honors_node_affinity=spread.node_affinity_policy == "Honor",
        honors_node_taints=spread.node_taints_policy == "Honor",
    )


def _with_keys(
    wanted: Requirements | None, operator: str, keys: Iterable[str], labels: Labels
) -> Requirements | None:
    """``wanted``, and for those of ``keys`` that the pod has, its own value or any other.

    A server from 1.34 on has written that into the selector when the pod was made, from the labels of that
    time; what it wrote stands.
    """
    if wanted is None:
        return None
    said = {(one.key, one.operator) for one in wanted}
    more = {
        SelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for key in keys
        if key in labels and (key, operator) not in said
    }
    return _ordered({*wanted, *more})


def _ordered(wanted: Iterable[SelectorRequirement]) -> Requirements:
    return tuple(sorted(wanted, key=lambda one: (one.key, one.operator, one.values)))

"""Pods near to and apart from others: required affinity and anti-affinity, and the preferences of both kinds.

Both sides are asked: what the pod demands of pods that are placed, and what these demand of it.

Source: the Kubernetes page "Assigning Pods to Nodes" and kube-scheduler's InterPodAffinity.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from quorate.placement.constraints import objections
from quorate.placement.constraints.headcounts import Domains
from quorate.placement.constraints.neighbours import Neighbours
from quorate.placement.constraints.nodes import Counts, NodeFacts
from quorate.placement.constraints.objections import Verdicts
from quorate.placement.constraints.terms import Kin, PodTerm, WeightedTerm
from quorate.placement.stance import Moment

# How much a pod that requires others near is glad of one, where they had the choice.
WEIGHT_OF_REQUIRED: Final = 1


def object_to_missing(
    nodes: NodeFacts,
    neighbours: Neighbours,
    near: tuple[PodTerm, ...],
    kin: Kin,
    moment: Moment,
    verdicts: Verdicts,
) -> None:
    """Where a domain lacks pods that all terms pick, unless the pod is the first of those."""
    if not near:
        return
    placed = ~nodes.vacant
    for term in near:
        placed &= nodes.label(term.topology_key).present()
    if not is_first(neighbours, near, kin, moment):
        for domain in _domains(neighbours, near, moment):
            placed &= domain.at_nodes() > 0
    verdicts.object_to(~placed, objections.AFFINITY)


def is_first(neighbours: Neighbours, near: tuple[PodTerm, ...], kin: Kin, moment: Moment) -> bool:
    """Whether there is no pod in any domain that all terms pick, and they pick the pod itself."""
    picks = tuple(term.pick for term in near)
    return neighbours.picks(picks, kin) and not any(
        domain.total() for domain in _domains(neighbours, near, moment)
    )


def _domains(neighbours: Neighbours, near: tuple[PodTerm, ...], moment: Moment) -> list[Domains]:
    wanted = neighbours.survey(tuple(term.pick for term in near), moment)
    return [wanted.by(key) for key in dict.fromkeys(term.topology_key for term in near)]


def object_to_unwanted(
    neighbours: Neighbours, apart: tuple[PodTerm, ...], moment: Moment, verdicts: Verdicts
) -> None:
    """Where a domain has pods that the pod must keep apart from."""
    for term in apart:
        unwanted = neighbours.survey((term.pick,), moment).by(term.topology_key)
        verdicts.object_to(unwanted.at_nodes() > 0, objections.ANTI_AFFINITY)


def object_to_unwelcome(neighbours: Neighbours, kin: Kin, moment: Moment, verdicts: Verdicts) -> None:
    """Where a domain has pods that must keep apart from the pod."""
    for held in neighbours.held_over(kin):
        forbidding = held.forbidding.at(moment)
        if forbidding.by_node:
            forbidden = forbidding.by(held.term.topology_key).at_nodes() > 0
            verdicts.object_to(forbidden, objections.ANTI_AFFINITY_OF_OTHERS)


def attraction(
    nodes: NodeFacts,
    neighbours: Neighbours,
    preferred: Iterable[WeightedTerm],
    kin: Kin,
    moment: Moment,
) -> Counts:
    """For each node the weights of what the pod prefers there, and of what pods there prefer, summed."""
    weight = np.zeros(nodes.size, np.int64)
    for wish in preferred:
        found = neighbours.survey((wish.term.pick,), moment).by(wish.term.topology_key)
        weight += wish.weight * found.at_nodes()
    for held in neighbours.held_over(kin):
        attracting = held.attracting.at(moment)
        if attracting.by_node:
            weight += attracting.by(held.term.topology_key).at_nodes()
    return weight

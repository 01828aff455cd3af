"""Whether pods can run on a flavor at all, quota aside: taints, node selector and required affinity.

Only what the flavor says is compared.  A selector key the flavor's labels do not carry is ignored: some
node of the flavor may have it.
"""

from quorate.api.core import NodeSelectorTerm, Taint, Toleration
from quorate.api.kueue import ResourceFlavor
from quorate.api.meta import matches_requirement
from quorate.queueing.causes import AffinityMismatched, FlavorMissing, PodSetCause, TaintUntolerated
from quorate.queueing.shape import PodSetShape


def refusal(pod_set: PodSetShape, name: str, flavor: ResourceFlavor | None) -> PodSetCause | None:
    """Why the pods cannot run on the flavor called ``name``; None if they can."""
    if flavor is None:
        return FlavorMissing(pod_set.name, name)
    tolerations = (*pod_set.tolerations, *flavor.spec.tolerations)
    for taint in flavor.spec.node_taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            return TaintUntolerated(pod_set.name, name, taint.key, taint.value, taint.effect)
    labels = flavor.spec.node_labels
    selects_other = any(
        key in labels and labels[key] != value for key, value in pod_set.node_selector.items()
    )
    if selects_other or not _affine(pod_set.affinity, labels):
        return AffinityMismatched(pod_set.name, name)
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return bool(toleration.key) and toleration.value == taint.value
        case _:
            return False


def _affine(terms: tuple[NodeSelectorTerm, ...] | None, labels: dict[str, str]) -> bool:
    """Whether one of ``terms`` holds, as far as it concerns the flavor; a term it does not concern holds."""
    if terms is None:
        return True
    return any(
        all(
            matches_requirement(requirement, labels)
            for requirement in term.match_expressions
            if requirement.key in labels
        )
        for term in terms
    )

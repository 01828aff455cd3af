"""The places of fewer pods than admitted: after some pods have ended for good, or the job has shrunk.

The places of a Volcano pod group are needed until its members, which name no place, are bound.

Kueue (v0.20) frees the places of a pod set when all its pods have ended, and keeps those of all pods that an
elastic job had before it shrank in place.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from quorate.api.kueue import Admission, Workload
from quorate.api.meta import Key
from quorate.placement.topology.tree import Path
from quorate.queueing.nodes.places import Domains


def needed_domains(domains: Iterable[tuple[Path, int]], count: int, bound: Mapping[Path, int]) -> Domains:
    """Return how many places ``count`` pods that may still run need of each domain, at most those recorded.

    ``bound`` are the pods with a node, by domain; they need the place that they use.  A pod without a node
    may still come to any domain with a free place, so each such domain keeps a place for it.
    """
    kept = [(values, places, min(places, bound.get(values, 0))) for values, places in domains]
    without_node = max(0, count - sum(here for _, _, here in kept))
    return tuple(
        (values, needed) for values, places, here in kept if (needed := min(places, here + without_node))
    )


def domains_without_ended(
    workload: Workload, admission: Admission, bound: Callable[[Key, str, Sequence[str]], Mapping[Path, int]]
) -> dict[str, Domains]:
    """Return the domains of the pod sets of which ``reclaimablePods`` have ended, with the places needed.

    ``bound`` returns the bound pods of a pod set by domain.  The size of an elastic job that shrinks does not
    count: its pods keep their places until they are gone, and the admission records fewer.
    """
    ended = {pods.name: pods.count for pods in workload.status.reclaimable_pods}
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    by_pod_set: dict[str, Domains] = {}
    for assigned in admission.pod_set_assignments:
        assignment, name = assigned.topology_assignment, assigned.name
        if assignment is None or not ended.get(name):
            continue
        domains = tuple(assignment.domains())
        recorded = sum(places for _, places in domains)
        count = max(0, max(recorded, sizes.get(name, 0)) - ended[name])
        if count < recorded:
            here = bound(workload.metadata.key, name, assignment.levels)
            by_pod_set[name] = needed_domains(domains, count, here)
    return by_pod_set


def domains_without_members(
    admission: Admission, bound: Callable[[Sequence[str]], Mapping[Path, int]]
) -> dict[str, Domains]:
    """Return the domains of the pod sets of a pod group, with the places that no member has taken.

    ``bound`` returns the bound members by domain.  Each counts where it is bound, and takes one place: of its
    own domain if there is one, otherwise any, as members name none.
    """
    by_pod_set: dict[str, Domains] = {}
    for assigned in admission.pod_set_assignments:
        assignment = assigned.topology_assignment
        members = {} if assignment is None else bound(assignment.levels)
        if assignment is None or not members:
            continue
        domains = tuple(assignment.domains())
        left = [(values, max(0, places - members.get(values, 0))) for values, places in domains]
        arrived = sum(members.values())
        elsewhere = arrived - sum(places for _, places in domains) + sum(places for _, places in left)
        kept: list[tuple[Path, int]] = []
        for values, places in left:
            taken = min(places, elsewhere)
            elsewhere -= taken
            if places > taken:
                kept.append((values, places - taken))
        by_pod_set[assigned.name] = tuple(kept)
    return by_pod_set


def shrunk_domains(domains: Sequence[tuple[Path, int]], count: int, pods: Iterable[Path]) -> Domains | None:
    """Return the places of ``count`` pods, in their order; None if ``domains`` has no more than ``count``.

    ``pods`` are the domains of the pods that run or were ungated.  Return None also while these pods are more
    than ``count``, because some of them will leave.  Pods that do not exist yet get the first free places.
    """
    if sum(places for _, places in domains) <= count:
        return None
    present = Counter(pods)
    held = [min(places, present[values]) for values, places in domains]
    missing = count - sum(held)
    if missing < 0:
        return None
    kept: list[tuple[Path, int]] = []
    for (values, places), here in zip(domains, held, strict=True):
        more = min(places - here, missing)
        missing -= more
        if here + more:
            kept.append((values, here + more))
    return tuple(kept)

"""How many pods of one pod set fit hosts, and which resource is short for the others."""

import msgspec

from quorate.placement.topology.counting import Capacity, Exclusions, accepted_leaves, fitting_pods
from quorate.placement.topology.request import PodSetRequest
from quorate.placement.topology.tree import vector_amount
from quorate.placement.vectors import Mask, np


class HostShortage(msgspec.Struct, frozen=True):
    """Some pods fit no host beside the pods that do.

    ``resource`` is the resource of which most accepting hosts have too little; "" if no host accepts the
    pods.  Amounts are in base units.
    """

    fitting: int  # pods
    hosts: int
    accepting: int  # hosts, by node selector, affinity and taints
    resource: str = ""
    needed: int = 0  # by one pod
    best: int = 0  # the most that an accepting host has left
    at_most: int = 0  # the most that one would have without any pods
    fitting_at_most: int = 0  # pods that the accepting hosts hold without any other pods, by amounts


def host_shortage(
    capacity: Capacity, pods: PodSetRequest, passing: Mask | None = None
) -> HostShortage | None:
    """Return what keeps pods from the leaves of ``capacity``, which are hosts; None if all pods fit.

    ``passing``: only these leaves take further pods, whatever they have left.

    Whether pods fit does not depend on where the others are: all of them are equal.
    """
    if capacity.fits(pods):
        return None
    tree = capacity.tree
    accepted = accepted_leaves(tree, pods, Exclusions(tree.leaf_count))
    remaining = {resource: capacity.remaining(resource) for resource in sorted(pods.per_pod)}
    counts, _ = fitting_pods(remaining, pods.per_pod, accepted)
    if pods.limits is not None:
        counts = np.minimum(counts, pods.limits)
    fitting, accepting = int(counts.sum()), int(np.count_nonzero(accepted))
    if not accepting:
        return HostShortage(fitting, tree.leaf_count, accepting)
    empty = {resource: tree.allocatable(resource) for resource in pods.per_pod}
    fitting_at_most = int(fitting_pods(empty, pods.per_pod, accepted)[0].sum())
    if passing is not None:
        accepted &= passing
        if not accepted.any():
            return HostShortage(fitting, tree.leaf_count, accepting, fitting_at_most=fitting_at_most)
        accepting = int(np.count_nonzero(accepted))
    left = {
        resource: (amounts - counts * vector_amount(pods.per_pod[resource]))[accepted]
        for resource, amounts in remaining.items()
    }
    short = {
        resource: int(np.count_nonzero(amounts < pods.per_pod[resource]))
        for resource, amounts in left.items()
    }
    scarcest = max(short, key=lambda resource: short[resource])  # the first by name of several
    best = int(left[scarcest].max())
    at_most = int(tree.allocatable(scarcest)[accepted].max())
    needed = pods.per_pod[scarcest]
    return HostShortage(fitting, tree.leaf_count, accepting, scarcest, needed, best, at_most, fitting_at_most)

"""The quota of cluster queues and cohorts and its use, as amounts for people and for charts."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from quorate.api.quantity import NANOS, Quantity
from quorate.dashboard.schema import Amount, QuotaUse
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.ledger import Ledger
from quorate.quota import tree
from quorate.quota.amount import Amount as Limit
from quorate.quota.amount import FlavorResource, Unlimited, as_quantity, total
from quorate.quota.tree import Node


@lru_cache(maxsize=16_384)  # nodes and queues have many equal amounts
def amount_of(resource: str, base_units: int) -> Amount:
    return from_quantity(as_quantity(resource, base_units))


def from_quantity(quantity: Quantity) -> Amount:
    return Amount(quantity=str(quantity), value=quantity.nanos / NANOS)


def quota_of_queue(queue: ClusterQueueState) -> tuple[QuotaUse, ...]:
    """Return the quota of a cluster queue in the order of its spec."""
    node, totals = queue.node, queue.totals
    pairs = [
        FlavorResource(flavor.name, quota.name)
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    ]
    return tuple(
        _quota(
            node,
            pair,
            nominal=tree.nominal(node, pair),
            reserved=totals.reserved_usage.get(pair, 0),
            admitted=totals.admitted_usage.get(pair, 0),
        )
        for pair in dict.fromkeys(pairs)
    )


def quota_of_cohort(node: Node, ledger: Ledger) -> tuple[QuotaUse, ...]:
    """Return the sums over a cohort and everything below it, by flavor and resource."""
    queues = list(ledger.queues_below(node))
    nominal = total(
        {pair: limit.nominal for pair, limit in below.limits.items()} for below in nodes_below(node)
    )
    reserved = total(queue.totals.reserved_usage for queue in queues)
    admitted = total(queue.totals.admitted_usage for queue in queues)
    return tuple(
        _quota(
            node,
            pair,
            nominal=nominal.get(pair, 0),
            reserved=reserved.get(pair, 0),
            admitted=admitted.get(pair, 0),
        )
        for pair in sorted({*nominal, *reserved})
    )


def nodes_below(node: Node) -> Iterator[Node]:
    """Yield ``node`` and all nodes below it."""
    below = [node]
    while below:
        current = below.pop()
        yield current
        below.extend(current.children)


def _quota(node: Node, pair: FlavorResource, *, nominal: int, reserved: int, admitted: int) -> QuotaUse:
    resource, limits = pair.resource, tree.limits(node, pair)
    return QuotaUse(
        flavor=pair.flavor,
        resource=resource,
        nominal=amount_of(resource, nominal),
        reserved=amount_of(resource, reserved),
        admitted=amount_of(resource, admitted),
        borrowed=amount_of(resource, borrowed(node, pair)),
        lent=amount_of(resource, lent(node, pair)),
        borrowing_limit=_limit(resource, limits.borrowing),
        lending_limit=_limit(resource, limits.lending),
    )


def _limit(resource: str, limit: Limit) -> Amount | None:
    return None if isinstance(limit, Unlimited) else amount_of(resource, limit)


def borrowed(node: Node, pair: FlavorResource) -> int:
    """Return how much more is used than the quota of ``node`` and what is below it."""
    return max(0, tree.used(node, pair) - tree.subtree_quota(node, pair))


def lent(node: Node, pair: FlavorResource) -> int:
    """Return what other children of its parent use of the quota of ``node``.

    Quota has no names: what children borrow is taken from the unused quota of all the others, and of the
    parent, in proportion.
    """
    own = _unused(node, pair)
    if node.parent is None or not own:
        return 0
    taken = sum(borrowed(borrower, pair) for borrower in tree.borrowers(node.parent, (pair,)))
    offered = tree.nominal(node.parent, pair) + sum(_unused(child, pair) for child in node.parent.children)
    return min(own, own * taken // offered)


def _unused(node: Node, pair: FlavorResource) -> int:
    """Return the quota that ``node`` could lend to others and does not use."""
    lendable = tree.subtree_quota(node, pair) - tree.guaranteed(node, pair)
    return max(0, lendable - max(0, tree.used(node, pair) - tree.guaranteed(node, pair)))


def lenders(queue: ClusterQueueState, others: Iterable[ClusterQueueState]) -> tuple[str, ...]:
    """Return which of ``others``, of the same tree, lend quota of what ``queue`` borrows."""
    pairs = [pair for pair in queue.node.usage if borrowed(queue.node, pair)]
    return tuple(other.name for other in others if any(lent(other.node, pair) for pair in pairs))


def borrowers(queue: ClusterQueueState, others: Iterable[ClusterQueueState]) -> tuple[str, ...]:
    """Return which of ``others``, of the same tree, borrow something that ``queue`` lends."""
    pairs = [pair for pair in queue.node.subtree_quota if lent(queue.node, pair)]
    return tuple(other.name for other in others if any(borrowed(other.node, pair) for pair in pairs))

"""The pools of windows, and how much of the amounts that they keep is in use.

A window keeps amounts in the quota trees of its owners, its pool; one for maintenance, in all trees.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from quorate.queueing.cluster_queue import ClusterQueueState, ReservationTotals
from quorate.queueing.ledger import Ledger
from quorate.queueing.windows import Window
from quorate.quota.amount import FlavorResource
from quorate.quota.tree import Node

Pool = frozenset[Node]  # roots of trees


class WindowUsage(NamedTuple):
    """How much of one flavor and resource a window reserves, and how much of it is used, in base units."""

    reserved: int
    used: int  # by owners, at most the amount
    backfilled: int  # by others, as far as all other quota of the pool is in use


class WindowUsages:
    """How much of the amounts of windows is in use at one moment; the cost is independent of workloads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._free: dict[tuple[Pool, FlavorResource], int] = {}

    def of(self, window: Window) -> dict[FlavorResource, WindowUsage]:
        """Return for each amount of a window how much of it is in use."""
        if not window.amounts:
            return {}
        pool, owners = pool_of(self._ledger, window), list(self._totals_of_owners(window))
        usage: dict[FlavorResource, WindowUsage] = {}
        for pair, reserved in window.amounts.items():
            used = min(reserved, sum(totals.reserved_usage.get(pair, 0) for totals in owners))
            usage[pair] = WindowUsage(reserved, used, max(0, reserved - used - self._free_of(pool, pair)))
        return usage

    def _totals_of_owners(self, window: Window) -> Iterator[ReservationTotals]:
        owning = window.spec.owners.cluster_queues
        for name, queue in self._ledger.cluster_queues.items():
            if name in owning:
                yield queue.totals
        for key, local_queue in self._ledger.local_queues.items():
            if local_queue.cluster_queue not in owning and window.owns(key, local_queue.cluster_queue):
                yield local_queue.totals

    def _free_of(self, pool: Pool, pair: FlavorResource) -> int:
        free = self._free.get((pool, pair))
        if free is None:
            held = sum(queue.totals.reserved_usage.get(pair, 0) for queue in queues_of(self._ledger, pool))
            held += outside_of_quota(self._ledger, pool, pair)
            free = self._free[pool, pair] = max(0, nominal_quota(pool, pair) - held)
        return free


def pool_of(ledger: Ledger, window: Window) -> Pool:
    """Return the roots of the trees of which a window keeps amounts."""
    return frozenset(queue.node.root for queue in _owning(ledger, window))


def _owning(ledger: Ledger, window: Window) -> Iterator[ClusterQueueState]:
    """Yield the cluster queues of the owners; all of them for maintenance."""
    owners = window.spec.owners
    if window.spec.purpose == "Maintenance":
        yield from ledger.cluster_queues.values()
        return
    keys = chain(
        (key for key in owners.local_queues if key in ledger.local_queues),
        (key for key in ledger.local_queues if key.namespace in owners.namespaces)
        if owners.namespaces
        else (),
    )
    names = (ledger.local_queues[key].cluster_queue for key in keys)
    for name in chain(owners.cluster_queues, names):
        if (queue := ledger.cluster_queues.get(name)) is not None:
            yield queue


def queues_of(ledger: Ledger, pool: Pool) -> Iterator[ClusterQueueState]:
    """Yield the cluster queues of a pool."""
    for root in pool:
        yield from ledger.queues_below(root)


def nominal_quota(pool: Pool, pair: FlavorResource) -> int:
    """Return the nominal quota of all queues and cohorts of a pool."""
    return sum(limits.nominal for node in _nodes_below(pool) if (limits := node.limits.get(pair)) is not None)


def _nodes_below(pool: Pool) -> Iterator[Node]:
    below = list(pool)  # a stack: trees of cohorts may be deeper than recursion
    while below:
        node = below.pop()
        yield node
        below.extend(node.children)


def outside_of_quota(ledger: Ledger, pool: Pool, pair: FlavorResource) -> int:
    """Return what pods use outside of quota: nothing tells when it ends."""
    return sum(usage.get(pair, 0) for queue in queues_of(ledger, pool) for usage in queue.outside.values())

"""How many equal pods hosts take where nothing but topology spread makes one pod affect the next.

A domain that a constraint allows to take a pod is also allowed to after pods in other domains, as the minimum
only rises.  So the pods of one constraint are placed in *rounds*, one in each domain that is open, and rounds
are counted together as long as the same domains are open.  Of several constraints, the one with the fewest
domains determines the rounds; the others limit the hosts by the pods that their domains accept before their
minimum rises, and this is repeated while it adds pods.
"""

from collections.abc import Sequence
from dataclasses import replace

from quorate.placement.filters.topology_spread import UNLIMITED, SpreadSkew
from quorate.placement.vectors import Mask, Vector, np


def spread_pods(
    skews: Sequence[SpreadSkew], hosts: Vector, room: Vector, most: int, count: int
) -> tuple[Vector, list[SpreadSkew]]:
    """Return how many of ``count`` pods each leaf takes, and the skews with them.

    ``hosts`` has the index in the cluster of each leaf; without the constraints it takes as many pods as
    ``room`` says, but not more than ``most``.  In each domain, leaves with the least room are filled first.
    ``UNLIMITED`` is their number if no constraint counts the pods.
    """
    by_room = np.argsort(room, kind="stable")
    spreads = [_Spread(skew, hosts, by_room) for skew in skews]
    counting = [spread for spread in spreads if spread.skew.matches_itself]
    if not counting:
        return np.where(_open_leaves(spreads, room), UNLIMITED if most > 1 else 1, 0), list(skews)
    first = min(counting, key=lambda spread: len(spread.skew.counts))
    others = [spread for spread in spreads if spread is not first]
    pods = np.zeros(len(hosts), np.int64)
    while count:
        free = np.minimum(np.minimum(room, most) - pods, count)
        added = _in_rounds(first, others, free, _open_leaves(others, free), count)
        if not added.any():
            # What others allow may be in domains that are closed in all rounds.
            added = _in_rounds(first, others, free, _open_leaves(spreads, free), count)
        if not added.any():
            break
        pods += added
        count -= int(added.sum())
        for spread in counting:
            spread.add(added)
    return pods, [spread.skew for spread in spreads]


def _in_rounds(
    first: "_Spread", others: Sequence["_Spread"], free: Vector, among: Mask, count: int
) -> Vector:
    """Return how many of ``count`` pods each leaf takes before the minimum of ``others`` rises."""
    limits = np.where(among, free, 0)
    for other in others:
        limits = other.limited(limits, other.skew.allowed())
    return first.limited(limits, first.rounds(limits, count))


def _open_leaves(spreads: Sequence["_Spread"], free: Vector) -> Mask:
    """Return the leaves with room that all constraints allow to take a pod."""
    result: Mask = free > 0
    for spread in spreads:
        result &= _at(spread.skew.allowed(), spread.domain_of) > 0
    return result


class _Spread:
    """One constraint, and the domains of leaves."""

    def __init__(self, skew: SpreadSkew, hosts: Vector, by_room: Vector) -> None:
        self.skew = skew
        self.domain_of = skew.column.codes[hosts].astype(np.int64)  # negative: in no domain
        # The leaves by domain, those with the least room first; and the position of the first of its domain.
        self._ordered = by_room[np.argsort(self.domain_of[by_room], kind="stable")]
        domains = self.domain_of[self._ordered]
        self._begin = np.searchsorted(domains, domains)

    def add(self, pods: Vector) -> None:
        counts = self.skew.counts + self._sums(pods)
        self.skew = replace(self.skew, counts=counts)

    def _sums(self, pods: Vector) -> Vector:
        """Return the sum of each domain."""
        sums = np.zeros(len(self.skew.counts), np.int64)
        inside = self.domain_of >= 0
        np.add.at(sums, self.domain_of[inside], pods[inside])
        return sums

    def limited(self, pods: Vector, most: Vector) -> Vector:
        """Return ``pods``, or fewer where a domain has more than ``most``."""
        ordered = pods[self._ordered]
        before = np.cumsum(ordered) - ordered
        before -= before[self._begin]  # those of the same domain
        left = _at(most, self.domain_of)[self._ordered] - before
        result = np.empty_like(pods)
        result[self._ordered] = np.clip(left, 0, ordered)
        return result

    def rounds(self, limits: Vector, count: int) -> Vector:
        """Return how many of ``count`` pods each domain gets in rounds, if its leaves take ``limits``."""
        skew, left = self.skew, self._sums(limits)
        taken = np.zeros(len(left), np.int64)
        while count:
            allowed = skew.allowed()
            is_open = (left > 0) & (allowed > 0)
            domains = int(np.count_nonzero(is_open))
            if not domains:
                break
            if count < domains:
                taken[self._first_domains(is_open, count)] += 1
                break
            waiting = (left > 0) & ~is_open
            rounds = min(
                count // domains, int(left[is_open].min()), _equal_rounds(skew, allowed, is_open, waiting)
            )
            added = np.where(is_open, rounds, 0)
            taken += added
            left -= added
            count -= rounds * domains
            skew = replace(skew, counts=skew.counts + added)
        return taken

    def _first_domains(self, among: Mask, count: int) -> Vector:
        """Return the domains of the first leaves."""
        domains, first_leaf = np.unique(self.domain_of, return_index=True)
        in_order = domains[np.argsort(first_leaf)]
        in_order = in_order[in_order >= 0]
        return in_order[among[in_order]][:count]


def _equal_rounds(skew: SpreadSkew, allowed: Vector, is_open: Mask, waiting: Mask) -> int:
    """Return the number of rounds until another domain is open; domains that get full do not count.

    ``waiting`` are the domains that will be open at a larger minimum.
    """
    minimum, closed = skew.minimum(), skew.counts[skew.exists & ~is_open]
    if skew.has_fixed_minimum or (closed == minimum).any():
        return int(allowed[is_open].min())
    # Each round raises the minimum, until it is that of a closed domain.
    until_closed = int(closed.min()) - minimum if len(closed) else UNLIMITED
    return min(until_closed, 1 - int(allowed[waiting].max()) if waiting.any() else UNLIMITED)


def _at(by_domain: Vector, domains: Vector) -> Vector:
    """Return the amounts of ``domains``; 0 for negative ones."""
    return np.append(by_domain, 0)[domains]

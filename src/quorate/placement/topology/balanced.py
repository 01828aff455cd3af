"""Balanced placement: as many pods as possible in the domain that gets the fewest (TASBalancedPlacement).

The sibling domains of the requested level that reach the highest *threshold*, the number of slices that each
chosen domain gets at least, are pruned of all domains below it.  Among the rest, as few domains as the greedy
algorithm needs are chosen, with the least room, and the slices beyond the threshold go to the first of them.
"""

from collections.abc import Iterator
from math import log2
from typing import Final, NamedTuple

from msgspec.structs import replace

from quorate.placement.topology.counting import LevelCounts, count_domains
from quorate.placement.topology.search import Search
from quorate.placement.vectors import Vector, np

_MAX_STEPS: Final = (
    2_000_000  # of the choice of a subset, about a second; beyond it placement is not balanced
)


class _Greedy(NamedTuple):
    """The domains that a greedy assignment uses."""

    used: int
    last_with_leader: int | None
    last: int | None


class _Candidate(NamedTuple):
    search: Search  # with pruned counts
    domains: Vector  # of the requested level
    threshold: int
    used: int


def balanced_search(search: Search) -> tuple[Search, int, Vector] | None:
    """Return a search in which the counts are the shares of some domains, their level and the domains.

    Returns None if no balanced placement exists.
    """
    best: _Candidate | None = None
    for siblings in _sibling_sets(search):
        candidate = _candidate(search, siblings, 0 if best is None else best.threshold)
        if candidate is not None and (
            best is None
            or candidate.threshold > best.threshold
            or (candidate.threshold == best.threshold and candidate.used < best.used)
        ):
            best = candidate
    if best is None or best.threshold <= 0:
        return None
    return _shares(best)


def _sibling_sets(search: Search) -> Iterator[Vector]:
    level = search.parameters.level
    if level == 0:
        yield np.arange(len(search.counts[0].pods))
        return
    for parent in range(len(search.counts[level - 1].pods)):
        yield search.tree.children(level - 1, parent)


def _candidate(search: Search, siblings: Vector, best_threshold: int) -> _Candidate | None:
    given = search.parameters
    level, units = given.level, siblings
    if given.level < given.slice_level:
        level, units = level + 1, _children(search, level, siblings)
    greedy = _greedy(search, level, units)
    if greedy is None:
        return None
    counts = search.counts[level]
    threshold = given.slices // greedy.used
    if greedy.last_with_leader is not None:
        threshold = min(threshold, int(counts.slices_with_leader[greedy.last_with_leader]))
    if greedy.last is not None:
        threshold = min(threshold, int(counts.slices[greedy.last]))
    thresholds = [threshold]
    if given.has_leader and greedy.last is not None:
        reserved = min(threshold, int(counts.slices_with_leader[greedy.last]))
        if 0 < reserved < threshold:
            thresholds.append(reserved)
    for lower in thresholds:
        if lower < best_threshold:
            return None
        pruned = _pruned(search, siblings, lower)
        after = _greedy(pruned, given.level, siblings)
        if after is not None:
            return _Candidate(pruned, siblings, lower, after.used)
    return None


def _greedy(search: Search, level: int, domains: Vector) -> _Greedy | None:
    """Return what a greedy assignment of all slices uses; None if they do not fit."""
    counts, needed, leader = search.counts[level], search.parameters.slices, int(search.parameters.has_leader)
    used, last_with_leader, last = 0, None, None
    ordered = search.leader_first(level, domains)
    while leader and used < len(ordered) and counts.leaders[ordered[used]]:
        last_with_leader = int(ordered[used])
        leader -= int(counts.leaders[last_with_leader])
        needed -= int(counts.slices_with_leader[last_with_leader])
        used += 1
    if leader:
        return None
    for domain in search.plain_order(level, ordered[used:]):
        if needed <= 0 or not counts.slices[domain]:
            break
        last = int(domain)
        needed -= int(counts.slices[last])
        used += 1
    return None if needed > 0 else _Greedy(used, last_with_leader, last)


def _pruned(search: Search, domains: Vector, threshold: int) -> Search:
    """Return a search without domains that hold fewer slices than ``threshold``."""
    given, tree = search.parameters, search.tree
    pruned = search
    for level in (given.level + 1, given.level):
        if level == len(tree.levels):
            continue
        counts = pruned.counts[level]
        members = domains if level == given.level else _children(search, given.level, domains)
        leaves = _copy(pruned.counts[-1])
        for domain in members:
            below = tree.leaves_below(level, int(domain))
            is_empty = counts.slices[domain] < threshold
            if is_empty:
                leaves.pods[below] = 0
            if is_empty or (given.has_leader and counts.slices_with_leader[domain] < threshold):
                leaves.pods_with_leader[below] = 0
                leaves.leaders[below] = 0
        parameters = replace(given, inner_sizes={})
        pruned = Search(tree, count_domains(tree, leaves, parameters), given)
    return pruned


def _copy(counts: LevelCounts) -> LevelCounts:
    return LevelCounts(
        counts.pods.copy(),
        counts.pods_with_leader.copy(),
        counts.leaders.copy(),
        np.zeros_like(counts.pods),
        np.zeros_like(counts.pods),
        counts.scores,
    )


def _children(search: Search, level: int, domains: Vector) -> Vector:
    return np.concatenate([search.tree.children(level, int(domain)) for domain in domains])


def _shares(best: _Candidate) -> tuple[Search, int, Vector] | None:
    search, domains = best.search, best.domains
    given, level = search.parameters, best.search.parameters.level
    if level < given.slice_level:
        chosen = _optimal_subset(search, level, domains, by_entropy=True)
        if chosen is None:
            return None
        domains = _children(search, level, chosen)
        level += 1
    chosen = _optimal_subset(search, level, domains, by_entropy=False)
    if chosen is None:
        return None
    extra = given.slices - len(chosen) * best.threshold
    if extra < 0:
        return None
    counts, leader = search.counts[level], int(given.has_leader)
    chosen = search.leader_first(level, chosen)
    for domain in chosen:
        room = counts.slices_with_leader[domain] if leader else counts.slices[domain]
        more = min(int(room) - best.threshold, extra) if leader or extra > 0 else 0
        share = best.threshold + more
        counts.leaders[domain] = leader
        counts.slices[domain] = counts.slices_with_leader[domain] = share
        counts.pods[domain] = share * given.slice_size
        counts.pods_with_leader[domain] = share * given.slice_size - leader
        extra -= more
        leader = 0
    return None if extra > 0 or leader else (search, level, chosen)


def _optimal_subset(search: Search, level: int, domains: Vector, *, by_entropy: bool) -> Vector | None:
    """Return as many domains as a greedy assignment uses, which hold everything with the least room left.

    Dynamic programming over the domains in order; the first of equal subsets counts.
    """
    given, counts = search.parameters, search.counts[level]
    greedy = _greedy(search, level, domains)
    if greedy is None or len(domains) * greedy.used * given.count > _MAX_STEPS:
        return None
    ordered = [int(domain) for domain in np.sort(domains)]
    if by_entropy:
        ordered.sort(
            key=lambda domain: (
                -int(counts.leaders[domain]),
                -int(counts.slices_with_leader[domain]),
                -_entropy(search.counts[level + 1].pods[search.tree.children(level, domain)]),
            )
        )
    # By number of domains: the domains chosen, by the leaders and the pods that are left to place.
    chosen: list[dict[tuple[int, int], tuple[int, ...]]] = [{} for _ in range(greedy.used + 1)]
    chosen[0][int(given.has_leader), given.slices * given.slice_size] = ()
    for domain in ordered:
        for number in range(greedy.used, 0, -1):
            for (leader, pods), before in sorted(chosen[number - 1].items()):
                if leader <= 0 and pods <= 0:
                    continue
                subset = (*before, domain)
                if leader and counts.leaders[domain]:
                    left = leader - int(counts.leaders[domain]), pods - int(counts.pods_with_leader[domain])
                    chosen[number].setdefault(left, subset)
                if counts.slices[domain]:
                    chosen[number].setdefault((leader, pods - int(counts.pods[domain])), subset)
    complete = {pods: subset for (leader, pods), subset in chosen[-1].items() if leader == 0 and pods <= 0}
    return np.array(complete[max(complete)], np.int64) if complete else None


def _entropy(pods: Vector) -> float:
    total = int(pods.sum())
    return (
        -sum(share * log2(share) for share in (int(count) / total for count in pods if count))
        if total
        else 0.0
    )

"""The choice of domains: at the requested level or above it, and from there down to the leaves.

Two algorithms exist.  *Best fit* takes the largest domains first, and as the last one the smallest that
suffices.  *Least free first*, for unconstrained pods, takes the domains with the least free capacity first.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.placement.topology.counting import Exclusions, LevelCounts
from quorate.placement.topology.request import SearchParameters
from quorate.placement.topology.tree import DomainTree
from quorate.placement.vectors import Vector, np

_TOO_MANY: Final = 2**62


class PlacedPods(NamedTuple):
    """Pods of one pod set in one leaf."""

    leaf: int
    pods: int


class PlacementFailure(NamedTuple):
    """Why pods cannot be placed, and how many of the requested ones could be."""

    text: str
    fitting: int = 0
    requested: int = 0
    of_leader: bool = False  # only the leader has no place: the numbers are about it


class GroupPlacement(NamedTuple):
    """The places of the pods of a pod set, and of its leader, in the order of the leaves."""

    workers: tuple[PlacedPods, ...]
    leader: tuple[PlacedPods, ...] = ()


class NotFound(NamedTuple):
    """The level where the search ended, and how many units fit there."""

    level: int
    fitting: int


class Search:
    """The search for the domains of one pod set; its counts become what each domain gets."""

    def __init__(self, tree: DomainTree, counts: Sequence[LevelCounts], parameters: SearchParameters) -> None:
        self.tree = tree
        self.counts = counts
        self.parameters = parameters

    # Orders of domains.

    def plain_order(self, level: int, domains: Vector) -> Vector:
        counts = self.counts[level]
        return self._ordered(domains, counts.scores, counts.slices, counts.pods)

    def leader_first(self, level: int, domains: Vector) -> Vector:
        counts = self.counts[level]
        ordered = self._ordered(domains, counts.scores, counts.slices_with_leader, counts.pods_with_leader)
        if not self.parameters.has_leader:
            return ordered
        return ordered[np.argsort(-counts.leaders[ordered], kind="stable")]

    def _ordered(self, domains: Vector, scores: Vector | None, slices: Vector, pods: Vector) -> Vector:
        by_slices = slices[domains] if self.parameters.least_free_first else -slices[domains]
        keys = (domains, by_slices) if slices is pods else (domains, pods[domains], by_slices)
        return domains[np.lexsort(keys if scores is None else (*keys, -scores[domains]))]

    def _prioritized(
        self, level: int, domains: Vector, needed: int, leader: int, *, in_slices: bool
    ) -> Vector:
        """Move the first domain to the front that can take the leader and leaves enough room for the pods."""
        if not leader or len(domains) < 2:
            return domains
        counts = self.counts[level]
        all_ = counts.slices if in_slices else counts.pods
        beside = counts.slices_with_leader if in_slices else counts.pods_with_leader
        room = int(all_[domains].sum())
        suitable = (counts.leaders[domains] >= leader) & (room - (all_ - beside)[domains] >= needed)
        if not suitable.any():
            return domains
        first = int(np.argmax(suitable))
        return np.concatenate([domains[first : first + 1], domains[:first], domains[first + 1 :]])

    def _fit_before_leader(self, level: int, domains: Vector, room: Vector, needed: int) -> bool:
        """Return True if the domains before the first that can take the leader hold all units."""
        before = np.cumsum(self.counts[level].leaders[domains]) == 0
        return not before.all() and int(room[domains][before].sum()) >= needed

    def _smallest_sufficient(
        self, level: int, domains: Vector, needed: int, leader: int, *, in_slices: bool
    ) -> int:
        """Return the first of ``domains`` with the least room that suffices; without any, the very first."""
        counts = self.counts[level]
        if counts.scores is not None:  # only those of the best score
            scores = counts.scores[domains]
            domains = domains[np.cumprod(scores == scores[0]).astype(np.bool_)]
        if in_slices:
            room = (counts.slices_with_leader if leader else counts.slices)[domains]
        else:
            room = (counts.pods_with_leader if leader else counts.pods)[domains]
        sufficient = (room >= needed) & (counts.leaders[domains] >= leader)
        return (
            int(domains[np.argmin(np.where(sufficient, room, _TOO_MANY))])
            if sufficient.any()
            else int(domains[0])
        )

    def _one_sufficient(self, level: int, domains: slice, needed: int) -> int | None:
        """Return the domain with the least room that suffices for the slices, as both algorithms choose it.

        None: there is none, or a leader or preferred affinity decides as well.
        """
        counts = self.counts[level]
        if self.parameters.has_leader or counts.scores is not None:
            return None
        return self._least_sufficient(level, domains, counts.slices, needed)

    def _least_sufficient(self, level: int, domains: slice, room: Vector, needed: int) -> int | None:
        """Return the domain with the least ``room`` that suffices; of equal ones, for the fewest pods."""
        pods, units = self.counts[level].pods, room[domains]
        sufficient = np.where(units >= needed, units, _TOO_MANY)
        best = int(sufficient.argmin())
        if room is not pods:
            least = sufficient == sufficient[best]
            best = int(np.where(least, pods[domains], _TOO_MANY).argmin())
        return best + (domains.start or 0) if sufficient[best] < _TOO_MANY else None

    # The choice of the level and its domains.

    def find(self, level: int) -> "tuple[int, Vector] | NotFound":
        """Return domains of ``level``, or of a level above, that hold all pods together."""
        given, counts = self.parameters, self.counts[level]
        needed, leader = given.slices, int(given.has_leader)
        if (one := self._one_sufficient(level, slice(None), needed)) is not None:
            return level, np.array([one])
        ordered = self.leader_first(level, np.arange(len(counts.pods)))
        room = counts.slices_with_leader if leader else counts.slices
        holds_all = (room[ordered] >= needed) & (counts.leaders[ordered] >= leader)
        if given.least_free_first:
            if holds_all.any():
                return level, ordered[[np.argmax(holds_all)]]
        elif holds_all[0]:
            best = self._smallest_sufficient(level, ordered, needed, leader, in_slices=True)
            return level, np.array([best])
        if given.required:
            if counts.scores is not None and counts.scores.any() and holds_all.any():
                rest = ordered[int(np.argmax(holds_all)) :]
                best = self._smallest_sufficient(level, rest, needed, leader, in_slices=True)
                return level, np.array([best])
            return NotFound(level, int(counts.slices[ordered[0]]))
        if level and not given.unconstrained:
            return self.find(level - 1)
        return self._find_several(level, ordered)

    def _find_several(self, level: int, ordered: Vector) -> "tuple[int, Vector] | NotFound":
        given, counts = self.parameters, self.counts[level]
        needed, leader, best_fit = given.slices, int(given.has_leader), not given.least_free_first
        ordered = self._prioritized(level, ordered, needed, leader, in_slices=True)
        chosen: list[int] = []
        taken = 0
        while leader and taken < len(ordered) and counts.leaders[ordered[taken]]:
            domain = int(ordered[taken])
            if best_fit and counts.slices_with_leader[domain] >= needed:
                domain = self._smallest_sufficient(level, ordered[taken:], needed, leader, in_slices=True)
            chosen.append(domain)
            leader -= int(counts.leaders[domain])
            needed -= int(counts.slices_with_leader[domain])
            taken += 1
        if leader:
            return NotFound(level, int(given.has_leader) - leader)
        rest = self.plain_order(level, ordered[taken:])
        for index, number in enumerate(rest):
            if needed <= 0:
                break
            domain = int(number)
            if best_fit and counts.slices[domain] >= needed:
                domain = self._smallest_sufficient(level, rest[index:], needed, 0, in_slices=True)
            chosen.append(domain)
            needed -= int(counts.slices[domain])
        if needed > 0:
            return NotFound(level, given.slices - needed)
        return level, np.array(chosen, np.int64)

    # The way down.

    def descend(self, level: int, domains: Vector, *, keeps_shares: bool) -> GroupPlacement:
        """Distribute all pods over ``domains`` and, level by level, over their children.

        Above the slice level the children of all domains form one pool, so pods may move between parents,
        unless ``keeps_shares``.
        """
        given, tree = self.parameters, self.tree
        leader, lowest = int(given.has_leader), len(tree.levels) - 1
        if len(domains) == 1:
            members = slice(int(domains[0]), int(domains[0]) + 1)
            current = self._fill_children(
                level, members, given.count, leader, given.slice_size, in_slices=True
            )
        else:
            current = self._fill(level, domains, given.count, leader, given.slice_size, in_slices=True)
        while level < min(lowest, given.slice_level) and not keeps_shares:
            pool: Vector | slice
            if len(current) == 1:
                pool = tree.range_of_children(level, current[0])
            else:
                pool = np.concatenate([tree.children(level, domain) for domain in current])
            level += 1
            current = self._fill_children(level, pool, given.count, leader, given.slice_size, in_slices=True)
        while level < lowest:
            size = given.slice_size
            if level >= given.slice_level:
                size = given.inner_sizes.get(level + 1, 1)
            above, below = self.counts[level], self.counts[level + 1]
            children: list[int] = []
            for domain in current:
                pods, leaders = int(above.pods[domain]), int(above.leaders[domain])
                members = tree.range_of_children(level, domain)
                if size == 1:
                    children += self._fill_children(level + 1, members, pods, leaders, 1, in_slices=False)
                    continue
                # Of an inner layer: the counts, and so the order, are still those of the outer one, or 0.
                ordered = self.plain_order(level + 1, np.arange(members.start, members.stop))
                below.slices[members] = below.pods[members] // size
                below.slices_with_leader[members] = below.pods_with_leader[members] // size
                children += self._fill(level + 1, ordered, pods, leaders, size, in_slices=True)
            current = children
            level += 1
        leaves = self.counts[lowest]
        current = sorted(current)
        return GroupPlacement(
            tuple(PlacedPods(leaf, int(leaves.pods[leaf])) for leaf in current if leaves.pods[leaf]),
            tuple(PlacedPods(leaf, 1) for leaf in current if given.has_leader and leaves.leaders[leaf]),
        )

    def _fill_children(
        self, level: int, members: Vector | slice, pods: int, leader: int, size: int, *, in_slices: bool
    ) -> list[int]:
        """Give the domains as many units as they hold, in plain order; see ``_fill``."""
        counts = self.counts[level]
        if isinstance(members, slice):
            units = pods // size if in_slices else pods
            if (one := self._first_if_sufficient(level, members, units, in_slices=in_slices)) is not None:
                counts.pods[one] = units * size if in_slices else units
                if in_slices:
                    counts.slices[one] = units
                return [one]
            members = np.arange(members.start, members.stop)
        ordered = self.plain_order(level, members)
        return self._fill(level, ordered, pods, leader, size, in_slices=in_slices)

    def _first_if_sufficient(self, level: int, domains: slice, units: int, *, in_slices: bool) -> int | None:
        """Return the domain to which ``_fill`` gives all units, if it can be told without an order.

        That is the domain with the least sufficient room, provided that the first domain in order suffices.
        If the most slices come first, one sufficient domain is enough; if the fewest pods or slices come
        first, all domains must suffice.
        """
        given, counts = self.parameters, self.counts[level]
        if given.has_leader or counts.scores is not None:
            return None
        by_slices = in_slices or counts.slices is counts.pods
        if not by_slices and counts.slices[domains].any():
            return None
        room = counts.slices if in_slices else counts.pods
        if (given.least_free_first or not by_slices) and room[domains].min() < units:
            return None
        return self._least_sufficient(level, domains, room, units)

    def _fill(
        self, level: int, domains: Vector, pods: int, leader: int, size: int, *, in_slices: bool
    ) -> list[int]:
        """Give the domains, in order, as many units as they hold; return the considered domains.

        The counts of a returned domain become the units that it gets.
        """
        counts, best_fit = self.counts[level], not self.parameters.least_free_first
        rest = pods // size if in_slices else pods
        factor = size if in_slices else 1
        room = counts.slices if in_slices else counts.pods
        beside = counts.slices_with_leader if in_slices else counts.pods_with_leader
        if not (self.parameters.leader_differs and self._fit_before_leader(level, domains, room, rest)):
            domains = self._prioritized(level, domains, rest, leader, in_slices=in_slices)
        filled: list[int] = []
        for index, number in enumerate(domains):
            domain, had_leader = int(number), leader > 0
            available = beside if had_leader and counts.leaders[domain] else room
            if available[domain] >= rest and counts.leaders[domain] >= leader and best_fit:
                domain = self._smallest_sufficient(level, domains[index:], rest, leader, in_slices=in_slices)
            given = min(int(available[domain]), rest)
            takes = min(int(counts.leaders[domain]), leader)
            is_last = available[domain] >= rest and counts.leaders[domain] >= leader
            counts.leaders[domain] = takes
            counts.pods[domain] = given * factor
            if in_slices:
                counts.slices[domain] = given
            filled.append(domain)
            if is_last:
                return filled
            rest -= given
            leader -= takes
        assert not rest, f"{rest} units have no place on level {level}"
        assert not leader, f"the leader has no place on level {level}"
        return filled

    # Refusals.

    def excludes_leader(self, failed: NotFound) -> bool:
        """Return True if all workers fit, but not with their leader."""
        return self.parameters.has_leader and failed.fitting >= self.parameters.slices

    def failure(self, failed: NotFound, exclusions: Exclusions) -> PlacementFailure:
        """Return the refusal in Kueue's words."""
        given = self.parameters
        unit = "pod" if given.slice_size == 1 else "slice"
        if len(given.layers) > 1:
            text = (
                f'topology "{self.tree.topology}" doesn\'t allow to fit{self._fitting_by_layer(failed.level)}'
            )
        elif self.excludes_leader(failed):
            text = f'topology "{self.tree.topology}" allows to fit all {unit}(s), but not their leader'
        elif failed.fitting:
            text = (
                f'topology "{self.tree.topology}" allows to fit only {failed.fitting} out of '
                f"{given.slices} {unit}(s)"
            )
        else:
            text = f'topology "{self.tree.topology}" doesn\'t allow to fit any of {given.slices} {unit}(s)'
        if exclusions.by_reason:
            reasons = sorted(f"{reason}: {number}" for reason, number in exclusions.by_reason.items())
            text = f"{text}. Total nodes: {exclusions.leaves}; excluded: {', '.join(reasons)}"
        if self.excludes_leader(failed):
            return PlacementFailure(text, 0, 1, of_leader=True)
        return PlacementFailure(text, failed.fitting * given.slice_size, given.slices * given.slice_size)

    def _fitting_by_layer(self, level: int) -> str:
        counts, tree = self.counts[level], self.tree
        best = int(np.argmax(counts.slices))
        texts = []
        for layer in self.parameters.layers:
            below = tree.level_of(layer.level)
            assert below is not None, f"{layer.level} was resolved before"
            members = np.array([best])
            for upper in range(level, below):
                members = np.concatenate([tree.children(upper, domain) for domain in members])
            fitting = int((self.counts[below].pods[members] // layer.size).sum())
            texts.append(
                f"; {fitting}/{self.parameters.count // layer.size} slice(s) fit on level {layer.level}"
            )
        return "".join(texts)

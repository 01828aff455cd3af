"""Topology-aware placement, slow and obvious: the rules of Kueue 0.19 for a tree of hosts, in plain Python.

It shares no code with ``quorate.placement.topology``, which must agree with it on every small tree.  A domain
is the tuple of its values; hosts have one resource.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

Domain = tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """What pods ask for; levels are numbers, 0 the highest."""

    count: int
    required: int | None = None
    preferred: int | None = None  # neither: unconstrained
    layers: tuple[tuple[int, int], ...] = ()  # level and size, outermost first
    pod: int = 1  # of the resource, by each pod
    leader: int | None = None  # of the resource, by the leader; None: there is none
    mixed: bool = True


@dataclass
class Counts:
    pods: int = 0
    pods_with_leader: int = 0
    leader: int = 0
    slices: int = 0
    slices_with_leader: int = 0
    score: int = 0


class Oracle:
    def __init__(self, hosts: Mapping[Domain, int], asked: Asked, scores: Mapping[Domain, int] = {}) -> None:
        self.hosts, self.asked, self.scores = hosts, asked, scores
        self.depth = len(next(iter(hosts)))
        self.lowest = self.depth - 1
        named = asked.required if asked.required is not None else asked.preferred
        self.unconstrained = named is None
        self.level = named if named is not None else 0 if asked.layers else self.lowest
        self.slice_level, self.size = asked.layers[0] if asked.layers else (self.lowest, 1)
        self.sizes: dict[int, int] = {}  # below the slice level
        above = self.slice_level
        for level, size in asked.layers[1:]:
            for each in range(above + 1, level + 1):
                self.sizes[each] = size
            above = level
        self.best_fit = not (self.unconstrained and asked.mixed)
        self.needed = asked.count // self.size
        self.wants_leader = int(asked.leader is not None)
        self.counts: dict[Domain, Counts] = {}

    # Domains.

    def at(self, level: int) -> list[Domain]:
        return sorted({host[: level + 1] for host in self.hosts})

    def children(self, domain: Domain) -> list[Domain]:
        return [each for each in self.at(len(domain)) if each[: len(domain)] == domain]

    def children_of(self, domains: Sequence[Domain]) -> list[Domain]:
        return [child for domain in domains for child in self.children(domain)]

    # Phase 1.

    def count(self) -> None:
        asked = self.asked
        for host, room in self.hosts.items():
            pods = max(0, room // asked.pod)
            takes = asked.leader is not None and room >= asked.leader
            beside = (room - (asked.leader or 0)) // asked.pod if takes else pods
            self.counts[host] = Counts(pods, beside, int(takes), score=self.scores.get(host, 0))
        self.count_up()

    def count_up(self) -> None:
        for level in range(self.lowest, -1, -1):
            for domain in self.at(level):
                if level < self.lowest:
                    self.counts[domain] = self.sum_of(self.children(domain))
                counts = self.counts[domain]
                if level == self.slice_level:
                    counts.slices = counts.pods // self.size
                    counts.slices_with_leader = counts.pods_with_leader // self.size
                elif level > self.slice_level:
                    counts.slices = counts.slices_with_leader = 0

    def sum_of(self, children: Sequence[Domain]) -> Counts:
        size = self.sizes.get(len(children[0]) - 1, 1)
        total = Counts()
        pod_losses, slice_losses = [], []
        for child in children:
            counts = self.counts[child]
            pods, beside = counts.pods // size * size, counts.pods_with_leader // size * size
            total.pods += pods
            total.slices += counts.slices
            total.score += counts.score
            total.leader = max(total.leader, counts.leader)
            if counts.leader or not self.wants_leader:
                pod_losses.append(pods - beside)
                slice_losses.append(counts.slices - counts.slices_with_leader)
        if pod_losses:
            total.pods_with_leader = total.pods - min(pod_losses)
            total.slices_with_leader = total.slices - min(slice_losses)
        return total

    # Orders.

    def plain(self, domains: Sequence[Domain]) -> list[Domain]:
        sign = -1 if self.best_fit else 1

        def key(domain: Domain) -> tuple[object, ...]:
            counts = self.counts[domain]
            return -counts.score, sign * counts.slices, counts.pods, domain

        return sorted(domains, key=key)

    def leader_first(self, domains: Sequence[Domain]) -> list[Domain]:
        sign = -1 if self.best_fit else 1

        def key(domain: Domain) -> tuple[object, ...]:
            counts = self.counts[domain]
            return (
                -counts.leader,
                -counts.score,
                sign * counts.slices_with_leader,
                counts.pods_with_leader,
                domain,
            )

        return sorted(domains, key=key)

    def amount(self, domain: Domain, leader: int, unit: str) -> int:
        counts = self.counts[domain]
        if unit == "slices":
            return counts.slices_with_leader if leader else counts.slices
        return counts.pods_with_leader if leader else counts.pods

    def smallest(self, domains: Sequence[Domain], needed: int, leader: int, unit: str = "slices") -> Domain:
        equal: list[Domain] = []
        for domain in domains:
            if self.counts[domain].score != self.counts[domains[0]].score:
                break
            equal.append(domain)
        enough = [
            domain
            for domain in equal
            if self.amount(domain, leader, unit) >= needed and self.counts[domain].leader >= leader
        ]
        return min(enough, key=lambda domain: self.amount(domain, leader, unit)) if enough else domains[0]

    def prioritise(
        self, domains: list[Domain], needed: int, leader: int, unit: str = "slices"
    ) -> list[Domain]:
        if leader and len(domains) > 1:
            total = sum(self.amount(domain, 0, unit) for domain in domains)
            for domain in domains:
                loss = self.amount(domain, 0, unit) - self.amount(domain, 1, unit)
                if self.counts[domain].leader and total - loss >= needed:
                    return [domain, *(each for each in domains if each != domain)]
        return domains

    # Phase 2, choosing.

    def find(self, level: int) -> list[Domain] | None:
        needed, leader = self.needed, self.wants_leader
        ordered = self.leader_first(self.at(level))

        def holds(domain: Domain) -> bool:
            return self.amount(domain, leader, "slices") >= needed and self.counts[domain].leader >= leader

        if self.best_fit:
            if holds(ordered[0]):
                return [self.smallest(ordered, needed, leader)]
        else:
            for domain in ordered:
                if holds(domain):
                    return [domain]
        if self.asked.required is not None:
            later = [number for number, domain in enumerate(ordered) if holds(domain)]
            return [self.smallest(ordered[later[0] :], needed, leader)] if later and self.scores else None
        if level > 0 and not self.unconstrained:
            return self.find(level - 1)
        return self.several(ordered)

    def several(self, ordered: list[Domain]) -> list[Domain] | None:
        rest, leader = self.needed, self.wants_leader
        remaining = self.prioritise(ordered, rest, leader)
        taken: list[Domain] = []
        while leader and remaining and self.counts[remaining[0]].leader:
            domain = remaining[0]
            if self.best_fit and self.amount(domain, 1, "slices") >= rest:
                domain = self.smallest(remaining, rest, 1)
            taken.append(domain)
            remaining.remove(domain)
            rest -= self.amount(domain, 1, "slices")
            leader -= 1
        if leader:
            return None
        remaining = self.plain(remaining)
        while rest > 0 and remaining:
            domain = remaining[0]
            if self.best_fit and self.amount(domain, 0, "slices") >= rest:
                domain = self.smallest(remaining, rest, 0)
            taken.append(domain)
            remaining.remove(domain)
            rest -= self.amount(domain, 0, "slices")
        return None if rest > 0 else taken

    # Phase 2, descending.

    def fill(self, domains: list[Domain], pods: int, leader: int, size: int, unit: str) -> list[Domain]:
        rest = pods // size if unit == "slices" else pods
        remaining = self.prioritise(list(domains), rest, leader, unit)
        filled: list[Domain] = []
        for index in range(len(remaining)):
            domain, missing = remaining[index], leader
            if (
                self.best_fit
                and self.amount(domain, missing, unit) >= rest
                and self.counts[domain].leader >= missing
            ):
                domain = self.smallest(remaining[index:], rest, missing, unit)
            counts, room = self.counts[domain], self.amount(domain, missing, unit)
            done = room >= rest and counts.leader >= missing
            share = min(room, rest)
            counts.leader = min(counts.leader, missing)
            counts.pods = share * size if unit == "slices" else share
            if unit == "slices":
                counts.slices = share
            filled.append(domain)
            rest -= share
            leader -= counts.leader
            if done:
                return filled
        raise AssertionError("what was counted has no place")

    def descend(self, chosen: list[Domain], *, keeps_shares: bool) -> dict[Domain, tuple[int, int]]:
        count = self.needed * self.size
        level = len(chosen[0]) - 1
        current = self.fill(chosen, count, self.wants_leader, self.size, "slices")
        while level < self.slice_level and not keeps_shares:
            level += 1
            pool = self.plain(self.children_of(current))
            current = self.fill(pool, count, self.wants_leader, self.size, "slices")
        while level < self.lowest:
            level += 1
            size = self.size if level <= self.slice_level else self.sizes.get(level, 1)
            below: list[Domain] = []
            for parent in current:
                children, share = self.plain(self.children(parent)), self.counts[parent]
                unit = "slices" if size > 1 else "pods"
                for child in children if size > 1 else ():
                    counts = self.counts[child]
                    counts.slices = counts.pods // size
                    counts.slices_with_leader = counts.pods_with_leader // size
                below += self.fill(children, share.pods, share.leader, size, unit)
            current = below
        return {
            host: (self.counts[host].pods, self.counts[host].leader)
            for host in sorted(current)
            if self.counts[host].pods or self.counts[host].leader
        }

    def place(self) -> dict[Domain, tuple[int, int]] | None:
        """Return the pods and leaders of each host; None if there is no placement."""
        self.count()
        chosen = self.find(self.level)
        return None if chosen is None else self.descend(chosen, keeps_shares=False)


def every_placement(hosts: Mapping[Domain, int], asked: Asked) -> Iterator[dict[Domain, int]]:
    """Yield every distribution of the pods over the hosts that obeys capacity and slices."""
    names = sorted(hosts)
    rooms = [range(max(0, hosts[name] // asked.pod) + 1) for name in names]
    for numbers in product(*rooms):
        if sum(numbers) == asked.count:
            placed = dict(zip(names, numbers, strict=True))
            if all(in_slices(placed, level, size) for level, size in asked.layers):
                yield placed


def in_slices(placed: Mapping[Domain, int], level: int, size: int) -> bool:
    """Return True if no slice has pods in two domains of the level; the last slice may have fewer pods."""
    pods: dict[Domain, int] = {}
    for host, number in placed.items():
        if number:
            pods[host[: level + 1]] = pods.get(host[: level + 1], 0) + number
    smaller = [number % size for number in pods.values() if number % size]
    rest = sum(pods.values()) % size
    return smaller == ([rest] if rest else [])


def satisfies(
    hosts: Mapping[Domain, int],
    asked: Asked,
    placed: Mapping[Domain, int],
    leading: Collection[Domain] | None = None,
) -> bool:
    """Return True if a leader, if any, has room beside the pods, all in one domain of the required level.

    ``leading``: the hosts that accept the leader, None for all.
    """
    used = [host for host, number in placed.items() if number]
    level = asked.required

    def near(host: Domain) -> bool:
        return level is None or all(host[: level + 1] == other[: level + 1] for other in used)

    if not all(near(host) for host in used):
        return False
    leader = asked.leader
    return leader is None or any(
        near(host) and room - placed[host] * asked.pod >= leader
        for host, room in hosts.items()
        if leading is None or host in leading
    )

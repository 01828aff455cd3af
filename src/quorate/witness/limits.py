"""How much the pods of cluster queues and cohorts may use: the quota of a tree, whatever was admitted.

For one resource of one flavor, each cluster queue and cohort has a *quota*: its own nominal quota plus what
its children lend.  A child lends its quota, at most its ``lendingLimit``, and keeps the rest.  Use beyond
what a child keeps is use of its parent.  Then

- a cluster queue or cohort below a parent uses at most its quota plus its ``borrowingLimit``, if it has one;
- a cluster queue uses nothing of a flavor that it does not list;
- a root, with or without children, uses at most its quota.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from quorate.api.kueue import ClusterQueue, Cohort, ResourceGroup, ResourceQuota
from quorate.api.quantity import NANOS

Kind = Literal["ClusterQueue", "Cohort"]
_MILLI: Final = NANOS // 1000


class Holder(NamedTuple):
    """A cluster queue or a cohort; a cohort may exist by its name alone."""

    kind: Kind
    name: str


class FlavorResource(NamedTuple):
    flavor: str
    resource: str


class Limit(NamedTuple):
    """The most that the holder may use."""

    holder: Holder
    of: FlavorResource


class Kept(NamedTuple):
    """The quota that a holder does not lend; use of ``queues`` within it is no use of its parent."""

    amount: int
    queues: frozenset[str]


@dataclass(slots=True)
class _Node:
    parent: Holder | None
    quotas: dict[FlavorResource, ResourceQuota]
    children: list[Holder] = field(default_factory=list)


class QuotaTrees:
    """The trees of cohorts; queues and cohorts in a cycle of cohorts have no limits."""

    def __init__(self, cluster_queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        self._nodes: dict[Holder, _Node] = {}
        for cohort in cohorts:
            spec = cohort.spec
            holder = Holder("Cohort", cohort.metadata.name)
            self._nodes[holder] = _Node(_cohort(spec.parent_name), _quotas(spec.resource_groups))
        for queue in cluster_queues:
            holder = Holder("ClusterQueue", queue.metadata.name)
            self._nodes[holder] = _Node(_cohort(queue.spec.cohort_name), _quotas(queue.spec.resource_groups))
        for node in list(self._nodes.values()):
            if node.parent is not None and node.parent not in self._nodes:
                self._nodes[node.parent] = _Node(None, {})
        for holder, node in self._nodes.items():
            if node.parent is not None:
                self._nodes[node.parent].children.append(holder)

    def roots(self) -> list[Holder]:
        return [holder for holder, node in self._nodes.items() if node.parent is None]

    def queues_below(self, holder: Holder) -> frozenset[str]:
        """Return the names of the cluster queues in the subtree of ``holder``, itself included."""
        return frozenset(below.name for below in self.below(holder) if below.kind == "ClusterQueue")

    def flavor_resources(self, root: Holder) -> set[FlavorResource]:
        """Return the resources with quota anywhere in the tree of ``root``."""
        return {of for holder in self.below(root) for of in self._nodes[holder].quotas}

    def limits_of(self, root: Holder, of: FlavorResource) -> dict[Holder, int]:
        """Return the limit of each holder in the tree that has one."""
        limits: dict[Holder, int] = {}
        quotas = self._tree_quotas(root, of)
        for holder in self.below(root):
            node = self._nodes[holder]
            own = node.quotas.get(of)
            if node.parent is None:
                limits[holder] = quotas[holder]
            elif own is None and holder.kind == "ClusterQueue":
                limits[holder] = 0  # a queue uses only the flavors that it lists
            elif own is not None and own.borrowing_limit is not None:
                limits[holder] = quotas[holder] + base_units(of.resource, own.borrowing_limit.nanos)
        return limits

    def use_of(self, root: Holder, of: FlavorResource, used: Mapping[str, int]) -> dict[Holder, int]:
        """Return the use of each holder in the tree, given the use of its cluster queues by name."""
        use: dict[Holder, int] = {}
        quotas = self._tree_quotas(root, of)
        for holder in reversed(self.below(root)):
            if holder.kind == "ClusterQueue":
                use[holder] = used.get(holder.name, 0)
                continue
            children = self._nodes[holder].children
            use[holder] = sum(max(0, use[child] - self._kept(child, of, quotas[child])) for child in children)
        return use

    def kept_of(self, root: Holder, of: FlavorResource) -> dict[Holder, dict[Holder, Kept]]:
        """Return, by holder in the tree, the amounts above 0 that each holder below it does not lend."""
        quotas = self._tree_quotas(root, of)
        kept: dict[Holder, dict[Holder, Kept]] = {}
        for holder in quotas:  # children before parents
            below = kept[holder] = {}
            for child in self._nodes[holder].children:
                below |= kept[child]
                if amount := self._kept(child, of, quotas[child]):
                    below[child] = Kept(amount, self.queues_below(child))
        return kept

    def below(self, root: Holder) -> list[Holder]:
        """Return a holder and all below it, parents before children; a tree can have thousands of levels."""
        holders: list[Holder] = []
        left = [root]
        while left:
            holders.append(left.pop())
            left.extend(reversed(self._nodes[holders[-1]].children))
        return holders

    def _tree_quotas(self, root: Holder, of: FlavorResource) -> dict[Holder, int]:
        """Return the quota of each holder in the tree, children before parents."""
        quotas: dict[Holder, int] = {}
        for holder in reversed(self.below(root)):
            node = self._nodes[holder]
            own = node.quotas.get(of)
            lent = sum(self._lent(child, of, quotas[child]) for child in node.children)
            quotas[holder] = lent + (0 if own is None else base_units(of.resource, own.nominal_quota.nanos))
        return quotas

    def _lent(self, holder: Holder, of: FlavorResource, quota: int) -> int:
        """Return what a holder with a quota lends to its parent."""
        own = self._nodes[holder].quotas.get(of)
        if own is None or own.lending_limit is None:
            return quota
        return min(quota, base_units(of.resource, own.lending_limit.nanos))

    def _kept(self, holder: Holder, of: FlavorResource, quota: int) -> int:
        return quota - self._lent(holder, of, quota)


def base_units(resource: str, nanos: int) -> int:
    """Return the amount in nano-units as quota counts it, rounded up: whole millicores, else whole units."""
    unit = _MILLI if resource == "cpu" else NANOS
    return -(-nanos // unit) * unit


def _cohort(name: str) -> Holder | None:
    return Holder("Cohort", name) if name else None


def _quotas(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, ResourceQuota]:
    return {
        FlavorResource(flavor.name, quota.name): quota
        for group in groups
        for flavor in group.flavors
        for quota in flavor.resources
    }

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
        if holder.kind == "ClusterQueue":
            return frozenset((holder.name,))
        return frozenset().union(*(self.queues_below(child) for child in self._nodes[holder].children))

    def flavor_resources(self, root: Holder) -> set[FlavorResource]:
        """Return the resources with quota anywhere in the tree of ``root``."""
        node = self._nodes[root]
        return set(node.quotas).union(*(self.flavor_resources(child) for child in node.children))

    def limits_of(self, root: Holder, of: FlavorResource) -> dict[Holder, int]:
        """Return the limit of each holder in the tree that has one."""
        limits: dict[Holder, int] = {}
        self._collect_limits(root, of, limits)
        return limits

    def use_of(self, root: Holder, of: FlavorResource, used: Mapping[str, int]) -> dict[Holder, int]:
        """Return the use of each holder in the tree, given the use of its cluster queues by name."""
        use: dict[Holder, int] = {}
        self._collect_use(root, of, used, use)
        return use

    def _quota(self, holder: Holder, of: FlavorResource) -> int:
        node = self._nodes[holder]
        own = node.quotas.get(of)
        lent = sum(self._lent(child, of) for child in node.children)
        return lent + (0 if own is None else base_units(of.resource, own.nominal_quota.nanos))

    def _lent(self, holder: Holder, of: FlavorResource) -> int:
        quota, own = self._quota(holder, of), self._nodes[holder].quotas.get(of)
        if own is None or own.lending_limit is None:
            return quota
        return min(quota, base_units(of.resource, own.lending_limit.nanos))

    def _collect_limits(self, holder: Holder, of: FlavorResource, limits: dict[Holder, int]) -> None:
        node = self._nodes[holder]
        own = node.quotas.get(of)
        if node.parent is None:
            limits[holder] = self._quota(holder, of)
        elif own is None and holder.kind == "ClusterQueue":
            limits[holder] = 0  # a queue uses only the flavors that it lists
        elif own is not None and own.borrowing_limit is not None:
            borrowed = base_units(of.resource, own.borrowing_limit.nanos)
            limits[holder] = self._quota(holder, of) + borrowed
        for child in node.children:
            self._collect_limits(child, of, limits)

    def _collect_use(
        self, holder: Holder, of: FlavorResource, used: Mapping[str, int], use: dict[Holder, int]
    ) -> None:
        if holder.kind == "ClusterQueue":
            use[holder] = used.get(holder.name, 0)
            return
        total = 0
        for child in self._nodes[holder].children:
            self._collect_use(child, of, used, use)
            kept = self._quota(child, of) - self._lent(child, of)
            total += max(0, use[child] - kept)
        use[holder] = total


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

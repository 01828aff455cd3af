"""The checks of the action ``enqueue`` in profile ``design``.

The checks run in a fixed order, the cheapest and those that change least often first; the first that fails is
the reason.  Admitted groups are *charged*, so that a later group is checked against what they leave:

    topology ``minResources`` within one HyperNode of the allowed tiers, without any pods
    room     cluster x idle factor - used + releasing - claims of active groups;
             then a node for each member, where its requests are known (``MemberRoom``)
    window   the same beside the nodes that windows of Reservations keep (``WindowRoom``)
    share    the votes of the plugins that speak for queues
    quota    hard - used - quota claims of active groups, for each quota that counts the group

The requests of existing members are in the used amounts and subtracted from the claims.  A group that lacks
room, share or both, and nothing else, is admitted if ``preempt`` or ``reclaim`` would evict enough for it
(``EvictionPlans``).

Source: the design note "Delay Pod Creation", which requires idle resources and quota for ``minResources`` of
each group.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter

from quorate.api.core.quota_scopes import is_counted_by
from quorate.api.meta import Key
from quorate.gang import pending_reasons as r
from quorate.gang.actions.eviction_plans import EvictionPlan, EvictionPlans
from quorate.gang.actions.hyper_node_rooms import check_topology
from quorate.gang.actions.member_room import MemberRoom
from quorate.gang.actions.window_room import WindowRoom
from quorate.gang.cache.bounds import PlannedGroup
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import Queue, with_ancestors
from quorate.gang.cache.reservations import NOTHING, node_claim_of, quota_claim_of, scope_attributes_of
from quorate.gang.namespace_quota.evaluation import QuotaTotals, quota_shortages
from quorate.gang.namespace_quota.quota import NamespaceQuota
from quorate.gang.session.callbacks import Vote
from quorate.gang.session.session import Session
from quorate.gang.shortage import Shortage
from quorate.placement.cluster import Cluster
from quorate.quota.amount import UNLIMITED


class AdmissionChecks:
    """Checks whether pending groups can be admitted, and charges admitted groups."""

    def __init__(self, session: Session, plans: EvictionPlans) -> None:
        self._session = session
        self._plans = plans
        self.plans: dict[Key, EvictionPlan] = {}  # of the groups that have room only after evictions
        self._capacity = _times(session.cluster.total, session.settings.enqueue.idle_factor)
        self._overcommitted = {
            resource: max(0, amount - session.cluster.total[resource])
            for resource, amount in self._capacity.items()
        }
        self._future_idle = _future_idle(session.cluster, self._capacity)
        self._reserved: Counter[str] = Counter()  # the claims of all charged groups
        self._active: Counter[str] = Counter()  # charged groups by queue, those of queues below included
        self._limits_groups = any(queue.max_pod_groups is not UNLIMITED for queue in session.queues.values())
        self._quotas = _QuotaChecks(session)
        self._has_quotas = bool(session.model.quotas)
        self._paths: dict[str, Sequence[Queue]] = {}
        self._members = MemberRoom(session.cluster, session.settings.enqueue.idle_factor)
        self._windows = WindowRoom(session)
        self._has_windows = bool(session.model.reserved_nodes)
        plugins = (entry for tier in session.settings.tiers for entry in tier)
        self._is_hierarchical = any(entry.hierarchy for entry in plugins)

    def charge(self, gang: Gang) -> None:
        """Count ``gang``, which is active, with its claims."""
        if gang.min_resources and (claim := node_claim_of(gang)):
            self._reserved.update(claim)
        if gang.schedulable:  # as for few gangs: most run
            self._plans.charge(gang)
        if self._has_windows:
            self._windows.charge(gang)
        if self._has_quotas:
            self._quotas.charge(gang)
        if self._limits_groups:
            for queue in self._path(gang.queue):
                self._active[queue.name] += 1

    def refusal(self, gang: Gang) -> r.PendingReason | None:
        """Return why ``gang``, which waits, cannot be admitted now: the first check that fails."""
        return (
            self._check_queue(gang)
            or self._check_group_limit(gang)
            or (check_topology(self._session, gang) if gang.topology is not None else None)
            or self._check_amounts(gang, self._quotas.shortage, may_evict=True)
            or self.window_refusal(gang)
        )

    def window_refusal(self, gang: Gang) -> r.ReservedWindow | None:
        """Return the window that keeps too much from ``gang``, which waits.

        None if pods elsewhere are to be evicted for it.
        """
        keeping = () if gang.key in self.plans else self._windows.keeping(gang)
        if not keeping:
            return None
        kept = Counter({name: -amount for name, amount in self._windows.kept(keeping).items()})
        claim, victims = node_claim_of(gang), self._plans.at_most(gang)
        reason = self._windows.refusal(gang, keeping, is_short=bool(self.shortages(claim, kept)))
        if reason is None or not victims:
            return reason
        kept.update(victims)
        return None if not self.shortages(claim, kept) and self._is_freed(gang) else reason

    def shortages_beside(self, gang: Gang, plan: PlannedGroup) -> list[Shortage] | None:
        """Return what ``gang`` lacks beside a planned group, on nodes that no window keeps from it.

        The list is empty if only nodes for all members are missing; None: it lacks nothing.
        """
        keeping = self._windows.keeping(gang)
        kept, within = Counter(plan.kept_total), None
        if keeping:
            within = self._windows.beside(keeping)
            kept.update(self._windows.kept(keeping))
            cluster, nodes = self._session.cluster, self._windows.nodes(keeping)
            kept.subtract({name: int(plan.kept[row, nodes].sum()) for name, row in cluster.rows.items()})
        shortages = self.shortages(node_claim_of(gang), {name: -amount for name, amount in kept.items()})
        factor = self._session.settings.enqueue.idle_factor
        room = MemberRoom(self._session.cluster, factor, -plan.kept, within)
        return None if not shortages and room.check(gang) is None else shortages

    def checks(self, gang: Gang, *, may_evict: bool) -> Mapping[str, r.PendingReason | None]:
        """Return the results of all checks by name, in order.

        A group without ``minResources`` has only two checks.  ``may_evict``: whether the check for room takes
        an eviction plan into account.
        """
        results: dict[str, r.PendingReason | None] = {
            "queue": self._check_queue(gang),
            "pod groups": self._check_group_limit(gang),
        }
        if gang.topology is not None:
            results["topology"] = check_topology(self._session, gang)
        if gang.min_resources is not None:
            results["room"] = self._check_nodes(gang) or self.window_refusal(gang)
            results["share"] = self._check_share(gang)
            results["quota"] = self._quotas.shortage(gang)
            failed = [name for name, reason in results.items() if reason is not None]
            may_free = (
                may_evict and failed and all(self._may_be_freed(gang, results[name]) for name in failed)
            )
            if may_free and self._is_freed(gang):
                results["room"] = results["share"] = None
        return results

    def withdrawal(self, gang: Gang, *, may_evict: bool) -> r.PendingReason | None:
        """Return why ``gang``, which is admitted and has not started, has to be rolled back.

        ``may_evict``: whether it may keep its admission for an eviction plan.  A gang that an action before
        pipelined has its nodes and its share.
        """
        if gang.task_counts.pipelined and self._session.is_pipelined(gang):
            return self._check_queue(gang) or self._quotas.confirmed_shortage(gang)
        return (
            self._check_queue(gang)
            or (check_topology(self._session, gang) if gang.topology is not None else None)
            or self._check_amounts(gang, self._quotas.confirmed_shortage, may_evict=may_evict)
        )

    def _check_amounts(
        self, gang: Gang, check_quota: Callable[[Gang], r.PendingReason | None], *, may_evict: bool
    ) -> r.PendingReason | None:
        if gang.min_resources is None:  # nothing is reserved for it on nodes
            return check_quota(gang)
        short: r.PendingReason | None = self._check_nodes(gang)
        if short is None or self._exceeds_capability(gang):
            short = self._check_share(gang) or short
        if short is None:
            return check_quota(gang)
        if not may_evict or not self._may_be_freed(gang, short) or check_quota(gang):
            return short
        return None if self._is_freed(gang) else short

    def _may_be_freed(self, gang: Gang, short: r.PendingReason | None) -> bool:
        """Return True if evictions may free the room or the share of the queue that ``gang`` is short of.

        This costs no search.
        """
        match short:
            case r.NotEnoughResources() | r.NotEnoughNodes(never_fits=False):
                return not self.shortages(node_claim_of(gang), self._plans.at_most(gang))
            case r.QueueQuotaExceeded(shortages=shortages):
                bound = self._plans.at_most(gang, in_queue=not self._is_hierarchical)
                return all(
                    shortage.needed <= shortage.free + bound.get(shortage.resource, 0)
                    for shortage in shortages
                )
        return False

    def _is_freed(self, gang: Gang) -> bool:
        """Return True if evictions free what ``gang`` needs, and remember the plan.

        The victims also have to make up for idle resources that are reserved for other groups, on the nodes
        and in the queue.
        """
        claim = node_claim_of(gang)

        def suffices(freed: Mapping[str, int]) -> bool:
            return not self.shortages(claim, freed)

        def has_share() -> bool:
            return self._check_share(gang) is None

        if gang.key not in self.plans:
            plan = self._plans.plan(gang, suffices, has_share)
            if plan is None:
                return False
            self.plans[gang.key] = plan
        return True

    def _check_queue(self, gang: Gang) -> r.PendingReason | None:
        queue = self._session.queue_of(gang)
        return self._session.invalid_queue_reason(queue) if queue.is_open else r.QueueNotOpen(gang.queue)

    def _check_group_limit(self, gang: Gang) -> r.QueuePodGroupLimit | None:
        for queue in self._path(gang.queue) if self._limits_groups else ():
            if not self._active[queue.name] < queue.max_pod_groups:
                assert isinstance(queue.max_pod_groups, int), f"{queue.name} is full without a limit"
                return r.QueuePodGroupLimit(queue.name, self._active[queue.name], queue.max_pod_groups)
        return None

    def _path(self, queue: str) -> Sequence[Queue]:
        path = self._paths.get(queue)
        if path is None:
            path = self._paths[queue] = with_ancestors(queue, self._session.queues)
        return path

    def _check_nodes(self, gang: Gang) -> r.NotEnoughResources | r.NotEnoughNodes | None:
        shortages = self.shortages(node_claim_of(gang), NOTHING)
        never_fits = any(shortage.never_fits for shortage in shortages)
        no_nodes = None if never_fits else self._members.check(gang, is_short=bool(shortages))
        if not (shortages or no_nodes) or self._session.is_overdue(gang):
            return None
        return no_nodes or r.NotEnoughResources(tuple(shortages))

    def shortages(self, claim: Mapping[str, int], freed: Mapping[str, int]) -> list[Shortage]:
        """Return what ``claim`` lacks if ``freed`` becomes free beside the victims of earlier plans."""
        shortages = []
        for resource, amount in claim.items():
            idle = self._future_idle.get(resource, 0) - self._reserved[resource]
            free = idle + self._plans.freed[resource] + freed.get(resource, 0)
            if amount > free:
                capacity, beyond = self._capacity.get(resource, 0), self._overcommitted.get(resource, 0)
                shortages.append(Shortage(resource, amount, free, capacity, beyond))
        return sorted(shortages, key=attrgetter("resource")) if len(shortages) > 1 else shortages

    def _exceeds_capability(self, gang: Gang) -> bool:
        """Return True if a queue on the path of ``gang`` never has what it requests, whatever nodes have."""
        requested = gang.min_resources or {}
        return any(
            amount > queue.capability.get(resource, amount)
            for queue in self._path(gang.queue)
            for resource, amount in requested.items()
        )

    def _check_share(self, gang: Gang) -> r.PendingReason | None:
        rejection = self._session.enqueue_rejection(gang)
        return r.QueueQuotaExceeded(gang.queue, ()) if rejection is Vote.REJECT else rejection


def _times(amounts: Mapping[str, int], factor: Fraction) -> dict[str, int]:
    """Return ``factor`` times ``amounts``, rounded down to whole units."""
    return {resource: amount * factor.numerator // factor.denominator for resource, amount in amounts.items()}


def _future_idle(cluster: Cluster, capacity: Mapping[str, int]) -> Mapping[str, int]:
    """Return what all nodes together have idle of ``capacity`` once the releasing pods are gone."""
    used, releasing = cluster.total_used, cluster.total_releasing
    return {
        resource: amount - used.get(resource, 0) + releasing.get(resource, 0)
        for resource, amount in capacity.items()
    }


class _QuotaChecks:
    """The quotas by namespace and what is reserved of them; empty if the check is off."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._quotas: dict[str, list[NamespaceQuota]] = {}  # by namespace
        self._reserved: dict[str, QuotaTotals] = {}
        quotas = session.model.quotas if session.settings.enqueue.check_quota else {}
        for key in sorted(quotas):
            self._quotas.setdefault(key.namespace, []).append(quotas[key])
            self._reserved.setdefault(key.namespace, QuotaTotals())

    def charge(self, gang: Gang) -> None:
        reserved = self._reserved.get(gang.key.namespace)
        if reserved is not None:
            reserved.add(scope_attributes_of(gang), quota_claim_of(gang, self._session.now))

    def shortage(self, gang: Gang) -> r.NamespaceQuotaExceeded | None:
        """Return the shortages of the first quota, by name, that has too little left."""
        return next(self._exceeded(gang, lambda quota: quota.used), None)

    def confirmed_shortage(self, gang: Gang) -> r.NamespaceQuotaExceeded | None:
        """Return the shortage of an admitted gang, by confirmed usage.

        Quotas may be charged already for members that are not known yet.
        """
        now = self._session.now
        exceeded = next(self._exceeded(gang, lambda quota: quota.confirmed_used(now)), None)
        if exceeded is None:
            for quota in self._quotas.get(gang.key.namespace, ()):
                self._session.wake(quota.settles_at(now))
        return exceeded

    def _exceeded(
        self, gang: Gang, used_of: Callable[[NamespaceQuota], Mapping[str, int]]
    ) -> Iterator[r.NamespaceQuotaExceeded]:
        namespace = gang.key.namespace
        quotas = self._quotas.get(namespace)
        if quotas is None:
            return
        claim, attributes = quota_claim_of(gang, self._session.now), scope_attributes_of(gang)
        for quota in quotas:
            if not is_counted_by(quota.spec, attributes):
                continue
            reserved = self._reserved[namespace].of(quota.spec)
            shortages = tuple(
                Shortage(shortage.resource, shortage.requested, shortage.free, shortage.hard)
                for shortage in quota_shortages(quota.hard, used_of(quota), reserved, claim)
            )
            if shortages:
                yield r.NamespaceQuotaExceeded(quota.key.name, shortages)

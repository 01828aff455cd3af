"""What a session can still admit: places in queues, room on nodes, shares, and quota (profile ``design``).

The checks come in a fixed order, the cheapest and least likely to change by itself first, and the first that
fails is the reason.  Groups that are let in, or were before, are *charged*; so whoever is asked later sees
what is left:

    room     cluster x idle factor - used + releasing - claims of active groups, + what preempt could take
    share    what the plugins that speak for queues say
    quota    hard - used - quota claims of active groups, for each quota that counts the group

Members that exist are inside the used amounts and off the claims.  Source: the design note "Delay Pod
Creation", which asks for idle resources and quota for ``minResources`` of each group.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter

from quorate.gang.claims import NOTHING, claim_of, quota_claim_of, subject_of
from quorate.gang.gang import Gang
from quorate.gang.queue import NamespaceQuota, Queue, line_of
from quorate.gang.quota import QuotaSums, is_counted_by, quota_shortages
from quorate.gang.session import Session
from quorate.gang.surplus import Surplus
from quorate.gang.tiers import Vote, everyone
from quorate.gang.verdicts import (
    NamespaceQuotaExceeded,
    NotEnoughResources,
    QueueNotOpen,
    QueuePodGroupLimit,
    QueueQuotaExceeded,
    Shortage,
    Verdict,
)
from quorate.placement.cluster import Cluster


class Admission:
    """See the module.  Nobody is charged yet."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._most = _times(session.cluster.total, session.settings.enqueue.idle_factor)
        self._room = _room(session.cluster, self._most)
        self._reserved: Counter[str] = Counter()  # the claims of all who were charged
        self._active: Counter[str] = Counter()  # how many were charged of each queue and those below it
        self._quotas = _Quotas(session)
        self._paths: dict[str, Sequence[Queue]] = {}
        self._credit = _Credit(session)
        self._overdue = tuple(everyone(session.policies.overdue))

    def charge(self, gang: Gang) -> None:
        """``gang`` is active, and what it claims is reserved for it."""
        claim = claim_of(gang)
        if claim:
            self._reserved.update(claim)
        self._quotas.charge(gang)
        for queue in self._path(gang.queue):
            self._active[queue.name] += 1

    def refusal(self, gang: Gang) -> Verdict | None:
        """Why ``gang``, which waits, cannot be admitted now: the first check that fails."""
        return (
            self._closed(gang) or self._limited(gang) or self._unfounded(gang) or self._quotas.shortage(gang)
        )

    def checks(self, gang: Gang) -> Mapping[str, Verdict | None]:
        """What each check says of ``gang``, in their order; a group that names nothing has only two."""
        found: dict[str, Verdict | None] = {"queue": self._closed(gang), "pod groups": self._limited(gang)}
        if gang.min_resources is not None:
            found["room"] = self._crowded_out(gang)
            found["share"] = self._outvoted(gang)
            found["quota"] = self._quotas.shortage(gang)
        return found

    def withdrawal(self, gang: Gang) -> Verdict | None:
        """Why ``gang``, which is admitted and has not started, cannot stay so."""
        return self._closed(gang) or self._unfounded(gang) or self._quotas.sure_shortage(gang)

    def _unfounded(self, gang: Gang) -> Verdict | None:
        """What is missing for what the group shall be sure of.  One that names nothing is sure of nothing."""
        if gang.min_resources is None:
            return None
        return self._crowded_out(gang) or self._outvoted(gang)

    def _closed(self, gang: Gang) -> QueueNotOpen | None:
        return None if self._session.queues[gang.queue].is_open else QueueNotOpen(gang.queue)

    def _limited(self, gang: Gang) -> QueuePodGroupLimit | None:
        for queue in self._path(gang.queue):
            if not self._active[queue.name] < queue.max_pod_groups:
                assert isinstance(queue.max_pod_groups, int), f"{queue.name} is full without a limit"
                return QueuePodGroupLimit(queue.name, self._active[queue.name], queue.max_pod_groups)
        return None

    def _path(self, queue: str) -> Sequence[Queue]:
        path = self._paths.get(queue)
        if path is None:
            path = self._paths[queue] = line_of(queue, self._session.queues)
        return path

    def _crowded_out(self, gang: Gang) -> NotEnoughResources | None:
        shortages = self._missing(claim_of(gang), NOTHING)
        if not shortages or any(voice(gang) for voice in self._overdue):
            return None
        credit = self._credit.of(gang)
        if credit:
            shortages = self._missing(claim_of(gang), credit)
        return NotEnoughResources(tuple(shortages)) if shortages else None

    def _missing(self, claim: Mapping[str, int], credit: Mapping[str, int]) -> list[Shortage]:
        missing = []
        for resource, amount in claim.items():
            free = self._room.get(resource, 0) - self._reserved[resource] + credit.get(resource, 0)
            if amount > free:
                missing.append(Shortage(resource, amount, free, self._most.get(resource, 0)))
        return sorted(missing, key=attrgetter("resource")) if len(missing) > 1 else missing

    def _outvoted(self, gang: Gang) -> Verdict | None:
        found = self._session.objection_to(gang)
        return QueueQuotaExceeded(gang.queue, ()) if found is Vote.REJECT else found


def _times(amounts: Mapping[str, int], factor: Fraction) -> dict[str, int]:
    """Cut to whole units: what is compared with it is whole."""
    return {resource: amount * factor.numerator // factor.denominator for resource, amount in amounts.items()}


def _room(cluster: Cluster, most: Mapping[str, int]) -> Mapping[str, int]:
    """What is idle on all nodes together, if they had ``most``, once all who leave have left."""
    used, releasing = cluster.total_used, cluster.total_releasing
    return {
        resource: amount - used.get(resource, 0) + releasing.get(resource, 0)
        for resource, amount in most.items()
    }


class _Credit:
    """What preempt could take for a gang; the same for all equally important ones of a queue that wait."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._surplus: Surplus | None = None
        self._known: dict[tuple[str, int], Mapping[str, int]] = {}

    def of(self, gang: Gang) -> Mapping[str, int]:
        """``gang`` has no running members: nothing of its own is among it."""
        if self._surplus is None:
            self._surplus = Surplus(self._session)
        key = (gang.queue, gang.priority)
        if key not in self._known:
            self._known[key] = self._surplus.for_gang(gang)
        return self._known[key]


class _Quotas:
    """The quotas of all namespaces, and what is reserved of them; none if they are not to be looked at."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of: dict[str, list[NamespaceQuota]] = {}
        self._reserved: dict[str, QuotaSums] = {}
        quotas = session.model.quotas if session.settings.enqueue.check_quota else {}
        for key in sorted(quotas):
            self._of.setdefault(key.namespace, []).append(quotas[key])
            self._reserved.setdefault(key.namespace, QuotaSums())

    def charge(self, gang: Gang) -> None:
        reserved = self._reserved.get(gang.key.namespace)
        if reserved is not None:
            reserved.add(subject_of(gang), quota_claim_of(gang))

    def shortage(self, gang: Gang) -> NamespaceQuotaExceeded | None:
        """Of the first quota, by name, that has too little left."""
        return next(self._exceeded(gang, lambda quota: quota.used), None)

    def sure_shortage(self, gang: Gang) -> NamespaceQuotaExceeded | None:
        """The same for who is admitted: its own members may be charged already and not be seen yet."""
        now = self._session.now
        found = next(self._exceeded(gang, lambda quota: quota.surely_used(now)), None)
        if found is None:
            for quota in self._of.get(gang.key.namespace, ()):
                self._session.wake(quota.settles_at(now))
        return found

    def _exceeded(
        self, gang: Gang, used_of: Callable[[NamespaceQuota], Mapping[str, int]]
    ) -> Iterator[NamespaceQuotaExceeded]:
        namespace = gang.key.namespace
        quotas = self._of.get(namespace)
        if quotas is None:
            return
        claim, subject = quota_claim_of(gang), subject_of(gang)
        for quota in quotas:
            if not is_counted_by(quota.spec, subject):
                continue
            reserved = self._reserved[namespace].of(quota.spec)
            shortages = tuple(
                Shortage(short.resource, short.wanted, short.free, short.hard)
                for short in quota_shortages(quota.hard, used_of(quota), reserved, claim)
            )
            if shortages:
                yield NamespaceQuotaExceeded(quota.key.name, shortages)

"""The HyperNodes that a gang with a ``networkTopology`` may use, and those where evictions make room for it.

The members of a gang with a hard limit must be within one HyperNode, so pods are evicted for it in one only.
It is the first of those where all members would have room without all possible victims: the
one where fewest members lack room now, then the lowest tier, then the first by name.

Source: Volcano's action gangpreempt, which tries eight HyperNodes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from quorate.gang.actions.room_without_victims import free_beside, room_by_node
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.sub_groups import TierLimit
from quorate.gang.cache.task import ALLOCATED_STATUSES, Task, TaskStatus
from quorate.gang.outcome import EvictionAction
from quorate.gang.pending_reasons import PendingReason
from quorate.gang.session.session import Session
from quorate.gang.topology_reasons import HyperNodesTooSmall, NoSuchTier
from quorate.placement.framework import Capacity
from quorate.placement.hyper_nodes.domains import Domain, DomainSearch, PodGroupRoom
from quorate.placement.hyper_nodes.index import LABEL_TIER
from quorate.placement.hyper_nodes.part_finder import LimitedNodeFinder
from quorate.placement.node_finder import NodeFinder
from quorate.placement.vectors import Mask, Matrix, np
from quorate.quota.amount import PODS

# HyperNodes tried for one gang or sub group in one session.  One that has room by amounts nearly always takes
# the pods, unless they constrain each other.
MAX_TRIALS: Final = 64
MAX_EVICTION_TRIALS: Final = 16  # each costs about as much as the search for victims on as many nodes

_HOLDING: Final = ALLOCATED_STATUSES | {TaskStatus.PIPELINED}


def hard_limit(gang: Gang) -> TierLimit | None:
    """Return the hard limit of all members of ``gang``; None if it has none."""
    limit = None if gang.topology is None else gang.topology.limit
    return limit if limit is not None and limit.is_hard else None


def may_have_victims(session: Session, gang: Gang, action: EvictionAction) -> bool:
    """Return False if nothing is evicted for ``gang`` by ``action`` because of its ``networkTopology``.

    That is so for limits of sub groups, each of which would need a HyperNode of its own, and as in Volcano
    for its action preempt (profile ``compat``), except by the name gangpreempt.
    """
    if gang.topology is None or not gang.topology.limits:
        return True
    settings = session.settings
    is_of_all = hard_limit(gang) is not None and len(gang.topology.limits) == 1
    return is_of_all and (
        session.rules.preempts_in_hyper_nodes or action == "reclaim" or settings.preempt.only_lower_gangs
    )


def is_pipelined(session: Session, gang: Gang) -> bool:
    """Return True if ``gang`` may keep its nodes until it is ready.

    A gang with a hard limit needs its minimum without the plugin gang, too: no other HyperNode is tried.
    """
    return session.is_pipelined(gang) and not (gang.is_starving and hard_limit(gang) is not None)


def gang_room(session: Session, gang: Gang, tasks: Iterable[Task]) -> PodGroupRoom:
    """Return the room for ``tasks``, the members of ``gang`` that have no node yet."""
    counts = gang.task_counts
    needed = max(1, gang.min_member - counts.ready - counts.pipelined)
    return room_of(session, tasks, gang.tasks.values(), needed)


def room_of(session: Session, tasks: Iterable[Task], members: Iterable[Task], needed: int) -> PodGroupRoom:
    """Return the room for ``tasks`` beside the ``members`` that have nodes."""
    cluster = session.cluster
    names = {task.node for task in members if task.node and task.status in _HOLDING}
    placed = sorted(index for name in names if (index := cluster.index(name)) is not None)
    return PodGroupRoom(Counter(task.shape for task in tasks), needed, np.array(placed, np.int64))


def domains_with_room(
    search: DomainSearch, limit: TierLimit, room: PodGroupRoom, within: Mask | None
) -> Iterator[Domain]:
    """Yield the HyperNodes that ``limit`` allows and that have room, best first, up to ``MAX_TRIALS``."""
    highest = highest_tier(search, limit)
    if highest is None and limit.is_hard:
        return iter(())
    return islice(search.domains(room, highest, within), MAX_TRIALS)


def finders_after_evictions(
    session: Session, gang: Gang, victim_nodes: Collection[str], freed: Matrix | None
) -> Iterator[NodeFinder | LimitedNodeFinder]:
    """Yield finders for the nodes of each HyperNode where ``gang`` may have room after evictions, best first.

    A gang without a hard limit gets one finder for all nodes. ``victim_nodes`` are the nodes of possible
    victims, and ``freed`` the amounts of these victims, see ``amounts_of``.
    """
    limit = hard_limit(gang)
    if limit is None:
        yield session.node_finder
        return
    search, cluster = session.domain_search_for(limit), session.cluster
    highest = highest_tier(search, limit)
    if highest is None or not victim_nodes:
        return
    evictable = np.zeros(cluster.size, np.bool_)
    evictable[[index for name in victim_nodes if (index := cluster.index(name)) is not None]] = True
    room, free = gang_room(session, gang, gang.schedulable.values()), free_beside(cluster, freed)
    rooms = {
        shape: np.where(
            evictable,
            room_by_node(session, free, shape),
            session.node_finder.ranking(shape).room(Capacity.FUTURE_IDLE),
        )
        for shape in room.pods
    }
    for domain in islice(search.domains_without(rooms, room, highest), MAX_EVICTION_TRIALS):
        yield LimitedNodeFinder(session.node_finder, domain.nodes)


def check_topology(session: Session, gang: Gang) -> PendingReason | None:
    """Return why no HyperNode that ``gang`` may use can hold it, even without pods; None if one can.

    Before its members exist only its ``minResources`` are known.
    """
    topology = gang.topology
    search = session.domain_search
    for limit in () if topology is None else topology.limits:
        highest = highest_tier(search, limit)
        lowest = next(iter(search.index.tiers), None)
        if highest is None or lowest is None or lowest.number > highest:
            return NoSuchTier(str(limit))
    if topology is None or topology.limit is None or not topology.limit.is_hard:
        return None
    highest = highest_tier(search, topology.limit)
    assert highest is not None, f"{topology.limit} was resolved before"
    for resource, amount in sorted((gang.min_resources or {}).items()):
        if amount > 0 and resource != PODS:
            hyper_nodes, best, most = search.largest_amount(resource, highest)
            if most < amount:
                return HyperNodesTooSmall(str(topology.limit), resource, amount, hyper_nodes, best, most)
    return None


def highest_tier(search: DomainSearch, limit: TierLimit) -> int | None:
    """Return the highest tier that ``limit`` allows; None: every tier, or with a hard limit none."""
    if limit.label is not None:
        return LABEL_TIER
    return limit.tier if limit.tier_name is None else search.index.tier_named(limit.tier_name)

"""Which workloads a window evicts that begins with ``atStart: Evict``, and what conflicts with a window.

Of the workloads that use reserved amounts only as many are evicted as these need, the last of the queue order
first.  Of those with places on reserved nodes all are.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from quorate.api.core.scheduling import Node
from quorate.api.kueue import Workload
from quorate.api.quorate.occurrences import Interval
from quorate.queueing.cluster_queue import Reservation
from quorate.queueing.ledger import Ledger
from quorate.queueing.scheduling.reserved_windows import ReservedWindows
from quorate.queueing.windows import Window
from quorate.quota.amount import as_quantity


def evicts_at(window: Window, now: float) -> float | None:
    """Return when an open window evicts workloads, which is after its notice; None if it evicts none."""
    current = window.occurrences(now)[:1]
    if window.spec.at_start != "Evict" or not current or current[0].opens > now:
        return None
    return current[0].opens + window.spec.notice_seconds


def workloads_to_evict(ledger: Ledger, window: Window) -> tuple[Workload, ...]:
    """Return the workloads that an open window needs evicted; none belongs to an owner of the window."""
    victims: dict[str, Workload] = {}
    for reservation in (*_on_nodes(ledger, window), *_beyond_amounts(ledger, window)):
        victims[str(reservation.key)] = reservation.workload
    return tuple(victims.values())


def _evictable(reservation: Reservation, window: Window) -> bool:
    return (
        not window.owns(reservation.local_queue, reservation.admission.cluster_queue)
        and reservation.admitted
        and not reservation.evicted
        and reservation.assumed is None
        and reservation.is_readable
    )


def _on_nodes(ledger: Ledger, window: Window) -> Iterator[Reservation]:
    model = ledger.topology
    hosts = frozenset(map(model.host_name, ledger.windows.nodes_of(window, model.nodes)))
    if not hosts:
        return
    for reservation in ledger.reservations.values():
        if _evictable(reservation, window) and any(
            place.on_host and place.values[-1] in hosts for place in reservation.places.all
        ):
            yield reservation


def _beyond_amounts(ledger: Ledger, window: Window) -> Iterator[Reservation]:
    windows = ReservedWindows(ledger)
    pool = windows.pool(window)
    holding = [
        reservation
        for root in pool
        for queue in ledger.queues_below(root)
        for reservation in queue.reservations.values()
        if not reservation.evicted
    ]
    victims = sorted(
        (reservation for reservation in holding if _evictable(reservation, window)),
        key=lambda reservation: reservation.order,
        reverse=True,
    )
    gone: set[str] = set()
    for pair, amount in sorted(window.amounts.items()):
        own = held = 0
        for reservation in holding:
            used = reservation.usage.get(pair, 0)
            held += used if str(reservation.key) not in gone else 0
            own += used if window.owns(reservation.local_queue, reservation.admission.cluster_queue) else 0
        beyond = held + max(0, amount - own) - windows.total(pool, pair)
        for reservation in victims:
            used = reservation.usage.get(pair, 0)
            if beyond > 0 and used and str(reservation.key) not in gone:
                gone.add(str(reservation.key))
                beyond -= used
                yield reservation


def find_conflicts(ledger: Ledger, window: Window, now: float) -> tuple[str, ...]:
    """Return why a window cannot be kept, a sentence each: missing queues, too much, the same nodes."""
    windows = ReservedWindows(ledger)
    pool = windows.pool(window)
    conflicts = [
        f"cluster queue {name} does not exist"
        for name in window.spec.owners.cluster_queues
        if name not in ledger.cluster_queues
    ]
    current = window.occurrences(now)
    rivals = [
        rival for rival in ledger.windows if rival is not window and _overlap(current, rival.occurrences(now))
    ]
    for pair, amount in sorted(window.amounts.items()):
        beside = [rival for rival in rivals if pair in rival.amounts and windows.pool(rival) & pool]
        total = windows.total(pool, pair)
        wanted = amount + sum(rival.amounts[pair] for rival in beside)
        if wanted > total:
            names = ", ".join((window.name, *sorted(rival.name for rival in beside)))
            verb, owners = ("reserve", "their owners") if beside else ("reserves", "its owners")
            reserved_amount, of_owners = (as_quantity(pair.resource, number) for number in (wanted, total))
            conflicts.append(
                f"{pair.resource} in flavor {pair.flavor}: {names} {verb} {reserved_amount}, "
                f"and the queues of {owners} have {of_owners}"
            )
    nodes = ledger.topology.nodes
    reserved = ledger.windows.nodes_of(window, nodes)
    conflicts += _missing_nodes(window, reserved, nodes)
    conflicts += [
        f"{rival.name} reserves {len(shared)} of its nodes, such as {min(shared)}"
        for rival in sorted(rivals, key=lambda rival: rival.name)
        if (shared := reserved & ledger.windows.nodes_of(rival, nodes))
    ]
    return tuple(conflicts)


def _missing_nodes(window: Window, reserved: frozenset[str], nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield which nodes of a window do not exist, if the model has nodes: without topologies it has none."""
    if window.spec.nodes is None or not nodes:
        return
    wanted, absent = window.spec.nodes.count, sorted(reserved - nodes.keys())
    if absent:
        more = f", nor {len(absent) - 1} more" if absent[1:] else ""
        yield f"node {absent[0]} does not exist{more}"
    elif wanted is not None and len(reserved) < wanted:
        yield f"{len(reserved)} of {wanted} nodes exist"
    elif not reserved:
        yield "no node has the labels"


def _overlap(one: tuple[Interval, ...], other: tuple[Interval, ...]) -> bool:
    """Return True if an interval of the first list overlaps an interval of the second list.

    The intervals within one list do not overlap each other.
    """
    return any(first.closes > second.opens for first, second in pairwise(sorted((*one, *other))))

"""The planned start in an explanation: its time, the bounds behind it, and why it has moved."""

import math
from datetime import datetime, timedelta

from quorate.api.explanation import PlannedStart
from quorate.api.kueue import Workload
from quorate.api.meta import Key, at_epoch
from quorate.queueing.planning.announced_starts import AnnouncedStart, stored_announcement
from quorate.queueing.scheduling import timeline
from quorate.queueing.scheduling.planned_starts import PlannedStarts
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import as_quantity


def planned_start_of(state: State, workload: Workload) -> PlannedStart | None:
    """Return the planned start of a pending workload as it is announced, or as a dry run computes it.

    None if its start is not planned.
    """
    announced, plan = stored_announcement(workload), planned_start(state, workload.metadata.key)
    if plan is None and announced is None:
        return None
    needs: tuple[str, ...] = ()
    if plan is not None:
        node = state.ledger.cluster_queues[plan.entry.cluster_queue].node
        needs = tuple(
            f"{as_quantity(pair.resource, amount)} of "
            f"{as_quantity(pair.resource, tree.potential_available(node, pair))} {pair.resource}"
            for pair, amount in sorted(plan.assignment.usage.items())
        )
        announced = announced or AnnouncedStart(
            plan.latest, plan.origin, plan.ended, state.ledger.now, plan.at
        )
    assert announced is not None, "without a plan it is announced"
    return of_announcement(announced, needs, state.ledger.now)


def of_announcement(announced: AnnouncedStart, needs: tuple[str, ...], now: float) -> PlannedStart:
    """Return an announced start with its sentence; ``now`` in epoch seconds."""
    at = at_epoch(announced.at) if math.isfinite(announced.at) else None
    last = announced.revisions[-1] if announced.revisions else None
    was = at_epoch(last.at) if last is not None and math.isfinite(last.at) else None
    return PlannedStart(
        at=at,
        origin=announced.origin,
        needs=needs,
        ends_before=announced.ended,
        was=was,
        cause=last.reason if last is not None else "",
        text=_text(announced, needs, at, was, at_epoch(now)),
    )


def _text(
    announced: AnnouncedStart,
    needs: tuple[str, ...],
    at: datetime | None,
    was: datetime | None,
    now: datetime,
) -> str:
    workloads = f"{announced.ended} workload{'' if announced.ended == 1 else 's'}"
    parts = [f"needs {' and '.join(needs)}"] if needs else []
    if at is None:
        head = "planned start at a time that is not known"
        parts.append(f"{workloads} must end before it, some without a bound")
    else:
        head = f"planned start {_clock(at, now)} ({announced.origin.lower()})"
        parts.append(f"{workloads} before it end{'s' if announced.ended == 1 else ''} by then")
    text = ", ".join([head, *parts])
    if announced.revisions:
        former = "at a time that was not known" if was is None else _clock(was, now)
        text += f"; was {former}, moved because {announced.revisions[-1].text}"
    return text


def _clock(moment: datetime, now: datetime) -> str:
    """Return the time of the day, with the date unless the moment is within a day."""
    near = abs(moment - now) < timedelta(days=1)
    return f"{moment:%H:%M:%S} UTC" if near else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def planned_start(state: State, key: Key) -> timeline.PlannedStart | None:
    """Return the planned start of a pending workload; None if it has none."""
    entry = state.ledger.entries.get(key)
    if entry is None or entry not in state.ledger.planned.get(entry.cluster_queue, ()):
        return None
    queue = state.ledger.cluster_queues[entry.cluster_queue]
    plans = PlannedStarts(state).of_queue(queue, state.ledger.now)
    return next((plan for plan in plans if plan.entry is entry), None)

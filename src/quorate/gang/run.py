"""One session from opening to close."""

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.api.scheduler_configuration import PluginEntry, SchedulerConfiguration
from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    ExtensionPoint,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.gang.actions import ACTIONS
from quorate.gang.awaiting import note_awaited
from quorate.gang.closing import statuses_of
from quorate.gang.model import Model
from quorate.gang.outcome import Outcome
from quorate.gang.plugins import PLUGINS
from quorate.gang.policy import Policies, Policy
from quorate.gang.repair import give_up_partial
from quorate.gang.session import Session
from quorate.gang.stopwatch import UNTIMED, Stopwatch
from quorate.gang.tiers import everyone
from quorate.placement.scoring import Scoring

# The points of ``Policy`` that a switch of the configuration turns off; the other switches have none here.
POINTS: Final[Mapping[ExtensionPoint, tuple[str, ...]]] = {
    "JobOrder": ("gang_rank",),
    "JobReady": ("ready",),
    "JobPipelined": ("promised",),
    "JobEnqueued": ("admits", "admitted", "withdrawn", "overdue"),
    "JobStarving": ("starving",),
    "TaskOrder": ("task_rank",),
    "QueueOrder": ("queue_rank", "victim_queue_rank"),
    "Preemptable": ("preemptable", "unpreemptable"),
    "Reclaimable": ("reclaimable", "unreclaimable"),
    "Preemptive": ("claims",),
    "Overused": ("overused",),
    "Allocatable": ("allocatable", "fillable"),
    "Predicate": ("predicates",),
    "NodeOrder": ("scores",),
}

_NONE: Final = PredicateArguments(
    node_unschedulable=False,
    node_affinity=False,
    node_ports=False,
    taint_toleration=False,
    pod_affinity=False,
    node_volume_limits=False,
    volume_zone=False,
    volume_binding=False,
    pod_topology_spread=False,
)


def run_session(
    model: Model, settings: SchedulerConfiguration, now: float, stopwatch: Stopwatch = UNTIMED
) -> Outcome:
    """Run the configured actions over ``model`` at ``now`` (seconds since the epoch).

    Leaves the model as it was, but for what the outcome has the shell write: that is assumed.
    """
    session = open_session(model, settings, now, stopwatch)
    for action in settings.actions:
        stopwatch.begins("action", action)
        ACTIONS[action](session)
    stopwatch.begins("closing")
    give_up_partial(session)
    note_awaited(session)
    statuses = statuses_of(session)
    for status in statuses:
        model.assume_status(status)
    outcome = Outcome(
        binds=tuple(session.binds),
        evictions=tuple(session.evictions),
        nominations=tuple(session.nominations),
        promised=session.promised,
        statuses=statuses,
        notices=tuple(session.notices),
        admitted=tuple(session.admitted),
        refused=tuple(session.refused),
        sent_back=tuple(session.sent_back),
        verdicts=dict(session.verdicts),
        wake_at=session.wake_at,
    )
    session.release_held()
    return outcome


def open_session(
    model: Model, settings: SchedulerConfiguration, now: float, stopwatch: Stopwatch = UNTIMED
) -> Session:
    """A session whose plugins have looked at it, before any action."""
    stopwatch.begins("opening")
    model.refresh_shapes()
    session = Session(model, settings, now)
    session.policies = _policies(session, settings.tiers, stopwatch)
    stopwatch.begins("opening")
    session.node_finder = model.node_finder(_predicates(session.policies), _scoring(session.policies))
    return session


def _predicates(policies: Policies) -> PredicateArguments:
    return next(iter(everyone(policies.predicates)), _NONE)


def _scoring(policies: Policies) -> Scoring:
    voices = list(everyone(policies.scores))
    return Scoring(
        node_order=next((voice for voice in voices if isinstance(voice, NodeOrderArguments)), None),
        binpack=next((voice for voice in voices if isinstance(voice, BinpackArguments)), None),
    )


def _policies(session: Session, tiers: Sequence[Sequence[PluginEntry]], stopwatch: Stopwatch) -> Policies:
    return Policies([[_policy(session, entry, stopwatch) for entry in tier] for tier in tiers])


def _policy(session: Session, entry: PluginEntry, stopwatch: Stopwatch) -> Policy:
    stopwatch.begins("plugin", entry.name)
    disabled = [point for switch in sorted(entry.disabled) for point in POINTS.get(switch, ())]
    return PLUGINS[entry.name](session, entry).without(disabled)

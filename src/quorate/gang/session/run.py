"""One session from opening to close."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from quorate.api.core.scheduling import Node, Pod
from quorate.api.scheduler_configuration import PluginEntry, SchedulerConfiguration
from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    ExtensionPoint,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.gang.actions import ACTIONS
from quorate.gang.actions.repair import evict_partial_gangs
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.task import Task
from quorate.gang.job_status import job_statuses, report_pipelined
from quorate.gang.outcome import Outcome
from quorate.gang.plugins import PLUGINS
from quorate.gang.session.callbacks import PluginCallbacks, SessionCallbacks, all_callbacks
from quorate.gang.session.session import Session
from quorate.placement.scoring import Scoring

# The extension points that each switch of the configuration turns off.  Other switches have none here.
EXTENSION_POINTS: Final[Mapping[ExtensionPoint, tuple[str, ...]]] = {
    "JobOrder": ("job_order",),
    "JobReady": ("job_ready",),
    "JobPipelined": ("job_pipelined",),
    "JobEnqueued": ("job_enqueueable", "job_enqueued", "job_dequeued", "job_overdue"),
    "JobStarving": ("job_starving",),
    "TaskOrder": ("task_order",),
    "QueueOrder": ("queue_order", "victim_queue_order"),
    "Preemptable": ("preemptable", "not_preemptable"),
    "Reclaimable": ("reclaimable", "not_reclaimable"),
    "Preemptive": ("preemptive",),
    "Overused": ("overused",),
    "Allocatable": ("allocatable", "backfillable"),
    "Predicate": ("predicates",),
    "NodeOrder": ("node_order",),
}

_NO_PREDICATES: Final = PredicateArguments(
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

_SUBJECTS: Final = ("task", "gang", "pod", "node")  # variables of what is evaluated, in all of this package

SessionPart = Literal["opening", "plugin", "action", "closing"]


class Stopwatch:
    """Where the time of a session goes: the core reads no clock, but an implementation may.

    The order of parts is: opening, each plugin by name, opening again, each action by name, closing.
    """

    def begin(self, part: SessionPart, name: str = "") -> None:
        """Note that ``part`` begins and the part before ends.  ``name``: of the plugin or action."""


NO_STOPWATCH: Final = Stopwatch()


class SessionFailed(Exception):
    """A session raised an exception and was undone.

    ``subject`` is the gang, pod or node that it evaluated; None: unknown.
    """

    def __init__(self, subject: Gang | Pod | Node | None, error: Exception) -> None:
        super().__init__(subject, error)
        self.subject, self.error = subject, error


def run_session(
    model: Model, settings: SchedulerConfiguration, now: float, stopwatch: Stopwatch = NO_STOPWATCH
) -> Outcome:
    """Run the configured actions over ``model`` at ``now`` (seconds since the epoch).

    The model is unchanged afterwards, except that it assumes the writes in the outcome.  Raises
    ``SessionFailed``, after which the model is unchanged.
    """
    session: Session | None = None
    try:
        session = open_session(model, settings, now, stopwatch)
        return _run(session, settings, stopwatch)
    except Exception as error:
        if session is not None:
            session.undo()
        raise SessionFailed(_subject_of(error, model), error) from error


def _subject_of(error: Exception, model: Model) -> Gang | Pod | Node | None:
    """Return the gang that the innermost frame with a gang evaluates, else the pod, else the node.

    The traceback tells it for every action and plugin; none has to record what it evaluates.  A node comes
    last: a gang may raise on every node.
    """
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    found = [variables.get(name) for variables in reversed(frames) for name in _SUBJECTS]
    for each in found:
        if isinstance(each, Task) and each.gang in model.gangs:
            return model.gangs[each.gang]
        if isinstance(each, Gang):
            return each
    return next((each for kind in (Pod, Node) for each in found if isinstance(each, kind)), None)


def _run(session: Session, settings: SchedulerConfiguration, stopwatch: Stopwatch) -> Outcome:
    model = session.model
    for action in settings.actions:
        stopwatch.begin("action", action)
        ACTIONS[action](session)
    stopwatch.begin("closing")
    evict_partial_gangs(session)
    report_pipelined(session)
    statuses = job_statuses(session)
    for status in statuses:
        model.assume_status(status)
    outcome = Outcome(
        binds=tuple(session.binds),
        evictions=tuple(session.evictions),
        nominations=tuple(session.nominations),
        pipelined=session.pipelined,
        statuses=statuses,
        events=tuple(session.events),
        admitted=tuple(session.admitted),
        refused=tuple(session.refused),
        rolled_back=tuple(session.rolled_back),
        pending_reasons=dict(session.pending_reasons),
        wake_at=session.wake_at,
    )
    session.release_held()
    return outcome


def open_session(
    model: Model, settings: SchedulerConfiguration, now: float, stopwatch: Stopwatch = NO_STOPWATCH
) -> Session:
    """Return a session with the callbacks of its plugins, before any action."""
    stopwatch.begin("opening")
    model.refresh_shapes()
    session = Session(model, settings, now)
    session.callbacks = _open_plugins(session, settings.tiers, stopwatch)
    stopwatch.begin("opening")
    session.node_finder = model.node_finder(_predicates(session.callbacks), _scoring(session.callbacks))
    return session


def _open_plugins(
    session: Session, tiers: Sequence[Sequence[PluginEntry]], stopwatch: Stopwatch
) -> SessionCallbacks:
    return SessionCallbacks([[_open_plugin(session, entry, stopwatch) for entry in tier] for tier in tiers])


def _open_plugin(session: Session, entry: PluginEntry, stopwatch: Stopwatch) -> PluginCallbacks:
    stopwatch.begin("plugin", entry.name)
    disabled = [point for switch in sorted(entry.disabled) for point in EXTENSION_POINTS.get(switch, ())]
    return PLUGINS[entry.name](session, entry).without(disabled)


def _predicates(callbacks: SessionCallbacks) -> PredicateArguments:
    return next(iter(all_callbacks(callbacks.predicates)), _NO_PREDICATES)


def _scoring(callbacks: SessionCallbacks) -> Scoring:
    arguments = list(all_callbacks(callbacks.node_order))
    return Scoring(
        node_order=next((each for each in arguments if isinstance(each, NodeOrderArguments)), None),
        binpack=next((each for each in arguments if isinstance(each, BinpackArguments)), None),
    )

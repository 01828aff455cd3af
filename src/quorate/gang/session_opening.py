"""The opening of a session: its plugins with their callbacks, and the nodes as the plugins configure them."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from quorate.api.scheduler_configuration import PluginEntry, SchedulerConfiguration
from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    ExtensionPoint,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.gang.cache.model import Model
from quorate.gang.job_status import renew_lost_groups
from quorate.gang.plugins import PLUGINS
from quorate.gang.plugins.nodegroup import node_group_rules
from quorate.gang.session.callbacks import PluginCallbacks, SessionCallbacks
from quorate.gang.session.session import Session
from quorate.placement.scoring import Scoring

# The extension points that each switch of the configuration turns off.  Other switches have none here.
EXTENSION_POINTS: Final[Mapping[ExtensionPoint, tuple[str, ...]]] = {
    "JobOrder": ("job_order",),
    "JobReady": ("job_ready",),
    "JobPipelined": ("job_pipelined",),
    "JobEnqueued": ("job_enqueueable", "job_enqueued", "job_dequeued", "accounts_renewed", "job_overdue"),
    "JobStarving": ("job_starving",),
    "TaskOrder": ("task_order",),
    "QueueOrder": ("queue_order", "admission_order", "victim_queue_order"),
    "Preemptable": ("preemptable", "not_preemptable"),
    "Reclaimable": ("reclaimable", "beyond_share", "not_reclaimable"),
    "Preemptive": ("preemptive", "reclaims_back"),
    "Overused": ("overused",),
    "Allocatable": ("allocatable", "backfillable"),
    "Predicate": ("predicates",),
    "NodeOrder": ("node_order",),
    "HyperNodeOrder": ("hyper_node_order",),
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

SessionPart = Literal["opening", "plugin", "action", "closing"]


class Stopwatch:
    """Where the time of a session goes: the core reads no clock, but an implementation may.

    The order of parts is: opening, each plugin by name, opening again, each action by name, closing.
    """

    def begin(self, part: SessionPart, name: str = "") -> None:
        """Note that ``part`` begins and the part before ends.  ``name``: of the plugin or action."""


NO_STOPWATCH: Final = Stopwatch()


def open_session(
    model: Model, settings: SchedulerConfiguration, now: float, stopwatch: Stopwatch = NO_STOPWATCH
) -> Session:
    """Return a session with the callbacks of its plugins, before any action."""
    stopwatch.begin("opening")
    entries = (entry for tier in settings.tiers for entry in tier)
    model.set_node_groups(node_group_rules(model.queues, entries))
    model.refresh_shapes()
    if model.reserved_nodes.advance(now):
        model.note_change()
    session = Session(model, settings, now)
    session.wake(model.reserved_nodes.next_boundary)
    renew_lost_groups(session)
    session.hold_suspended_gangs()  # before plugins count what is reserved for gangs that are Inqueue
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
    return next(iter(callbacks.predicates), _NO_PREDICATES)


def _scoring(callbacks: SessionCallbacks) -> Scoring:
    arguments = callbacks.node_order
    return Scoring(
        node_order=next(
            (argument for argument in arguments if isinstance(argument, NodeOrderArguments)), None
        ),
        binpack=next((argument for argument in arguments if isinstance(argument, BinpackArguments)), None),
    )

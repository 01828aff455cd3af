"""Placements of gangs that fail, found without a trial.

A placement that fails is undone: the nodes and queues are then as before the trial.  The result of the trial
holds for every later gang for which the same trial would be made, until the first move that stays.  So a
queue of hopeless gangs costs one trial for each kind of gang in it, and not one for each gang.  A gang of
equal members, some of which had nodes in a trial of the last session, needs none if fewer fit than it needs.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from quorate.gang.actions.held_room import is_nominated
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskCounts
from quorate.gang.pending_reasons import GangUnschedulable, PendingReason
from quorate.gang.session.callbacks import all_callbacks
from quorate.gang.session.session import Session
from quorate.placement.change_log import ChangeLog
from quorate.placement.colocation import requires_affinity
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.resources import Amounts
from quorate.placement.shapes import Shape


class UsageVersion:
    """A number for the state of the nodes: two states of a session with one number are equal."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._end = log.end
        self._current = self._last = 0

    @property
    def current(self) -> int:
        if self._end != self._log.end:
            self._end = self._log.end
            self._current = self._last = self._last + 1
        return self._current

    def restored(self, version: int) -> None:
        """Note that all moves since ``version`` were undone."""
        self._end = self._log.end
        self._current = version


class UnschedulableShapes:
    """The shapes that no node takes, by the state of the nodes."""

    def __init__(self, version: UsageVersion) -> None:
        self._version = version
        self._results: dict[tuple[Shape, int], Diagnosis] = {}

    def of(self, shape: Shape) -> Diagnosis | None:
        return self._results.get((shape, self._version.current))

    def add(self, shape: Shape, result: Diagnosis) -> None:
        self._results[shape, self._version.current] = result


@dataclass(frozen=True, slots=True)
class RefusedPlacement:
    """How the trial ended."""

    placed: int  # members that had nodes before one found none
    failed_shapes: Mapping[Shape, Diagnosis]  # shapes without a node, in the order found
    # The request of the first member that the queue may not allocate, and with those placed before it.
    by_queue: tuple[Amounts, Amounts] | None = None
    short_of_parts: int = 0  # ``Gang.short_of_parts`` then, of a gang of several shapes


class RefusedPlacements:
    """The refused placements of a session."""

    def __init__(self, session: Session, version: UsageVersion) -> None:
        self._session = session
        self._version = version
        self._by_shape: dict[Hashable, RefusedPlacement] = {}  # of gangs with one shape
        self._by_tasks: dict[Hashable, RefusedPlacement] = {}

    def of_shape(self, gang: Gang) -> RefusedPlacement | None:
        """Return how the placement of ``gang``, a gang of equal members, is known to fail; else None.

        Members of equal shapes get the same nodes, whatever their gang, one by one until no node is left.  So
        a gang fails if it misses no fewer members than a gang that failed.
        """
        fitted_in_part = _fitted_in_part(gang)
        if not self._by_shape and not fitted_in_part:
            return None
        key = self._shape_key(gang)
        if key is None:
            return None
        refused = self._by_shape.get(key)
        if refused is None and fitted_in_part:
            refused = self._by_count(gang)
            if refused is not None:
                self._by_shape[key] = refused
        needed = min(_missing(gang), gang.shapes.total())
        return refused if refused is not None and needed > refused.placed else None

    def _by_count(self, gang: Gang) -> RefusedPlacement | None:
        """Return how the placement of a gang like ``gang`` fails that needs more members than fit.

        For gangs of which the last session found nodes for some: most others fit, or no member does, and to
        group the nodes anew for each costs more than a trial.
        """
        session = self._session
        if gang.quota_admission is not None or session.is_ready(gang) or session.is_pipelined(gang):
            return None
        (shape,) = gang.shapes
        fitting = session.node_finder.fitting_pods(shape)
        if fitting is None:
            return None
        if fitting.pods:
            # With less, the queue would be what keeps the members from more nodes.
            tried = {resource: (fitting.pods + 1) * amount for resource, amount in shape.amounts.items()}
            if not session.allows(session.queue_of(gang), tried):
                return None
        return RefusedPlacement(fitting.pods, {shape: fitting.refusal})

    def of_tasks(self, gang: Gang, tasks: tuple[Task, ...]) -> RefusedPlacement | None:
        """Return the refused placement of the same ``tasks``, in order, for the same minimum."""
        return self._by_tasks.get(self._tasks_key(gang, tasks)) if self._by_tasks else None

    def add(self, gang: Gang, tasks: tuple[Task, ...], refused: RefusedPlacement) -> None:
        """Keep the result for ``gang`` as it was before, and is again after, the trial with ``tasks``."""
        key = self._shape_key(gang)
        # If none of its tasks was refused, it has too few: others have scheduling gates.
        is_refused = bool(refused.failed_shapes or refused.by_queue)
        if key is not None and is_refused and _missing(gang) > refused.placed:
            self._by_shape[key] = refused
        else:
            self._by_tasks[self._tasks_key(gang, tasks)] = refused

    def _shape_key(self, gang: Gang) -> Hashable:
        """Return what the trial with a gang of one shape depends on; None if members may differ."""
        if not self._session.rules.shares_refusals or len(gang.shapes) != 1:
            return None
        (shape,) = gang.shapes
        if requires_affinity(shape) or is_nominated(gang):
            return None
        return (self._version.current, gang.queue, self._votes(gang), shape)

    def _tasks_key(self, gang: Gang, tasks: tuple[Task, ...]) -> Hashable:
        return (
            self._version.current,
            gang.queue,
            self._votes(gang),
            gang.min_member,
            tuple(sorted(gang.min_task_member.items())),
            tuple(sorted((role, _counts(counts)) for role, counts in gang.roles.items())),
            tuple((task.shape, task.role, task.nominated_node) for task in tasks),
        )

    def _votes(self, gang: Gang) -> Hashable:
        """Return the votes of plugins on ``gang``, which must be equal for equal trials."""
        return tuple(callback(gang) for callback in all_callbacks(self._session.callbacks.job_pipelined))


def _fitted_in_part(gang: Gang) -> bool:
    reason = gang.reported.reason
    return isinstance(reason, GangUnschedulable) and reason.missing < gang.min_member


def _missing(gang: Gang) -> int:
    return gang.min_member - gang.task_counts.ready - gang.task_counts.pipelined


def _counts(counts: TaskCounts) -> Hashable:
    by_status = sorted((status.value, count) for status, count in counts.by_status.items() if count)
    return (counts.best_effort, *by_status)


class Trials:
    """What the trials of a session found that holds for later ones."""

    def __init__(self, session: Session) -> None:
        self.version = UsageVersion(session.cluster.usage_changes)
        self.unschedulable = UnschedulableShapes(self.version)
        self.refused = RefusedPlacements(session, self.version)
        self.refused_topologies: dict[Hashable, PendingReason] = {}

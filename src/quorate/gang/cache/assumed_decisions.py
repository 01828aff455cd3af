"""Decisions that are being written and that no watch has reported yet: binds, evictions and statuses.

An assumption holds until the object shows the same or a later state, or until the write fails.  A pod that is
created anew under the same name has another uid and is not affected.  Unlike expectations of a controller,
an assumption exists before its write and changes what the session counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quorate.api.meta import Key, ObjectMeta, Uid, is_older
from quorate.api.volcano import PodGroup
from quorate.gang.cache.from_objects import has_status
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import ALLOCATED_STATUSES, Task, TaskStatus
from quorate.gang.outcome import Bind, Eviction, GangStatus, Nomination


@dataclass(slots=True)
class _PendingStatus:
    """A status that is being written to the API."""

    status: GangStatus
    metadata: ObjectMeta | None = None  # of the group as written; None: the write is not known to be done


class AssumedDecisions:
    """The decisions that are being written.

    ``tasks`` and ``gangs`` are the mappings of the model. ``set_task_status`` moves a task in the model, and
    ``note_change`` tells the model that something changed that sessions read.
    """

    def __init__(
        self,
        tasks: Mapping[Key, Task],
        gangs: Mapping[Key, Gang],
        set_task_status: Callable[[Task, TaskStatus, str], None],
        note_change: Callable[[], None],
    ) -> None:
        self._tasks, self._gangs = tasks, gangs
        self._set_task_status, self._note_change = set_task_status, note_change
        self._binds: dict[Key, tuple[Uid, str]] = {}  # with the node
        self._evictions: dict[Key, tuple[Uid, TaskStatus]] = {}  # with the status before
        self._statuses: dict[Key, _PendingStatus] = {}  # by group

    # Binds, evictions and nominations of tasks.

    def bind(self, task: Task) -> None:
        """Assume the bind of ``task`` to its node."""
        self._note_change()
        self._binds[task.key] = (task.uid, task.node)
        self._set_task_status(task, TaskStatus.BINDING, task.node)

    def evict(self, task: Task, previous: TaskStatus) -> None:
        """Assume the eviction of ``task``; its status was ``previous``."""
        self._note_change()
        self._evictions[task.key] = (task.uid, previous)

    def applied_to(self, task: Task, status: TaskStatus, node: str) -> tuple[TaskStatus, str]:
        """Return the pod's ``status`` and ``node``, overridden by decisions it does not show yet."""
        uid, assumed_node = self._binds.get(task.key, (Uid(""), ""))
        if uid == task.uid and status is TaskStatus.PENDING:
            status, node = TaskStatus.BINDING, assumed_node
        else:
            self._binds.pop(task.key, None)
        uid, _ = self._evictions.get(task.key, (Uid(""), status))
        if uid == task.uid and status in ALLOCATED_STATUSES:
            status = TaskStatus.RELEASING
        elif uid:
            del self._evictions[task.key]
        return status, node

    def remove_pod(self, key: Key) -> None:
        self._binds.pop(key, None)
        self._evictions.pop(key, None)

    def bind_failed(self, bind: Bind) -> None:
        """Make the task of a bind that failed pending again, unless its pod shows otherwise.

        A pod that was created anew under its name is not affected.
        """
        self._note_change()
        uid, _ = self._binds.get(bind.task, (Uid(""), ""))
        if uid != bind.uid:
            return
        del self._binds[bind.task]
        task = self._tasks.get(bind.task)
        if task is not None and task.status is TaskStatus.BINDING:
            self._set_task_status(task, TaskStatus.PENDING, "")

    def eviction_failed(self, eviction: Eviction) -> None:
        """Return the task of an eviction that failed to its status before."""
        self._note_change()
        uid, previous = self._evictions.get(eviction.task, (Uid(""), TaskStatus.UNKNOWN))
        if uid != eviction.uid:
            return
        del self._evictions[eviction.task]
        task = self._tasks.get(eviction.task)
        if previous is TaskStatus.UNKNOWN or task is None or task.status is not TaskStatus.RELEASING:
            return
        self._set_task_status(task, previous, task.node)

    def nomination_failed(self, nomination: Nomination) -> None:
        """Return the task of a nomination that is not written to the node that its pod shows."""
        self._note_change()
        task = self._tasks.get(nomination.task)
        if task is not None and task.uid == nomination.uid:
            task.nominated_node = task.pod.status.nominated_node_name

    # Statuses of pod groups.

    def set_status(self, status: GangStatus) -> None:
        """Assume ``status``, which is being written."""
        self._statuses[status.gang] = _PendingStatus(status)
        self._gangs[status.gang].reported.written = status

    def status_written(self, status: GangStatus, group: ObjectMeta) -> None:
        """Note that ``status`` was written, with the metadata of the group after the write.

        Only the last status that was decided for a group is looked at.
        """
        pending = self._statuses.get(status.gang)
        if pending is not None and pending.status is status:
            pending.metadata = group

    def is_status_stale(self, group: PodGroup) -> bool:
        """Return True if ``group`` does not have the last decided status yet."""
        pending = self._statuses.get(group.metadata.key)
        if pending is None:
            return False
        if pending.metadata:
            return is_older(group.metadata, pending.metadata)
        return not has_status(group, pending.status)

    def drop_status(self, key: Key) -> None:
        self._statuses.pop(key, None)

"""Decisions that are being written and that no watch has reported yet: binds, evictions and statuses.

An assumption holds until the object shows the same or a later state, or until the write fails.  A pod that is
created anew under the same name has another uid and is not affected.  Unlike expectations of a controller,
an assumption exists before its write and changes what the session counts.
"""

from dataclasses import dataclass

from quorate.api.meta import Key, ObjectMeta, Uid, is_older
from quorate.api.volcano import PodGroup
from quorate.gang.cache.from_objects import has_status
from quorate.gang.cache.task import ALLOCATED_STATUSES, Task, TaskStatus
from quorate.gang.outcome import Bind, Eviction, GangStatus


@dataclass(slots=True)
class _PendingStatus:
    """A status that is being written to the API."""

    status: GangStatus
    metadata: ObjectMeta | None = None  # of the group as written; None: the write is not known to be done


class AssumedDecisions:
    def __init__(self) -> None:
        self._binds: dict[Key, tuple[Uid, str]] = {}  # with the node
        self._evictions: dict[Key, tuple[Uid, TaskStatus]] = {}  # with the status before
        self._statuses: dict[Key, _PendingStatus] = {}  # by group

    # Binds and evictions of tasks.

    def bind(self, task: Task) -> None:
        """Assume the bind of ``task`` to its node."""
        self._binds[task.key] = (task.uid, task.node)

    def evict(self, task: Task, previous: TaskStatus) -> None:
        """Assume the eviction of ``task``; its status was ``previous``."""
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

    def bind_failed(self, bind: Bind) -> bool:
        """Drop a bind; return True if it was assumed."""
        uid, _ = self._binds.get(bind.task, (Uid(""), ""))
        if uid != bind.uid:
            return False
        del self._binds[bind.task]
        return True

    def eviction_failed(self, eviction: Eviction) -> TaskStatus | None:
        """Drop an eviction; return the status before it if it was assumed."""
        uid, previous = self._evictions.get(eviction.task, (Uid(""), TaskStatus.UNKNOWN))
        if uid != eviction.uid:
            return None
        del self._evictions[eviction.task]
        return previous

    # Statuses of pod groups.

    def set_status(self, status: GangStatus) -> None:
        self._statuses[status.gang] = _PendingStatus(status)

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

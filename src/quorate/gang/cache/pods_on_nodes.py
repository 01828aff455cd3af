"""The pods on nodes: the tasks of each node, and what all pods hold of the nodes."""

from collections.abc import Collection, Mapping
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.meta import Uid
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus, hold_for_status
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.shapes import Shape

_NO_TASKS: Final[Mapping[Uid, Task]] = {}


class PodsOnNodes:
    """The tasks of each node, and the amounts that they hold there."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tasks: dict[str, dict[Uid, Task]] = {}  # by node; no empty values

    def tasks_on(self, node: str) -> Collection[Task]:
        """Return the tasks on ``node``, whatever their status."""
        return self._tasks.get(node, _NO_TASKS).values()

    def add(self, task: Task) -> None:
        if not task.node:
            return
        self._tasks.setdefault(task.node, {})[task.uid] = task
        hold = hold_for_status(task.status)
        if hold is not None:
            self._cluster.add_pod(task.uid, task.shape, task.node, hold)

    def remove(self, task: Task) -> None:
        """Remove a task from its node; what it held there is released by the caller."""
        if task.node:
            tasks = self._tasks[task.node]
            del tasks[task.uid]
            if not tasks:
                del self._tasks[task.node]

    def move(self, task: Task, status: TaskStatus, node: str, gang: Gang) -> None:
        """Change the status and node of ``task``, in the counts of its gang and on the nodes."""
        before = hold_for_status(task.status)
        after = hold_for_status(status)
        if node == task.node and before is not None and after is not None:
            gang.set_task_status(task, status, node)
            if before is not after:
                self._cluster.update_pod(task.uid, after)
            return
        if before is not None and task.node:
            self._cluster.remove_pod(task.uid)
        self.remove(task)
        gang.set_task_status(task, status, node)
        self.add(task)

    def add_foreign(self, pod: Pod, shape: Shape) -> None:
        """Count a pod of another scheduler, also on a node that is only nominated."""
        node = pod.node_name or pod.status.nominated_node_name
        if node and not pod.has_ended:
            terminating = pod.metadata.deletion_timestamp is not None
            state = AllocationState.RELEASING if terminating else AllocationState.USED
            self._cluster.add_pod(pod.metadata.uid, shape, node, state)

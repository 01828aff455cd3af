"""The pods on nodes: the tasks of each node, and what all pods hold of the nodes."""

from collections.abc import Collection, Hashable, Mapping
from typing import Final, NamedTuple

from quorate.api.core import ResourceRequirements
from quorate.api.core.pod import Pod, PodMeta
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Container, PodSpec
from quorate.api.meta import Key, Uid
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus, hold_for_status
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState, HeldRoom
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.shapes import Shape, Shapes

_NO_TASKS: Final[Mapping[Uid, Task]] = {}

_NO_NODE: Final = ""


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


class _UnreadablePod(NamedTuple):
    node: str
    requests: EncodedRequests | None  # of a large pod; None: they are not known
    gang: Key | None  # for which it counts


class UnreadablePods:
    """Holds the room of these pods, for their gangs, and closes nodes with pods of unknown requests.

    Each is an occupant of its node.  What a large pod requests is known, and takes room as a pod of another
    scheduler does.  A node with a pod of unknown requests takes no other pod.  What such a pod requested when
    it was read last takes room on no node, but counts for its gang, as the requests of large pods do.
    """

    def __init__(self, cluster: Cluster, constraints: ConstraintEngine, shapes: Shapes) -> None:
        self._cluster, self._constraints, self._shapes = cluster, constraints, shapes
        self._pods: dict[Key, _UnreadablePod] = {}

    def add(self, key: Key, node: str, requests: EncodedRequests | None, task: Task | None) -> None:
        """Add a pod on ``node``; ``task``: the task of its last decoded version, if the task had a node."""
        self._pods[key] = _UnreadablePod(node, requests, None if task is None else task.gang)
        if requests is not None:
            self._hold(key, self._shape(key, requests), node)
        elif task is not None:
            self._hold(key, task.shape, _NO_NODE)
        if requests is None:
            self._close(node)

    def remove(self, key: Key) -> Key | None:
        """Remove a pod if it is here; return the gang for which it counted, if any."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return None
        self._cluster.release((UnreadablePods, key))
        if pod.requests is None:
            self._close(pod.node)
        if pod.gang is not None and not self.room_of(pod.gang).pods:
            self._cluster.release_all(_owner(pod.gang))
        return pod.gang

    def recount(self) -> None:
        """Hold the room of large pods anew: they take only resources that nodes offer."""
        for key, pod in self._pods.items():
            if pod.requests is not None:
                self._hold(key, self._shape(key, pod.requests), pod.node)

    def room_of(self, gang: Key) -> HeldRoom:
        """Return what the unreadable pods of ``gang`` take, kept up to date."""
        return self._cluster.room_of(_owner(gang))

    def _hold(self, key: Key, shape: Shape, node: str) -> None:
        gang = self._pods[key].gang
        self._cluster.hold((UnreadablePods, key), shape, node, 1, None if gang is None else _owner(gang))

    def _shape(self, key: Key, requests: EncodedRequests) -> Shape:
        of_nodes = ResourceRequirements(requests=requests.of_resources(self._cluster.rows))
        spec = PodSpec(containers=(Container(resources=of_nodes),))
        pod = Pod(metadata=PodMeta(name=key.name, namespace=key.namespace), spec=spec)
        return self._shapes.of(pod)

    def _close(self, node: str) -> None:
        """Keep other pods from ``node`` while it has a pod of unknown requests; the first is the reason."""
        unknown = (key for key, pod in self._pods.items() if pod.node == node and pod.requests is None)
        first = min(unknown, default=None)
        self._constraints.set_unreadable_pod(node, "" if first is None else str(first))


def _owner(gang: Key) -> Hashable:
    return UnreadablePods, gang

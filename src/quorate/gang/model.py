"""The mutable model of the gang core: the newest of every object, and of decisions being written.

It is told objects in any order and as often as one likes.  Everything durable is in the objects; known only
here is what a session decided and nobody has seen written yet ("assumed"): binds, evictions, and statuses.
An assumption stands until the object says the same or more, or until the shell says that it failed.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.api.core import PriorityClass, ResourceQuota
from quorate.api.core.scheduling import Node, Pod
from quorate.api.meta import Key, ObjectMeta, Uid, epoch, is_older
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.api.volcano import PodGroup
from quorate.api.volcano import Queue as QueueObject
from quorate.api.volcano.annotations import PREEMPTABLE
from quorate.gang.annotations import digest_of, says, status_of
from quorate.gang.gang import Gang
from quorate.gang.outcome import Bind, Eviction, GangStatus
from quorate.gang.queue import NamespaceQuota, Queue
from quorate.gang.queue_account import Ledger
from quorate.gang.reading import (
    differ_in_standing_only,
    group_of,
    is_gone,
    queue_of,
    quota_of,
    quota_units,
    standing_of,
    task_of,
)
from quorate.gang.task import FINISHED, HOLDING, Standing, Task
from quorate.gang.usage import Usages
from quorate.placement.cluster import AllocationState, Cluster
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.filters.volumes.binding import VolumeBinding, volume_bindings
from quorate.placement.filters.volumes.requirements import VolumeRequirements, volume_requirements
from quorate.placement.filters.volumes.storage import StorageIndex
from quorate.placement.node_finder import NodeFinder
from quorate.placement.resources import in_base_units
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import Shape, Shapes


@dataclass(slots=True)
class Telling:
    """A status on its way to the API."""

    status: GangStatus
    written_as: ObjectMeta | None = None  # of the group with the status in it; None: not known to be written


class Model:
    """See the module.  ``schedulers``: the scheduler names of pods that are ours to place."""

    def __init__(self, schedulers: Collection[str]) -> None:
        self.cluster = Cluster()
        self.gangs: dict[Key, Gang] = {}  # of every pod group, and of every group some pod of ours names
        self.queues: dict[str, Queue] = {}
        self.quotas: dict[Key, NamespaceQuota] = {}
        self.ledger = Ledger()
        self.storage = StorageIndex()
        # Who watches namespaces and the drivers of nodes tells it.
        self.constraints = ConstraintEngine(self.cluster, PredicateArguments())
        self._schedulers = frozenset(schedulers)
        self._node_finder: NodeFinder | None = None  # as asked for last
        self._ranked_by: Scoring | None = None
        self._shapes = Shapes()
        self._usages = Usages()
        self._seen = self._shapes.generation  # that the shapes of all pods are of
        self._tasks: dict[Key, Task] = {}  # each is in the gang it names
        self._strangers: dict[Key, Pod] = {}  # all other pods
        self._volumes: dict[Key, VolumeRequirements] = {}  # of pods with claims, as in their shapes
        self._storage_seen = self.storage.version  # that these are of
        self._on: dict[str, dict[Uid, Task]] = {}  # tasks by the node they have, none empty
        self._classes: dict[str, PriorityClass] = {}
        self._telling: dict[Key, Telling] = {}  # statuses assumed, by group
        self._binding: dict[Key, tuple[Uid, str]] = {}  # assumed bound, and where
        self._evicting: dict[Key, tuple[Uid, Standing]] = {}  # assumed on the way out, and what they were

    # Nodes and pods.

    def set_node(self, node: Node) -> None:
        self.cluster.set_node(node)

    def remove_node(self, name: str) -> None:
        self.cluster.remove_node(name)

    def node_finder(self, predicates: PredicateArguments, scoring: Scoring) -> NodeFinder:
        """The nodes for those who look for one: kept up to date from session to session."""
        self.constraints.set_enabled_predicates(predicates)
        if self._node_finder is None or self._ranked_by != scoring:
            self._ranked_by = scoring
            self._node_finder = NodeFinder(self.cluster, self.constraints, scoring)
        return self._node_finder

    def set_pod(self, pod: Pod) -> None:
        key = pod.metadata.key
        task = self._tasks.get(key)
        if task is not None and differ_in_standing_only(task.pod, pod):
            self._stand(task, pod)
        else:
            self._put(key, pod)

    def _put(self, key: Key, pod: Pod) -> None:
        """Take ``pod`` from its beginning, whatever is known of it."""
        self._forget(key)
        shape = self._shape(key, pod)
        group = group_of(pod, self._schedulers)
        if group is None:
            self._strangers[key] = pod
            self._put_stranger(pod, shape)
            return
        gang = self._gang(group)
        task = task_of(pod, key, gang.key, shape, self._usages.of(pod.spec))
        task.standing, task.node = self._assumed(task, task.standing, task.node)
        self._tasks[key] = task
        gang.add(task)
        self._settle(task)

    def remove_pod(self, key: Key) -> None:
        self._forget(key)
        self._binding.pop(key, None)
        self._evicting.pop(key, None)

    def volume_bindings(self, key: Key, node: str) -> tuple[VolumeBinding, ...]:
        """What is to be written about the claims of a pod before it is bound to ``node``."""
        pod, index = self._pod(key), self.cluster.index(node)
        where = None if index is None else self.cluster.nodes[index]
        # One that is gone by now needs nothing: the bind will say so.
        return () if pod is None or where is None else volume_bindings(pod, where, self.storage)

    def tasks_on(self, node: str) -> Collection[Task]:
        """The tasks that have ``node``, in whatever standing."""
        return self._on.get(node, _NO_TASKS).values()

    def refresh_shapes(self) -> None:
        """Shape all pods anew if some pod has brought a selector by which pods differ that were alike.

        Pods with claims, too, if something else follows from their claims by now.
        """
        if self._storage_seen != self.storage.version:
            self._storage_seen = self.storage.version
            for key, volumes in list(self._volumes.items()):
                pod = self._pod(key)
                assert pod is not None, f"{key} has volumes and is not known"
                if volume_requirements(pod, self.storage) != volumes:
                    self._put(key, pod)
        while self._seen != self._shapes.generation:
            self._seen = self._shapes.generation
            for key, task in list(self._tasks.items()):
                self._put(key, task.pod)
            for key, stranger in list(self._strangers.items()):
                self._put(key, stranger)

    def _pod(self, key: Key) -> Pod | None:
        task = self._tasks.get(key)
        return self._strangers.get(key) if task is None else task.pod

    def _shape(self, key: Key, pod: Pod) -> Shape:
        volumes = volume_requirements(pod, self.storage)
        if pod.spec.volumes:
            self._volumes[key] = volumes
        return self._shapes.of(pod, volumes)

    def _put_stranger(self, pod: Pod, shape: Shape) -> None:
        """Count a pod that others place.  Who was promised a node by them is not overtaken by us."""
        node = pod.node_name or pod.status.nominated_node_name
        if node and not is_gone(pod):
            leaving = pod.metadata.deletion_timestamp is not None
            self.cluster.add_pod(
                pod.metadata.uid, shape, node, AllocationState.RELEASING if leaving else AllocationState.USED
            )

    def _forget(self, key: Key) -> None:
        pod = self._pod(key)
        if pod is None:
            return
        self._volumes.pop(key, None)
        if self.cluster.allocation(pod.metadata.uid) is not None:
            self.cluster.remove_pod(pod.metadata.uid)
        self._strangers.pop(key, None)
        task = self._tasks.pop(key, None)
        if task is not None:
            self._leave(task)
            gang = self.gangs[task.gang]
            gang.remove(task)
            self._drop_if_empty(gang)

    def _stand(self, task: Task, pod: Pod) -> None:
        """Let ``task`` stand as ``pod`` says, which is otherwise as it was: most news are of this kind."""
        task.pod = pod
        task.nominated = pod.status.nominated_node_name
        standing, node = self._assumed(task, standing_of(pod), pod.node_name)
        if (standing, node) != (task.standing, task.node):
            self.shift(task, standing, node)

    def _assumed(self, task: Task, standing: Standing, node: str) -> tuple[Standing, str]:
        """How it stands when its pod says that it stands so: what was decided and is not seen yet holds."""
        uid, chosen = self._binding.get(task.key, (Uid(""), ""))
        if uid == task.uid and standing is Standing.PENDING:
            standing, node = Standing.BINDING, chosen
        else:
            self._binding.pop(task.key, None)
        uid, _ = self._evicting.get(task.key, (Uid(""), standing))
        if uid == task.uid and standing in HOLDING:
            standing = Standing.RELEASING
        elif uid:
            del self._evicting[task.key]
        return standing, node

    def bind_failed(self, bind: Bind) -> None:
        """The API did not take it: the task is pending again, unless its pod says otherwise.

        Another pod that has taken its name meanwhile stands as it stood.
        """
        task = self._tasks.get(bind.task)
        uid, _ = self._binding.get(bind.task, (Uid(""), ""))
        if uid != bind.uid:
            return
        del self._binding[bind.task]
        if task is not None and task.standing is Standing.BINDING:
            self.shift(task, Standing.PENDING, "")

    def eviction_failed(self, eviction: Eviction) -> None:
        """The API did not take it: the task stays."""
        task = self._tasks.get(eviction.task)
        uid, was = self._evicting.get(eviction.task, (Uid(""), Standing.UNKNOWN))
        if uid != eviction.uid:
            return
        del self._evicting[eviction.task]
        if was is not Standing.UNKNOWN and task is not None and task.standing is Standing.RELEASING:
            self.shift(task, was, task.node)

    def shift(self, task: Task, standing: Standing, node: str) -> None:
        """``task`` stands elsewhere: in its gang's counts and on the nodes alike."""
        before = hold_of(task.standing)
        after = hold_of(standing)
        if node == task.node and before is not None and after is not None:
            self.gangs[task.gang].shift(task, standing, node)
            if before is not after:
                self.cluster.update_pod(task.uid, after)
            return
        if before is not None and task.node:
            self.cluster.remove_pod(task.uid)
        self._leave(task)
        self.gangs[task.gang].shift(task, standing, node)
        self._settle(task)

    def _settle(self, task: Task) -> None:
        """Count it on the node it has."""
        if not task.node:
            return
        self._on.setdefault(task.node, {})[task.uid] = task
        hold = hold_of(task.standing)
        if hold is not None:
            self.cluster.add_pod(task.uid, task.shape, task.node, hold)

    def _leave(self, task: Task) -> None:
        """Take it from the tasks of its node."""
        if task.node:
            tasks = self._on[task.node]
            del tasks[task.uid]
            if not tasks:
                del self._on[task.node]

    def assume_bound(self, task: Task) -> None:
        """A session keeps the node it gave ``task``; the API is being told."""
        self._binding[task.key] = (task.uid, task.node)
        self.shift(task, Standing.BINDING, task.node)

    def assume_evicted(self, task: Task, was: Standing) -> None:
        """A session keeps its decision to evict ``task``, which was ``was``; the API is being told."""
        self._evicting[task.key] = (task.uid, was)

    # Groups and what they are judged by.

    def set_group(self, group: PodGroup) -> None:
        gang = self._gang(group.metadata.key)
        metadata, spec, annotations = group.metadata, group.spec, group.metadata.annotations
        made_again = gang.exists and gang.uid != metadata.uid
        changed = gang.exists and not made_again and gang.spec != spec
        gang.exists, gang.uid, gang.spec = True, metadata.uid, spec
        gang.is_leaving = metadata.deletion_timestamp is not None
        gang.is_settled = False
        gang.queue = spec.queue or "default"
        gang.min_member = spec.min_member
        gang.min_task_member = spec.min_task_member
        gang.min_resources = None if spec.min_resources is None else in_base_units(spec.min_resources)
        gang.quota_minimum = quota_units(spec.min_resources or {})
        gang.priority_class = spec.priority_class_name
        gang.priority = self._priority(spec.priority_class_name)
        gang.preemptable = annotations.get(PREEMPTABLE, "true").lower() != "false"
        gang.created = epoch(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0
        gang.annotations = annotations
        if made_again:
            self._telling.pop(gang.key, None)
            gang.reported, gang.noticed = None, {}
        if not self._is_older(group):
            self._telling.pop(gang.key, None)
            gang.take(status_of(group))
        if changed or (gang.attempts and gang.attempted not in ("", digest_of(spec))):
            gang.attempts = 0  # it is another request now, of which nothing is known yet

    def _is_older(self, group: PodGroup) -> bool:
        """Whether ``group`` does not say yet what was decided last about its status."""
        telling = self._telling.get(group.metadata.key)
        if telling is None:
            return False
        if telling.written_as:
            return is_older(group.metadata, telling.written_as)
        return not says(group, telling.status)

    def assume_status(self, status: GangStatus) -> None:
        """A session decided ``status``; the API is being told."""
        self._telling[status.gang] = Telling(status)
        self.gangs[status.gang].told = status

    def status_written(self, status: GangStatus, group: ObjectMeta) -> None:
        """The API took ``status``, the last that was decided about its group, which then was ``group``."""
        telling = self._telling.get(status.gang)
        if telling is not None and telling.status is status:
            telling.written_as = group

    def remove_group(self, key: Key) -> None:
        """Its pods stay, as nobody's victims; a group made again under the name starts afresh."""
        self._telling.pop(key, None)
        gang = self.gangs.pop(key, None)
        if gang is not None and gang.tasks:
            orphaned = self._gang(key)
            for task in gang.tasks.values():
                orphaned.add(task)

    def _gang(self, key: Key) -> Gang:
        if key not in self.gangs:
            self.gangs[key] = Gang(key)
        return self.gangs[key]

    def _drop_if_empty(self, gang: Gang) -> None:
        if not gang.exists and not gang.tasks:
            del self.gangs[gang.key]

    def taking_part(self) -> Iterator[Gang]:
        """Those that sessions look at: their pod group is there, and the queue it names."""
        return (gang for gang in self.gangs.values() if gang.exists and gang.queue in self.queues)

    def set_queue(self, queue: QueueObject) -> None:
        self.queues[queue.metadata.name] = queue_of(queue)

    def remove_queue(self, name: str) -> None:
        self.queues.pop(name, None)

    def set_quota(self, quota: ResourceQuota, heard_at: float | None = None) -> None:
        """``heard_at``: now, in seconds since the epoch, if pods it is charged of may be heard of later."""
        key, new = quota.metadata.key, quota_of(quota)
        before = self.quotas.get(key)
        self.quotas[key] = new if before is None or heard_at is None else new.following(before, heard_at)

    def remove_quota(self, key: Key) -> None:
        self.quotas.pop(key, None)

    def set_priority_class(self, cls: PriorityClass) -> None:
        self._classes[cls.metadata.name] = cls
        self._rank_anew()

    def remove_priority_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self._rank_anew()

    def _rank_anew(self) -> None:
        for gang in self.gangs.values():
            gang.priority = self._priority(gang.priority_class)

    def _priority(self, name: str) -> int:
        """The value of the class ``name``, else of the cluster's default class, else 0."""
        if name in self._classes:
            return self._classes[name].value
        defaults = (cls for cls in self._classes.values() if cls.global_default)
        return max((cls.value for cls in defaults), default=0)


_NO_TASKS: Final[Mapping[Uid, Task]] = {}


def hold_of(standing: Standing) -> AllocationState | None:
    """How a task that stands so counts on its node."""
    if standing in FINISHED or standing is Standing.PENDING:
        return None
    if standing is Standing.PIPELINED:
        return AllocationState.PIPELINED
    return AllocationState.RELEASING if standing is Standing.RELEASING else AllocationState.USED

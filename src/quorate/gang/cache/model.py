"""The mutable model of the gang core: the newest objects, and decisions being written.

Objects may be set in any order and any number of times.  All durable state is in the objects; only the model
knows the decisions of sessions that no watch has reported yet; see ``assumed_decisions``.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain

from quorate.api.core import PriorityClass, ResourceQuota
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Node, PodDisruptionBudget
from quorate.api.kueue.placed_workload import PlacedWorkload
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Key, Uid
from quorate.api.native_groups import PodGroupSpec as NativeGroupSpec
from quorate.api.quorate import Reservation
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.api.volcano import PodGroup
from quorate.api.volcano import Queue as QueueObject
from quorate.api.volcano.topology import HyperNode
from quorate.gang.cache.assumed_decisions import AssumedDecisions
from quorate.gang.cache.from_objects import (
    QuotaUsageCache,
    differ_only_in_status,
    is_cut_short,
    pod_group_key,
    queue_from_object,
    quota_from_object,
    set_group_fields,
    status_from_object,
    task_from_pod,
    task_status_of,
)
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.held_places import HeldPlaces
from quorate.gang.cache.pod_shapes import PodShapes
from quorate.gang.cache.pods_on_nodes import PodsOnNodes, UnreadablePods
from quorate.gang.cache.priority_classes import PriorityClasses
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.queue_accounts import Account, Ledger
from quorate.gang.cache.quota_admission import QuotaAdmission, quota_admission
from quorate.gang.cache.refused_searches import RefusedPlans, RefusedSearches
from quorate.gang.cache.reserved_nodes import ReservedNodes
from quorate.gang.cache.room_for_gangs import LeftRoom
from quorate.gang.cache.search_turns import SearchTurns
from quorate.gang.cache.task import ALLOCATED_STATUSES, FINISHED_STATUSES, Task, TaskStatus
from quorate.gang.namespace_quota.quota import NamespaceQuota
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import NO_ROOM
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.filters.volumes.storage import StorageIndex
from quorate.placement.hyper_nodes.index import HyperNodeIndex
from quorate.placement.node_finder import NodeFinder
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import NodeGroupRule, Shape, is_distinguished


class Model:
    """The newest objects, and the decisions being written.

    ``schedulers`` are the scheduler names of the pods to place.
    """

    def __init__(self, schedulers: Collection[str]) -> None:
        self.cluster = Cluster()
        self.gangs: dict[Key, Gang] = {}  # of every pod group, and of every group that a task names
        self.queues: dict[str, Queue] = {}
        self.quotas: dict[Key, NamespaceQuota] = {}
        self.disruption_budgets: dict[Key, PodDisruptionBudget] = {}
        self.ledger = Ledger()
        self.revision = self._last_revision = 0  # see ``version`` and ``note_change``
        self.refused_plans = RefusedPlans()
        self.search_turns = SearchTurns()
        self.refused_searches = RefusedSearches()
        self.storage = StorageIndex()
        self.hyper_nodes = HyperNodeIndex(self.cluster)
        # The watches of namespaces and of the drivers of nodes update it too.
        self.constraints = ConstraintEngine(self.cluster, PredicateArguments())
        self.devices = self.constraints.devices
        self._schedulers = frozenset(schedulers)
        self._node_finder: NodeFinder | None = None  # of the last session
        self._node_finder_scoring: Scoring | None = None
        self._shapes = PodShapes(self.storage, self.devices)
        self._quota_usages = QuotaUsageCache()
        self._on_nodes = PodsOnNodes(self.cluster)
        self._held = HeldPlaces(self.cluster, self._shapes.shapes)
        self.left_room = LeftRoom(self.cluster)
        self.reserved_nodes = ReservedNodes(self.cluster)
        self._gang_of_owner: dict[Uid, Key] = {}  # by the owner of the places that its members may have
        self._any_node_groups = False  # whether any gang may have ``node_groups``
        self._tasks: dict[Key, Task] = {}  # each is in the gang that it names
        self._foreign_pods: dict[Key, Pod] = {}  # all other pods
        self._set_aside: set[Key] = set()  # gangs that sessions leave out until an object of theirs changes
        self._unreadable_groups: dict[Key, str] = {}  # pod groups that cannot be read, with their queue
        self._unreadable_pods = UnreadablePods(self.cluster, self.constraints, self._shapes.shapes)
        self._removed_task: Task | None = None  # the last one: its pod may follow as one that cannot be read
        self.priority_classes = PriorityClasses()
        self.assumed = AssumedDecisions(self._tasks, self.gangs, self.set_task_status, self.note_change)

    @property
    def version(self) -> Hashable:
        """Return a value that changes with every object, decision or phase that a session reads.

        The watches of namespaces, drivers and storage change the filters and not the model.
        """
        return self.revision, self.constraints.revision, self.storage.version, self.devices.objects_version

    def note_change(self) -> None:
        """Note that something changed that a session reads.

        Set ``revision`` back when all changes since are undone; no other revision occurs twice.
        """
        self.revision = self._last_revision = self._last_revision + 1

    # Nodes and pods.

    def set_node(self, node: Node) -> None:
        self.note_change()
        rows = self.cluster.rows_version
        self.cluster.set_node(node)
        if self.cluster.rows_version != rows:
            self._unreadable_pods.recount()
        self._held.set_host(node.metadata.labels.get(HOSTNAME, ""), node.metadata.name)

    def remove_node(self, name: str) -> None:
        self.note_change()
        if self.cluster.index(name) is not None:  # otherwise it was never set, or set aside
            self.cluster.remove_node(name)

    def set_hyper_node(self, hyper_node: HyperNode) -> None:
        self.note_change()
        self.hyper_nodes.set(hyper_node)

    def remove_hyper_node(self, name: str) -> None:
        self.note_change()
        self.hyper_nodes.remove(name)

    def set_reservation(self, reservation: Reservation) -> None:
        self.note_change()
        self.reserved_nodes.put(reservation)

    def remove_reservation(self, name: str) -> None:
        self.note_change()
        self.reserved_nodes.remove(name)

    def set_workload(self, workload: PlacedWorkload) -> None:
        self.note_change()
        self._held.set_workload(workload)
        group = self._gang_of_owner.get(workload.owner)
        gang = None if group is None else self.gangs.get(group)
        if gang is not None:
            self._set_held(gang)

    def remove_workload(self, key: Key) -> None:
        self.note_change()
        self._held.remove_workload(key)

    def _set_held(self, gang: Gang) -> None:
        """Set what is held for the owner of ``gang``, and let its members on nodes take their places."""
        gang.rooms.held = self._held.room_of(gang.owner.uid)
        if gang.rooms.held is NO_ROOM:
            return
        with self._held.lent_to(gang.owner.uid):  # the places are divided once, afterwards
            for task in gang.tasks.values():
                self._held.set_pod(task.key, task.pod, task.node, gang.owner.uid)

    def room_lent_to(self, gang: Gang) -> AbstractContextManager[None]:
        """Leave the room free that nodes hold for members of ``gang``, while nodes are chosen for them.

        Meanwhile hold the nodes that windows keep from the gang.
        """
        if self.reserved_nodes:
            return self._beside_windows(gang)
        return self._room_lent_to(gang)

    def _room_lent_to(self, gang: Gang) -> AbstractContextManager[None]:
        if gang.rooms.held.pods:
            return self._held.lent_to(gang.owner.uid)
        return self.left_room.lent_to(gang) if gang.rooms.lost.pods else nullcontext()

    @contextmanager
    def _beside_windows(self, gang: Gang) -> Iterator[None]:
        with self.reserved_nodes.kept_from(gang), self._room_lent_to(gang):
            yield

    def node_finder(self, predicates: PredicateArguments, scoring: Scoring) -> NodeFinder:
        """Return the filtered and scored nodes, which are kept up to date from session to session."""
        self.constraints.set_enabled_predicates(predicates)
        if self._node_finder is None or self._node_finder_scoring != scoring:
            self._node_finder_scoring = scoring
            self._node_finder = NodeFinder(self.cluster, self.constraints, scoring)
        return self._node_finder

    def set_pod(self, pod: Pod) -> None:
        self.note_change()
        key = pod.metadata.key
        self.remove_unreadable_pod(key)
        task = self._tasks.get(key)
        cut_short = is_cut_short(task, pod)
        if task is not None and differ_only_in_status(task.pod, pod):
            self._update_task(task, pod)
        else:
            self._replace_pod(key, pod)
        task, owner = self._tasks.get(key), None
        if task is not None:
            task.cut_short, owner = cut_short, self.gangs[task.gang].owner.uid
            if cut_short and task.status is TaskStatus.SUCCEEDED:  # it would count for the minimum
                self.set_task_status(task, TaskStatus.FAILED, task.node)
        self._held.set_pod(key, pod, pod.node_name if task is None else task.node, owner)

    def _replace_pod(self, key: Key, pod: Pod) -> None:
        self._remove_pod(key)
        group = pod_group_key(pod, self._schedulers)
        if group is None:
            self._foreign_pods[key] = pod
            self._on_nodes.add_foreign(pod, self._shapes.of(key, pod))
            return
        gang = self._gang(group)
        admission = gang.quota_admission
        placed = pod if admission is None else admission.applied_to(pod)
        shape = self._shapes.of(key, placed, gang.node_groups)
        task = task_from_pod(pod, key, gang.key, shape, self._quota_usages.of(pod))
        task.status, task.node = self.assumed.applied_to(task, task.status, task.node)
        self._tasks[key] = task
        self._set_aside.discard(gang.key)
        gang.add(task)
        self._on_nodes.add(task)

    def remove_pod(self, key: Key) -> None:
        self.note_change()
        task = self._tasks.get(key)
        if task is not None and task.status in FINISHED_STATUSES and not task.cut_short:
            self.gangs[task.gang].ended += 1
        self._remove_pod(key)
        self._held.remove_pod(key)
        self.remove_unreadable_pod(key)
        self.assumed.remove_pod(key)

    def set_unreadable_pod(self, key: Key, node: str, requests: EncodedRequests | None = None) -> None:
        """Count ``requests`` of the pod ``key`` on ``node``; if they are not known, keep other pods away.

        A pod without a node is removed.  What the pod requested when it was read last stays allocated for its
        gang's queue.
        """
        task = self._tasks.get(key) or self._removed_task
        self.remove_pod(key)
        if not node:
            return
        if task is not None and (task.key != key or task.status not in ALLOCATED_STATUSES):
            task = None
        self._unreadable_pods.add(key, node, requests, task)
        if task is not None:
            gang = self._gang(task.gang)
            gang.rooms.unreadable = self._unreadable_pods.room_of(gang.key)
            gang.generation += 1

    def remove_unreadable_pod(self, key: Key) -> None:
        group = self._unreadable_pods.remove(key)
        gang = None if group is None else self.gangs.get(group)
        if gang is not None:
            gang.generation += 1
            self._drop_if_empty(gang)

    def shape_of(self, key: Key) -> Shape | None:
        """Return the current shape of a pod of a gang; None if there is none."""
        self.refresh_shapes()
        task = self._tasks.get(key)
        return None if task is None else task.shape

    def tasks_with_claims(self) -> Iterator[Task]:
        """Yield the tasks of which the pods name resource claims."""
        return (self._tasks[key] for key in self._shapes.pods_with_claims if key in self._tasks)

    def tasks_on(self, node: str) -> Collection[Task]:
        """Return the tasks on ``node``, whatever their status."""
        return self._on_nodes.tasks_on(node)

    def refresh_shapes(self) -> None:
        """Recompute the shapes of the pods that a new selector distinguishes.

        Pods with claims are also recomputed when other objects change what follows from the claims.
        """
        for key, pod in self._shapes.with_changed_volumes(self.pod):
            self._replace_pod(key, pod)
        for key, pod in self._shapes.with_changed_devices(self.pod):
            self._replace_pod(key, pod)
        while self._shapes.is_outdated:
            added = self._shapes.take_added_keys()
            pods = [(key, task.pod) for key, task in self._tasks.items()]
            for key, pod in (*pods, *self._foreign_pods.items()):
                if is_distinguished(pod.metadata.labels, added):
                    self._replace_pod(key, pod)
            self._held.refresh_shapes(added)
            self._unreadable_pods.recount()
        tasks = (task.pod for task in self._tasks.values())
        self._shapes.drop_unused_keys(chain(tasks, self._foreign_pods.values(), self._held.pods))

    def set_node_groups(self, rules: Mapping[str, NodeGroupRule]) -> None:
        """Set the node groups of each queue; none while the plugin nodegroup is not enabled."""
        if not rules and not self._any_node_groups:
            return
        self._any_node_groups = bool(rules)
        for gang in list(self.gangs.values()):
            rule = rules.get(gang.queue)
            if gang.exists and gang.node_groups != rule:
                gang.node_groups = rule
                for key, task in list(gang.tasks.items()):
                    self._replace_pod(key, task.pod)

    def without_node_groups(self, shape: Shape, full: tuple[str, ...]) -> Shape:
        """Return ``shape`` for a queue that may not allocate another such pod in the node groups ``full``."""
        return self._shapes.shapes.without_node_groups(shape, full)

    def pod(self, key: Key) -> Pod | None:
        """Return a pod that can be read; None if there is none."""
        task = self._tasks.get(key)
        return self._foreign_pods.get(key) if task is None else task.pod

    def _remove_pod(self, key: Key) -> None:
        pod = self.pod(key)
        if pod is None:
            return
        self._shapes.remove(key, pod)
        if pod.metadata.uid in self.cluster.occupants:
            self.cluster.remove_pod(pod.metadata.uid)
        self._foreign_pods.pop(key, None)
        task = self._removed_task = self._tasks.pop(key, None)
        if task is not None:
            self._on_nodes.remove(task)
            self._set_aside.discard(task.gang)
            gang = self.gangs[task.gang]
            gang.remove(task)
            self._drop_if_empty(gang)

    def add_expected_member(self, task: Task) -> None:
        """Add a task without a pod to its gang for a part of a session; see ``expected_members``."""
        self.note_change()
        self._tasks[task.key] = task
        self.gangs[task.gang].add(task)

    def remove_expected_member(self, task: Task) -> None:
        self.note_change()
        del self._tasks[task.key]
        self.gangs[task.gang].remove(task)

    def _update_task(self, task: Task, pod: Pod) -> None:
        """Update ``task`` for a version of its pod that differs only in its status: most changes do."""
        task.pod = pod
        task.nominated_node = pod.status.nominated_node_name
        status, node = self.assumed.applied_to(task, task_status_of(pod), pod.node_name)
        if (status, node) != (task.status, task.node):
            self.set_task_status(task, status, node)

    def set_task_status(self, task: Task, status: TaskStatus, node: str) -> None:
        """Change the status and node of ``task``, in the counts of its gang and on the nodes."""
        gang = self.gangs[task.gang]
        self._on_nodes.move(task, status, node, gang)
        if not self._held.is_empty:
            self._held.set_pod(task.key, task.pod, node, gang.owner.uid)

    # Pod groups, queues, quotas and priority classes.

    def set_group(self, group: PodGroup, native: NativeGroupSpec | None = None) -> None:
        self.note_change()
        gang = self._gang(group.metadata.key)
        self._set_aside.discard(gang.key)
        self._unreadable_groups.pop(gang.key, None)
        recreated = gang.exists and gang.uid != group.metadata.uid
        spec_changed = gang.exists and not recreated and gang.spec != group.spec
        set_group_fields(gang, group, native)
        self._gang_of_owner[gang.owner.uid] = gang.key
        self._set_held(gang)
        named = group.spec.priority_class_name
        gang.priority = self.priority_classes.value(named) if native is None else native.priority or 0
        self._set_quota_admission(gang, quota_admission(group))
        if recreated:
            self.assumed.drop_status(gang.key)
            gang.reported.start_afresh()
            gang.ended = 0
        # Of a native group only the first status is read, because it has less than the gang's.
        is_first = native is None or recreated or gang.reported.written is None
        if is_first and not self.assumed.is_status_stale(group):
            self.assumed.drop_status(gang.key)
            gang.set_status(status_from_object(group))
        if spec_changed or gang.admission.is_of_other(group.spec):
            gang.admission = gang.admission.without_attempts()

    def _set_quota_admission(self, gang: Gang, admission: QuotaAdmission | None) -> None:
        if gang.quota_admission != admission:
            gang.quota_admission = admission
            for key, task in list(gang.tasks.items()):
                self._replace_pod(key, task.pod)

    def remove_group(self, key: Key) -> None:
        """Remove a pod group.  Its tasks stay, in a gang without a group; a new group starts afresh."""
        self.note_change()
        self.assumed.drop_status(key)
        self._set_aside.discard(key)
        self._unreadable_groups.pop(key, None)
        gang = self.gangs.pop(key, None)
        if gang is not None and self._gang_of_owner.get(gang.owner.uid) == key:
            del self._gang_of_owner[gang.owner.uid]
        if gang is not None and (gang.tasks or gang.rooms.unreadable.pods):
            orphaned = self._gang(key)
            orphaned.queue, orphaned.rooms.unreadable = gang.queue, gang.rooms.unreadable
            orphaned.node_groups = gang.node_groups
            for task in gang.tasks.values():
                orphaned.add(task)

    def set_unreadable_group(self, key: Key, queue: str) -> None:
        """Let the pods of a group that cannot be decoded count in ``queue``; "": the last decoded queue.

        They are not placed: what the group requires is not known.
        """
        former = self.gangs.get(key)
        self.remove_group(key)
        self._unreadable_groups[key] = queue or ("default" if former is None else former.queue)
        if (gang := self.gangs.get(key)) is not None:
            gang.queue = self._unreadable_groups[key]
            gang.generation += 1

    def remove_unreadable_group(self, key: Key) -> None:
        self.note_change()
        self._unreadable_groups.pop(key, None)

    def _gang(self, key: Key) -> Gang:
        if key not in self.gangs:
            self.gangs[key] = Gang(key, queue=self._unreadable_groups.get(key, "default"))
        return self.gangs[key]

    def _drop_if_empty(self, gang: Gang) -> None:
        if not gang.exists and not gang.tasks and not gang.rooms.unreadable.pods:
            del self.gangs[gang.key]

    def participating_gangs(self) -> list[Gang]:
        """Return the gangs of sessions: those with a pod group that names an existing queue."""
        queues, set_aside = self.queues, self._set_aside
        return [
            gang
            for gang in self.gangs.values()
            if gang.spec is not None and gang.queue in queues and gang.key not in set_aside
        ]

    def queue_accounts(self, gangs: Collection[Gang]) -> Mapping[str, Account]:
        """Return the accounts of the queues; ``gangs``: all that take part in a session."""
        names = sorted(self._set_aside | self._unreadable_groups.keys())
        aside = (self.gangs[key] for key in names if key in self.gangs)
        return self.ledger.accounts(gangs, [gang for gang in aside if gang.queue in self.queues])

    def set_gang_aside(self, key: Key) -> None:
        """Leave a gang out of all sessions until its pod group or a pod of it changes."""
        self.note_change()
        self._set_aside.add(key)

    def set_queue(self, queue: QueueObject) -> None:
        self.note_change()
        self.queues[queue.metadata.name] = queue_from_object(queue)

    def remove_queue(self, name: str) -> None:
        self.note_change()
        self.queues.pop(name, None)

    def set_quota(self, quota: ResourceQuota, observed_at: float | None = None) -> None:
        """Set a quota.

        ``observed_at``: the time, in seconds since the epoch, if the quota may be charged already for pods
        that no watch has reported yet.
        """
        key, new = quota.metadata.key, quota_from_object(quota)
        if (before := self.quotas.get(key)) is not None and observed_at is not None:
            new = new.following(before, observed_at)
        self.quotas[key] = new

    def remove_quota(self, key: Key) -> None:
        self.quotas.pop(key, None)

    def set_disruption_budget(self, budget: PodDisruptionBudget) -> None:
        self.note_change()
        self.disruption_budgets[budget.metadata.key] = budget

    def remove_disruption_budget(self, key: Key) -> None:
        self.note_change()
        self.disruption_budgets.pop(key, None)

    def set_priority_class(self, cls: PriorityClass) -> None:
        self.priority_classes.put(cls)
        self._update_priorities()

    def remove_priority_class(self, name: str) -> None:
        self.priority_classes.remove(name)
        self._update_priorities()

    def _update_priorities(self) -> None:
        self.note_change()
        for gang in self.gangs.values():
            if gang.spec is not None and gang.native is None:
                gang.priority = self.priority_classes.value(gang.spec.priority_class_name)

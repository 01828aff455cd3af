"""The trees of cohorts and cluster queues, and in which of them a round may decide something new.

A tree is known by its root.  Events only record the trees that they concern; the requeues that follow are
carried out once, however many events there were.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.preemption.history import PreemptionHistory
from quorate.quota.hierarchy import QuotaTree
from quorate.quota.tree import Node


class QueueTrees:
    """The trees of cohorts and cluster queues, and the roots of trees in which a round may decide."""

    def __init__(self) -> None:
        self.quota = QuotaTree()
        self.namespaces: dict[str, Mapping[str, str]] = {}  # labels, by namespace
        self.cluster_queues: dict[str, ClusterQueueState] = {}
        self.preemption_history = PreemptionHistory()
        # Roots of the trees in which a round may decide something new.  The value counts the consecutive
        # rounds that changed nothing in the tree except which flavors were tried.
        self.dirty_trees: dict[Node, int] = {}
        # Roots of the trees with workloads that were refused for lack of room in a topology or on nodes.
        self.awaiting_room: dict[Node, None] = {}
        # Likewise of those refused for a window: what it keeps depends on other trees, too.
        self.awaiting_windows: dict[Node, None] = {}
        # By root: the queues with pending workloads.  Queues that became empty or moved to another tree are
        # removed when the index is read.
        self._queues_with_pending: dict[Node, dict[ClusterQueueState, None]] = {}
        self._scheduled_requeues: dict[Node, None] = {}  # by root; see ``flush_requeues``
        self._quota_changes: dict[Node, int] = {}  # by root: how often limits or edges below it changed
        # By root, and None for all: how often a reservation was added or removed, or something may help.
        self._changes: dict[Node | None, int] = defaultdict(int)
        self._requeues = 0  # calls of ``schedule_requeue``
        self._versions: dict[Node, int] = {}  # by root: the number of the last of these calls

    @property
    def cohorts(self) -> Mapping[str, Node]:
        """Return the cohorts by name: those with an object, and those that only queues or cohorts name."""
        return self.quota.cohorts

    def is_active(self, queue: ClusterQueueState) -> bool:
        """Return True if the queue may admit."""
        return not queue.inactive_reasons

    def queues_below(self, node: Node) -> Iterator[ClusterQueueState]:
        """Return the cluster queues at and below ``node``."""
        below = [node]  # a stack: trees of cohorts may be deeper than recursion
        while below:
            current = below.pop()
            if self.quota.queues.get(current.name) is current:
                yield self.cluster_queues[current.name]
            below.extend(reversed(current.children))

    def queues_with_pending(self, root: Node) -> list[ClusterQueueState]:
        """Return the cluster queues of a tree that have pending workloads."""
        members = self._queues_with_pending.get(root, {})
        for queue in [queue for queue in members if queue.pending.is_empty or queue.node.root is not root]:
            del members[queue]
        return list(members)

    def note_pending(self, queue: ClusterQueueState) -> None:
        """Record that ``queue`` has pending workloads."""
        self._queues_with_pending.setdefault(queue.node.root, {})[queue] = None

    def note_root_change(self, node: Node) -> None:
        """Record that ``node``, and with it every node below, may have another root."""
        for queue in self.queues_below(node):
            if not queue.pending.is_empty:
                self.note_pending(queue)

    def generation(self, queue: ClusterQueueState) -> int:
        """Return a number that grows when a workload leaves the queue or quota in its tree changes."""
        return queue.generation + self._quota_changes.get(queue.node.root, 0)

    @property
    def requeues(self) -> int:
        """How often quota or a queue changed, or something else that may help any workload."""
        return self._requeues

    def version(self, node: Node) -> int:
        """Return the number of the last event that may help workloads of the tree of ``node``.

        Every outcome "does not fit" is remembered with this number and is void once the number is another
        one, whether or not a workload was pending at the event.  No two trees have the same number, so that
        a queue which moves to another tree takes no outcome along.
        """
        return self._versions.get(node.root, 0)

    def note_quota_change(self, node: Node) -> None:
        """Record a change of limits or edges at ``node``, which may help every workload of its tree."""
        root = node.root
        self._quota_changes[root] = self._quota_changes.get(root, 0) + 1
        self.preemption_history.clear(root)
        self.schedule_requeue(node)

    def note_external_change(self, queue: ClusterQueueState) -> None:
        """Record an external event that may help workloads of ``queue`` or of its tree."""
        self.preemption_history.clear(queue.node.root)
        self.schedule_requeue(queue.node)

    def note_usage_change(self, queue: ClusterQueueState | None) -> None:
        """Record a change of what has quota in a queue, or uses it; None: the queue does not exist."""
        self._changes[None] += 1
        if queue is not None:
            self._changes[queue.node.root] += 1

    def schedule_requeue(self, node: Node) -> None:
        """Make the inadmissible workloads of the tree of ``node`` active at the next ``flush_requeues``."""
        root = node.root
        self._requeues += 1
        self._versions[root] = self._requeues
        self._changes[None] += 1
        self._changes[root] += 1
        self._scheduled_requeues[root] = None
        self.dirty_trees[root] = 0
        if self.awaiting_windows:
            waiting, self.awaiting_windows = self.awaiting_windows, {}
            for other in waiting:
                self.schedule_requeue(other)

    def note_freed_room(self) -> None:
        """Retry workloads that wait for room: placed pods of whatever tree may have left it."""
        for root in self.awaiting_room:
            self.schedule_requeue(root)
        self.awaiting_room.clear()

    def mark_dirty(self, node: Node) -> None:
        """Let the next round look at the tree of ``node``, without requeueing inadmissible workloads."""
        self.dirty_trees[node.root] = 0

    def forget_former_roots(self, *nodes: Node) -> None:
        """Drop all values kept by root for each of ``nodes`` that is deleted or now has a parent."""
        for node in nodes:
            is_queue = self.quota.queues.get(node.name) is node
            if node.root is not node or not (is_queue or self.quota.cohorts.get(node.name) is node):
                for by_root in (self.awaiting_room, self.awaiting_windows, self._scheduled_requeues):
                    by_root.pop(node, None)
                for counts in (self.dirty_trees, self._quota_changes, self._versions):
                    counts.pop(node, None)
                self._changes.pop(node, None)
                self._queues_with_pending.pop(node, None)

    def flush_requeues(self) -> None:
        """Carry out the scheduled requeues: one pass over a tree, however many events there were."""
        for root in self._scheduled_requeues:
            for queue in self.queues_with_pending(root):
                queue.pending.queue_inadmissible(queue.newly_matching_namespaces(self.namespaces))
        self._scheduled_requeues.clear()

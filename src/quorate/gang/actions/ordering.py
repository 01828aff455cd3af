"""The order in which actions process queues, the gangs of a queue, and the tasks of a gang.

The plugins decide the order at the moment of each ``pop``.  The sort key of a gang depends only on the gang
and its tasks, so the keys of gangs without moved tasks are kept; queues are few and compared anew.

In profile ``compat`` queues are compared when Volcano compares them: when one of them is pushed to a heap or
popped.  With hierarchical shares, which one queue changes for others, the result is different.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from quorate.api.meta import Key
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.task import Task
from quorate.gang.session.callbacks import SortKey
from quorate.gang.session.session import Session
from quorate.placement.colocation import affinity_order


class GangQueues:
    """A priority queue of gangs for each queue.  Only one at a time may be in use in a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._heaps: dict[str, list[tuple[SortKey, Key]]] = {}  # by queue; entries may be outdated
        self._sort_keys: dict[Key, SortKey] = {}  # of the gangs in the heaps: identifies the valid entry
        self._volcano_order = (
            None
            if session.rules.compares_each_turn
            else VolcanoQueueOrder(session.queues, session.queue_order_key)
        )
        session.pop_moved_gangs()  # earlier moves are in the sort keys already

    def push(self, gang: Gang) -> None:
        """Add ``gang`` to its queue, or update its position."""
        sort_key = self._sort_keys[gang.key] = self._session.job_order_key(gang)
        if self._volcano_order is not None:
            self._volcano_order.add(gang.queue)
        heappush(self._heaps.setdefault(gang.queue, []), (sort_key, gang.key))

    def next_queue(self) -> Queue | None:
        """Return the first queue that has gangs, without removing it."""
        if self._volcano_order is not None:
            return self._volcano_order.next(self._heaps)
        queues = [self._session.queues[name] for name in self._heaps]
        return queues[0] if len(queues) == 1 else min(queues, key=self._session.queue_order_key, default=None)

    def pop(self, queue: Queue) -> Gang:
        """Remove and return the first gang of ``queue``."""
        gangs = self._session.model.gangs
        for key in self._session.pop_moved_gangs() & self._sort_keys.keys():
            self.push(gangs[key])
        heap = self._heaps[queue.name]
        while True:
            sort_key, key = heappop(heap)
            if self._sort_keys.get(key) is sort_key:
                break
        del self._sort_keys[key]
        self._trim(queue.name)
        return gangs[key]

    def pop_all(self, queue: Queue) -> Iterator[Gang]:
        """Remove and return the gangs of ``queue`` one by one, in the order at each step."""
        while queue.name in self._heaps:
            yield self.pop(queue)

    def discard(self, queue: Queue) -> list[Gang]:
        """Remove all gangs of ``queue`` and return them, in the order of the heap."""
        keys = [key for _, key in self._heaps.pop(queue.name) if self._sort_keys.pop(key, None) is not None]
        return [self._session.model.gangs[key] for key in keys]

    def _trim(self, name: str) -> None:
        """Drop outdated entries at the head of a heap, and an empty heap."""
        heap = self._heaps[name]
        while heap and self._sort_keys.get(heap[0][1]) is not heap[0][0]:
            heappop(heap)
        if not heap:
            del self._heaps[name]


class VolcanoQueueOrder:
    """The order of queues as Volcano's heap returns it.

    Source: Go's ``container/heap``, and the loop of Volcano's actions: a queue is popped, one of its gangs is
    processed, and the queue is pushed again; once its turn comes without gangs it is dropped.
    """

    def __init__(self, queues: Mapping[str, Queue], sort_key: Callable[[Queue], SortKey]) -> None:
        self._queues = queues
        self._sort_key = sort_key
        self._heap: list[str] = []
        self._known: set[str] = set()
        self._in_turn: str | None = None  # popped, to be pushed again

    def add(self, queue: str) -> None:
        if queue not in self._known:
            self._known.add(queue)
            self._push(queue)

    def next(self, with_gangs: Collection[str]) -> Queue | None:
        if self._in_turn is not None:
            self._push(self._in_turn)
            self._in_turn = None
        while self._heap:
            queue = self._pop()
            if queue in with_gangs:
                self._in_turn = queue
                return self._queues[queue]
        return None

    def _push(self, queue: str) -> None:
        heap = self._heap
        heap.append(queue)
        at = len(heap) - 1
        while at and self._is_before(heap[at], heap[parent := (at - 1) // 2]):
            heap[at], heap[parent] = heap[parent], heap[at]
            at = parent

    def _pop(self) -> str:
        heap = self._heap
        heap[0], heap[-1] = heap[-1], heap[0]
        popped = heap.pop()
        at = 0
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and self._is_before(heap[child + 1], heap[child]):
                child += 1
            if not self._is_before(heap[child], heap[at]):
                break
            heap[at], heap[child] = heap[child], heap[at]
            at = child
        return popped

    def _is_before(self, left: str, right: str) -> bool:
        return self._sort_key(self._queues[left]) < self._sort_key(self._queues[right])


def tasks_to_place(session: Session, gang: Gang, *, best_effort: bool) -> list[Task]:
    """Return the schedulable tasks of ``gang`` in order.  ``best_effort``: with best-effort tasks.

    In profile ``design`` the tasks that roles need for their minimum come first.  Within each part, tasks
    come after those that their required pod affinity needs, best-effort tasks last if that makes no
    difference, and nominated tasks first: otherwise a task that fits elsewhere might take the room that was
    freed for a nominated task.
    """
    tasks = session.in_task_order(gang.schedulable.values())
    if not best_effort:
        tasks = [task for task in tasks if not task.best_effort]
    tasks.sort(key=lambda task: not task.nominated_node)
    if not session.rules.plans_members:
        return tasks
    affinity_ranks = affinity_order(gang.shapes)
    tasks.sort(key=lambda task: (affinity_ranks[task.shape], task.best_effort))
    return needed_first(gang, tasks)


def needed_first(gang: Gang, tasks: Sequence[Task]) -> list[Task]:
    """Return ``tasks`` of ``gang`` with those first that roles need for their minimum."""
    missing = {role: minimum - gang.role(role).ready for role, minimum in gang.role_minima.items()}
    needed, surplus = divide_by_roles(tasks, missing)
    return needed + surplus


def divide_by_roles(tasks: Iterable[Task], missing: Mapping[str, int]) -> tuple[list[Task], list[Task]]:
    """Return the first tasks of each role that is ``missing`` members, as many as it is, and all others."""
    left = Counter(missing)
    needed: list[Task] = []
    others: list[Task] = []
    for task in tasks:
        (needed if left[task.role] > 0 else others).append(task)
        left[task.role] -= 1
    return needed, others

"""The order in which actions process queues, the gangs of a queue, and the tasks of a gang.

The order is that of the plugins at the moment of each ``pop``.  The sort key of a gang depends only on the
gang and its tasks, so the keys of gangs without moved tasks are kept; queues are few and compared anew.
"""

from collections import Counter
from collections.abc import Iterator
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
        session.pop_moved_gangs()  # earlier moves are in the sort keys already

    def push(self, gang: Gang) -> None:
        """Add ``gang`` to its queue, or update its position."""
        sort_key = self._sort_keys[gang.key] = self._session.job_order_key(gang)
        heappush(self._heaps.setdefault(gang.queue, []), (sort_key, gang.key))

    def next_queue(self) -> Queue | None:
        """Return the first queue that has gangs, without removing it."""
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

    def discard(self, queue: Queue) -> None:
        """Remove all gangs of ``queue``."""
        for _, key in self._heaps.pop(queue.name):
            self._sort_keys.pop(key, None)

    def _trim(self, name: str) -> None:
        """Drop outdated entries at the head of a heap, and an empty heap."""
        heap = self._heaps[name]
        while heap and self._sort_keys.get(heap[0][1]) is not heap[0][0]:
            heappop(heap)
        if not heap:
            del self._heaps[name]


def tasks_to_place(session: Session, gang: Gang, *, best_effort: bool) -> list[Task]:
    """Return the schedulable tasks of ``gang`` in order.  ``best_effort``: best-effort ones too.

    In profile ``design`` the tasks that roles need for their minimum come first.  Within each part, tasks
    come after those that their required pod affinity needs, and best-effort tasks last if that makes no
    difference.
    """
    tasks = session.in_task_order(gang.schedulable.values())
    if not best_effort:
        tasks = [task for task in tasks if not task.best_effort]
    if session.settings.profile == "compat":
        return tasks
    affinity_ranks = affinity_order(gang.shapes)
    tasks.sort(key=lambda task: (affinity_ranks[task.shape], task.best_effort))
    if not gang.role_minima:
        return tasks
    missing = Counter({role: minimum - gang.role(role).ready for role, minimum in gang.role_minima.items()})
    needed: list[Task] = []
    surplus: list[Task] = []
    for task in tasks:
        (needed if missing[task.role] > 0 else surplus).append(task)
        missing[task.role] -= 1
    return needed + surplus

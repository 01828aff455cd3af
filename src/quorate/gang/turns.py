"""Whose turn it is: queues take turns, and in each queue its gangs.

The order is that of the plugins at the moment somebody is asked for.  A gang's rank follows from the gang
itself and its tasks, so the ranks of gangs that did not move are kept; queues are few and ranked anew.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from quorate.api.meta import Key
from quorate.gang.gang import Gang
from quorate.gang.policy import Rank
from quorate.gang.queue import Queue
from quorate.gang.session import Session


class Turns:
    """Gangs that wait for their turn.  One at a time orders the gangs of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lines: dict[str, list[tuple[Rank, Key]]] = {}  # heaps by queue; entries may be outdated
        self._ranks: dict[Key, Rank] = {}  # of those that wait: the entry that counts
        session.moved_gangs()  # what moved before is ranked as it stands

    def add(self, gang: Gang) -> None:
        """Let it wait in the line of its queue."""
        rank = self._ranks[gang.key] = self._session.gang_rank(gang)
        heappush(self._lines.setdefault(gang.queue, []), (rank, gang.key))

    def next_queue(self) -> Queue | None:
        """The first queue of which some gang waits; it keeps its turn until others go before it."""
        queues = [self._session.queues[name] for name in self._lines]
        return queues[0] if len(queues) == 1 else min(queues, key=self._session.queue_rank, default=None)

    def next_gang(self, queue: Queue) -> Gang:
        """The first gang in the line of ``queue``, which it leaves."""
        gangs = self._session.model.gangs
        for key in self._session.moved_gangs() & self._ranks.keys():
            self.add(gangs[key])
        line = self._lines[queue.name]
        while True:
            rank, key = heappop(line)
            if self._ranks.get(key) is rank:
                break
        del self._ranks[key]
        self._trim(queue.name)
        return gangs[key]

    def gangs_of(self, queue: Queue) -> Iterator[Gang]:
        """All gangs in the line of ``queue``, each when its turn comes."""
        while queue.name in self._lines:
            yield self.next_gang(queue)

    def close(self, queue: Queue) -> None:
        """Send away all who wait in the line of ``queue``."""
        for _, key in self._lines.pop(queue.name):
            self._ranks.pop(key, None)

    def _trim(self, name: str) -> None:
        """Drop outdated entries at the head of a line, and the line with the last one."""
        line = self._lines[name]
        while line and self._ranks.get(line[0][1]) is not line[0][0]:
            heappop(line)
        if not line:
            del self._lines[name]

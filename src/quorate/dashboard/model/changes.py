"""Change notices: which parts of the page to read again.

All clients share one journal of the latest changes, and each has only a position in it.  A client that is too
slow, so that the journal no longer has what follows its position, is told to read everything again.  So no
number of changes or of slow clients needs more memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Container
from itertools import islice
from typing import Final, Literal, NamedTuple

from quorate.api.meta import Key, at_epoch
from quorate.dashboard.limits import GATHER_S, JOURNAL_MAX, NOTICE_INTERVAL_S, TOPICS_MAX
from quorate.dashboard.queries import Viewer
from quorate.dashboard.schema import ChangeNotice
from quorate.kube.clock import Clock

EVERYTHING: Final = "*"

_CLUSTER: Final = Key("", "")


class Changed(NamedTuple):
    """A change of one object; ``key`` has no name if it concerns all queues, nodes or forecasts."""

    kind: Literal["workload", "local_queue", "quota", "pod_group", "gang_queue", "node", "forecast", "all"]
    key: Key = _CLUSTER
    cluster_queues: tuple[str, ...] = ()  # of which the totals change


class ChangeFeed:
    """The journal of the latest changes, with a position for each client.

    ``visible`` returns the cluster queues with totals that a caller may see.
    """

    def __init__(self, clock: Clock, visible: Callable[[Viewer], Container[str]]) -> None:
        self._clock = clock
        self._visible = visible
        self._journal: deque[Changed] = deque(maxlen=JOURNAL_MAX)
        self._end = 0  # the number of all changes so far
        self._waiting: set[asyncio.Event] = set()  # of the subscribers that have seen everything

    def note(self, change: Changed) -> None:
        self._end += 1
        self._journal.append(change)
        for waiting in self._waiting:
            waiting.set()

    async def subscribe(self, viewer: Viewer) -> AsyncIterator[ChangeNotice]:
        """Yield notices of what the viewer may see, from now on, at most one in ``NOTICE_INTERVAL_S``."""
        steady, seen = self._clock.steady, self._end
        last = steady.now() - NOTICE_INTERVAL_S
        while True:
            if seen == self._end:
                await self._next_change()
            await steady.sleep_until(max(last + NOTICE_INTERVAL_S, steady.now() + GATHER_S))
            topics, seen, last = self.topics_since(seen, viewer), self._end, steady.now()
            if topics:
                yield ChangeNotice(at=at_epoch(self._clock.now()), topics=topics)

    async def _next_change(self) -> None:
        changed = asyncio.Event()
        self._waiting.add(changed)
        try:
            await changed.wait()
        finally:
            self._waiting.discard(changed)

    def topics_since(self, seen: int, viewer: Viewer) -> tuple[str, ...]:
        """Return what a viewer that has seen the first ``seen`` changes has to read again."""
        first = self._end - len(self._journal)
        if seen < first:
            return (EVERYTHING,)
        visible = self._visible(viewer)
        topics: dict[str, None] = {}
        for change in islice(self._journal, seen - first, None):
            topics.update(dict.fromkeys(_topics_of(change, viewer, visible)))
            if EVERYTHING in topics or len(topics) > TOPICS_MAX:
                return (EVERYTHING,)
        return tuple(sorted(topics))


def _topics_of(change: Changed, viewer: Viewer, visible: Container[str]) -> list[str]:
    topics: list[str] = []
    match change.kind:
        case "workload":
            if viewer.reads(change.key):
                topics += ("overview", "workloads", f"workloads/{change.key}")
        case "local_queue":
            if viewer.reads(change.key):
                topics += ("overview", "clusterqueues", "workloads")
        case "quota":
            topics += ("overview", "clusterqueues", "workloads")
        case "pod_group":
            if viewer.reads_pod_group(change.key):
                topics += ("overview", "podgroups", f"podgroups/{change.key}")
        case "gang_queue":
            topics += ("podgroups",)
        case "node":
            if viewer.nodes:
                topics += ("overview", "nodes")
        case "forecast":
            topics += ("forecast",)
        case "all":
            topics += (EVERYTHING,)
    for name in change.cluster_queues:
        if name in visible:
            topics += ("overview", "clusterqueues", f"clusterqueues/{name}")
    return topics

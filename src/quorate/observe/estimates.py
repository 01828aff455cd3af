"""The latest estimates of when waiting workloads start, as the process that computes them reports them."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from statistics import median
from typing import Any, Final, NamedTuple

from quorate.api.explanation import (
    NamedEstimate,
    StartAnswer,
    StartEstimate,
    StartEstimateList,
    StartQuestion,
)
from quorate.api.meta import Key, ObjectMeta, epoch
from quorate.observe.limits import MOST_QUESTIONS, QUESTION_DEADLINE_S
from quorate.queueing.state import State

PERCENTILES: Final = ("50", "90")


class MedianWait(NamedTuple):
    """Of the waiting workloads of a cluster queue: the median of the time until they start, in seconds."""

    cluster_queue: str
    percentile: str  # of the runs, in which a workload starts within that time
    seconds: float


class Question(NamedTuple):
    content: StartQuestion
    answer: asyncio.Future[StartAnswer]  # done if none is wanted any more


class Estimates:
    """Written by the process of the controllers; a workload that was admitted since then has none."""

    def __init__(self) -> None:
        self.questions: asyncio.Queue[Question] = asyncio.Queue(MOST_QUESTIONS)
        self.are_computed = False  # by this process
        # Answers for a cluster that serves no estimates: gets its name, a client of it, and the question.
        self.ask_model: Callable[[str, Any, StartQuestion], Awaitable[StartAnswer]] | None = None
        self.computed_at: float | None = None  # the moment that was played, epoch seconds; None: none yet
        self.processor_s = 0.0  # of the last refresh
        self._by_workload: Mapping[Key, StartEstimate] = {}

    def replace(
        self, by_workload: Mapping[Key, StartEstimate], computed_at: float, processor_s: float
    ) -> None:
        self._by_workload = by_workload
        self.computed_at, self.processor_s = computed_at, processor_s

    def of(self, state: State, key: Key) -> StartEstimate | None:
        """Return the estimate of a workload that waits by ``state``."""
        return self._by_workload.get(key) if key in state.ledger.entries else None

    async def would_start(self, question: StartQuestion) -> StartAnswer:
        """Return when the workload of a question would start, within ``QUESTION_DEADLINE_S``."""
        if not self.are_computed:
            return StartAnswer(starts="Unknown", reason="estimates are turned off")
        if self.questions.full():
            return StartAnswer(starts="Unknown", reason=f"{MOST_QUESTIONS} other questions wait")
        answer: asyncio.Future[StartAnswer] = asyncio.get_running_loop().create_future()
        self.questions.put_nowait(Question(question, answer))
        try:
            async with asyncio.timeout(QUESTION_DEADLINE_S):
                return await answer
        except TimeoutError:
            reason = f"it was not estimated within {QUESTION_DEADLINE_S:g} s"
            return StartAnswer(starts="Unknown", reason=reason)

    def in_namespace(self, state: State, namespace: str) -> StartEstimateList:
        """Return the estimates of a namespace, or of all if it is empty, by key."""
        items = tuple(
            NamedEstimate(
                metadata=ObjectMeta(namespace=key.namespace, name=key.name), estimate=self._by_workload[key]
            )
            for key in sorted(self._by_workload)
            if namespace in ("", key.namespace) and key in state.ledger.entries
        )
        return StartEstimateList(items=items)

    def median_waits(self, state: State) -> Iterator[MedianWait]:
        """Yield the figures of each cluster queue; workloads that start in too few of the runs never start.

        Times are from the moment of the estimates.
        """
        if self.computed_at is None:
            return
        waits: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        entries = state.ledger.entries
        for key, estimate in self._by_workload.items():
            entry = entries.get(key)
            local_queue = None if entry is None else state.ledger.local_queues.get(entry.local_queue)
            if local_queue is None:
                continue
            for percentile, moment in zip(PERCENTILES, (estimate.p50, estimate.p90), strict=True):
                seconds = float("inf") if moment is None else max(0.0, epoch(moment) - self.computed_at)
                waits[local_queue.cluster_queue, percentile].append(seconds)
        for (cluster_queue, percentile), of_queue in sorted(waits.items()):
            yield MedianWait(cluster_queue, percentile, median(of_queue))

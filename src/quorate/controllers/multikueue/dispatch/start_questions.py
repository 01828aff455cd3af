"""Ask worker clusters when they would start a workload, for the EarliestStart dispatcher.

Each cluster answers within a deadline.  A cluster that missed a deadline is not asked for a while: its start
is unknown until then, so that it does not delay every workload.

Only clusters that can change the choice are asked.  An answer counts for a part of the wait that it states.
A workload starts no earlier than an equal one that was asked about before it, so that the answer about that
one is a bound: clusters with bounds are asked in the order of the bounds, until the others can only start it
later.  While the nominated cluster starts the workload at once, no other cluster is asked.

One workload is asked about after the other: a cluster may not know the copy yet that the answers before led
to, and would offer the same room again.  The next questions therefore name the workloads that were nominated
a moment ago.  A cluster gets a bounded number of questions a second.  Answers are kept in memory only: a new
process asks again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.explanation import MAX_AHEAD, StartAnswer, StartQuestion, estimates_path
from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta, Uid
from quorate.controllers.multikueue.dispatch.dispatchers import (
    ASK_AGAIN_AT_MOST_S,
    MAX_REASON,
    ClusterStart,
    NominationInput,
    Position,
    StartsBy,
    UnknownStart,
    can_be_chosen,
    cluster_start,
    counts_s,
    earliest_start,
    rank_of,
)
from quorate.controllers.multikueue.workers import Worker, Workers
from quorate.controllers.multikueue.workload_copy import SpecSummary, summary_of
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Forbidden, NotFound, RequestFailed
from quorate.kube.flowcontrol import TokenBucketRateLimiter
from quorate.queueing.planning.work_kinds import WorkKind, kind_of

DEADLINE_S: Final = 15.0  # of one answer
QUESTIONS_A_SECOND: Final = 10.0  # to one cluster
BURST: Final = 20
RECENT_S: Final = 30.0  # for which a cluster may not know a copy: it is created, watched and modelled
SLOW_S: Final = 60.0  # for which a cluster is not asked after it missed a deadline

# Gets the name of a worker cluster that serves no estimates, a client of it, and the question.
AskModel = Callable[[str, Client, StartQuestion], Awaitable[StartAnswer]]


class _Answer(NamedTuple):
    at: float  # epoch seconds
    start: ClusterStart

    def counts(self, now: float) -> bool:
        return now < self.at + counts_s(self.start, self.at)

    @property
    def is_now(self) -> bool:
        return isinstance(self.start, StartsBy) and self.start.p50 <= self.at


class _Answers:
    """The questions about one workload, and the last answer of each cluster."""

    __slots__ = ("by_cluster", "is_asking", "uid")

    def __init__(self, uid: Uid) -> None:
        self.uid = uid
        self.by_cluster: dict[str, _Answer] = {}
        self.is_asking = False

    @property
    def starts(self) -> Mapping[str, ClusterStart]:
        return {name: answer.start for name, answer in self.by_cluster.items()}


_Equal = tuple[WorkKind, SpecSummary]  # what workloads have in common of which the starts bound each other


class _Turns:
    """When one worker cluster may be asked."""

    def __init__(self) -> None:
        self.limiter = TokenBucketRateLimiter(QUESTIONS_A_SECOND, BURST)
        self.recent: dict[Key, tuple[float, Workload]] = {}  # that were nominated, and when
        self.slow_until = 0.0  # epoch seconds
        self.nominated_at = 0.0  # epoch seconds of the last nomination


class StartQuestions:
    def __init__(self, workers: Workers, clock: Clock, ask_model: AskModel | None) -> None:
        """``ask_model``: None if estimates are turned off."""
        self.on_answered: Callable[[Key], object] = lambda key: None
        self._workers = workers
        self._clock = clock
        self._ask_model = ask_model
        self._answers: dict[Key, _Answers] = {}  # that which was needed last at the end
        self._equal: dict[_Equal, dict[str, _Answer]] = {}  # the last answers; used last at the end
        self._turns: dict[str, _Turns] = {}
        self._turn = asyncio.Lock()  # of one workload
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.Event().wait()

    def starts_of(self, workload: Workload, clusters: tuple[str, ...]) -> Mapping[str, ClusterStart]:
        """Return the last answers about a workload, and ask again if they are too old or miss a cluster.

        ``on_answered`` is called with the key of the workload once all that are asked have answered.
        """
        key, now = workload.metadata.key, self._clock.now()
        answers = self._answers.pop(key, None)
        if answers is None or answers.uid != workload.metadata.uid:
            answers = _Answers(workload.metadata.uid)
        self._answers[key] = answers
        connected = frozenset(name for name in clusters if self._workers.get(name) is not None)
        given = answers.by_cluster
        nominated = workload.status.nominated_cluster_names
        held = [given[name] for name in nominated if name in connected & given.keys()]
        is_complete = connected <= given.keys() or any(answer.is_now for answer in held)
        is_due = not is_complete or not all(
            answer.counts(now) for answer in held or [given[name] for name in connected]
        )
        if is_due and connected and not answers.is_asking and self._tasks is not None:
            answers.is_asking = True
            self._tasks.create_task(self._ask_all(workload, answers, connected, clusters))
            self._forget_unneeded(now)
        return answers.starts

    def _forget_unneeded(self, now: float) -> None:
        """Drop answers that are too old to be needed; the oldest are the first ones."""
        for key in list(self._answers)[:2]:
            answers = self._answers[key]
            if not answers.is_asking and _are_older(answers.by_cluster, now - 2 * ASK_AGAIN_AT_MOST_S):
                del self._answers[key]
        for kind in list(self._equal)[:2]:
            if _are_older(self._equal[kind], now - ASK_AGAIN_AT_MOST_S):
                del self._equal[kind]

    async def _ask_all(
        self, workload: Workload, answers: _Answers, clusters: frozenset[str], configured: tuple[str, ...]
    ) -> None:
        names = [name for name in configured if name in clusters]
        async with self._turn:
            answers.by_cluster = await self._ask_needed(workload, answers.by_cluster, names)
            answers.is_asking = False
            self._note_nomination(workload, configured, answers)
        self.on_answered(workload.metadata.key)

    async def _ask_needed(
        self, workload: Workload, given: Mapping[str, _Answer], names: Sequence[str]
    ) -> dict[str, _Answer]:
        """Return the answers of all clusters; ask again each cluster that can change the choice."""
        kind = kind_of(workload), summary_of(workload.spec)
        equal = self._equal[kind] = self._equal.pop(kind, {})
        now = self._clock.now()
        bounds = {name: answer for name in names if (answer := self._bound(name, given, equal, now))}
        answers: dict[str, _Answer] = {}

        async def ask(*clusters: str) -> None:
            starts = await asyncio.gather(*(self._ask(name, workload) for name in clusters))
            at = self._clock.now()
            new = {name: _Answer(at, start) for name, start in zip(clusters, starts, strict=True)}
            answers.update(new)
            equal.update(new)

        held = [name for name in names if name in workload.status.nominated_cluster_names]
        await ask(*held)
        if not any(answer.is_now for answer in answers.values()):
            await ask(*(name for name in names if name not in bounds and name not in held))

        def position(name: str) -> Position:
            answer = answers.get(name) or bounds[name]
            return rank_of(answer.start, now), names.index(name)

        nominated = next(map(position, held), None)
        for name in sorted(bounds.keys() - answers.keys(), key=position):
            if can_be_chosen(position(name), min(map(position, answers), default=None), nominated):
                await ask(name)
        usable = {**given, **bounds, **answers}
        return {name: usable[name] for name in names if name in usable}

    def _bound(
        self, name: str, given: Mapping[str, _Answer], equal: Mapping[str, _Answer], now: float
    ) -> _Answer | None:
        """Return an earlier answer of a cluster that the workload does not start before; None: there is none.

        A start at once is none any more if a workload was nominated there since: less quota is left.
        """
        answer = given.get(name)
        if answer is None and (answer := equal.get(name)) is not None and isinstance(answer.start, StartsBy):
            answer = answer._replace(start=replace(answer.start, is_bound=True))
        turns = self._turns.get(name)
        if answer is None or not answer.counts(now) or turns is None:
            return None
        return None if answer.is_now and turns.nominated_at >= answer.at else answer

    def _note_nomination(self, workload: Workload, configured: tuple[str, ...], answers: _Answers) -> None:
        """Remember the cluster that the answers lead to, which the dispatcher nominates next."""
        now = self._clock.now()
        info = NominationInput(
            workload=workload,
            clusters=configured,
            connected=frozenset(answers.by_cluster),
            nominated=workload.status.nominated_cluster_names,
            round_started=None,
            now=now,
            estimates=answers.starts,
        )
        for name in earliest_start(info).clusters:
            if name not in info.nominated:
                self._turns[name].recent[workload.metadata.key] = now, workload
                self._turns[name].nominated_at = now

    async def _ask(self, name: str, workload: Workload) -> ClusterStart:
        """Return when a cluster would start a workload."""
        turns = self._turns.setdefault(name, _Turns())
        await turns.limiter.wait()
        worker, now = self._workers.get(name), self._clock.now()
        if worker is None:
            return UnknownStart("not connected")
        if now < turns.slow_until:
            return UnknownStart("it answers too slowly")
        turns.recent = {key: recent for key, recent in turns.recent.items() if recent[0] >= now - RECENT_S}
        others = [other for key, (_, other) in turns.recent.items() if key != workload.metadata.key]
        ahead = tuple(_submitted(other) for other in others[-MAX_AHEAD:])
        question = StartQuestion(workload=_submitted(workload), ahead=ahead)
        try:
            async with asyncio.timeout(DEADLINE_S):
                answer = await self._answer(worker, question)
        except TimeoutError:
            turns.slow_until = self._clock.now() + SLOW_S
            return UnknownStart(f"no answer within {DEADLINE_S:g} s")
        except RequestFailed as error:
            return UnknownStart(str(error)[:MAX_REASON])
        return cluster_start(answer, self._clock.now())

    async def _answer(self, worker: Worker, question: StartQuestion) -> StartAnswer:
        try:
            return await served_start(worker, question)
        except (NotFound, Forbidden):
            if self._ask_model is None:
                return StartAnswer(starts="Unknown", reason="it serves no estimates")
        return await self._ask_model(worker.name, worker.client, question)


def _are_older(answers: Mapping[str, _Answer], than: float) -> bool:
    return all(answer.at < than for answer in answers.values())


def _submitted(workload: Workload) -> Workload:
    """Return the workload that a copy of ``workload`` would be when it is submitted.

    Its owner is kept, because the kind of work follows from the owner.
    """
    metadata = workload.metadata
    return Workload(
        metadata=ObjectMeta(
            namespace=metadata.namespace, name=metadata.name, owner_references=metadata.owner_references
        ),
        spec=workload.spec,
    )


async def served_start(worker: Worker, question: StartQuestion) -> StartAnswer:
    """Return the answer of the estimates API of a worker cluster.

    Raises ``NotFound`` if it is not served there, and ``RequestFailed``.
    """
    path = estimates_path(question.workload.metadata.namespace)
    return await worker.client.request_as(StartAnswer, "POST", path, body=codec.encode(question))

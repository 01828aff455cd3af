"""A session: one run of the configured actions over the model, and what follows from it.

Actions change the model only by moves (see ``gang.trial``).  What they keep is told to the API: binds and
evictions, which the model goes on assuming.  What they hold (a gang that only waits for room to be given
back) counts against everybody else until the session ends, and is then undone: the next session finds out
anew.  So between two sessions the model holds what the objects say, and decisions on their way; nothing else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from heapq import merge
from typing import Final, Literal

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.gang.gang import Gang
from quorate.gang.model import Model
from quorate.gang.outcome import Admitted, Bind, Eviction, Evictor, Nomination, Notice, Refused
from quorate.gang.policy import Policies, Rank
from quorate.gang.queue import Queue
from quorate.gang.queue_account import Account, Books, Path, asked_beside_members, asked_with_members
from quorate.gang.task import HOLDING, Standing, Task
from quorate.gang.tiers import Tiers, Vote, chosen, everyone, first_tier_agrees, objection
from quorate.gang.trial import Move, Trial
from quorate.gang.verdicts import Verdict
from quorate.placement.node_finder import NodeFinder

NOTICE_EVERY_S: Final = 300.0  # of one reason about one gang

_CHARGED = HOLDING | {Standing.PIPELINED}  # what plugins are told a task took


class Session:
    """See the module.  ``policies`` and ``node_finder`` are set after opening: plugins look at it first."""

    node_finder: NodeFinder  # the nodes, as the plugins have them judged and scored

    def __init__(self, model: Model, settings: SchedulerConfiguration, now: float) -> None:
        self.model = model
        self.cluster = model.cluster
        self.settings = settings
        self.now = now  # seconds since the epoch, the same throughout
        self.queues = model.queues
        # Those that take part, oldest first.
        self.gangs: Sequence[Gang] = sorted(model.taking_part(), key=lambda gang: (gang.created, gang.key))
        self.policies = Policies(())
        self.verdicts: dict[Key, Verdict] = {}  # why a gang waits, as far as this session found out
        self.binds: list[Bind] = []
        self.evictions: list[Eviction] = []
        self.nominations: list[Nomination] = []
        self.notices: list[Notice] = []
        self.admitted: list[Admitted] = []
        self.refused: list[Refused] = []
        self.sent_back: list[Refused] = []
        self.wake_at: float | None = None  # when time alone will change something
        self.tried_whole: set[Key] = set()  # gangs for which whole gangs were to be evicted
        self._moved: set[Key] = set()  # gangs whose tasks moved since somebody asked
        self._held: dict[Key, Task] = {}  # given or promised room that is taken back when the session ends

    # Asking.

    def books(self, path: Path) -> Books:
        """The accounts of all queues, for one plugin to keep.  ``path``: see ``Books``."""
        asked = asked_with_members if self.settings.profile == "compat" else asked_beside_members
        return Books(self.accounts, self.model.gangs, path, asked)

    @cached_property
    def accounts(self) -> Mapping[str, Account]:
        """The account of each queue that has gangs, as the session found it."""
        return self.model.ledger.accounts(self.gangs)

    @property
    def counts_best_effort(self) -> bool:
        """Whether pending members that ask for nothing count as ready (profile ``compat``)."""
        return self.settings.profile == "compat"

    def queue_of(self, gang: Gang) -> Queue:
        return self.queues[gang.queue]

    def gang_of(self, task: Task) -> Gang:
        return self.model.gangs[task.gang]

    def gang_rank(self, gang: Gang) -> Rank:
        return (*self._told_gang_rank(gang), gang.created, gang.key)

    def _told_gang_rank(self, gang: Gang) -> Rank:
        return tuple(voice(gang) for voice in everyone(self.policies.gang_rank))

    def queue_rank(self, queue: Queue) -> Rank:
        ranks = tuple(voice(queue) for voice in everyone(self.policies.queue_rank))
        return (*ranks, queue.age_rank)

    def in_task_order(self, tasks: Iterable[Task]) -> list[Task]:
        """The first first.  Whom no plugin tells apart their numbers do, and if one has none, their ages."""
        voices = tuple(everyone(self.policies.task_rank))

        def told(task: Task) -> Rank:
            return tuple(voice(task) for voice in voices)

        numbered: list[Task] = []
        others: list[Task] = []
        for task in tasks:
            (others if task.number is None else numbered).append(task)
        numbered.sort(key=lambda task: (told(task), task.number, task.age_rank))
        others.sort(key=lambda task: (told(task), task.age_rank))
        if not others:
            return numbered
        return list(merge(numbered, others, key=lambda task: (told(task), task.age_rank)))

    def is_ready(self, gang: Gang) -> bool:
        """Whether what the gang holds may be bound."""
        return all(voice(gang) for voice in everyone(self.policies.ready))

    def objection_to(self, gang: Gang) -> Verdict | Literal[Vote.REJECT] | None:
        """Why plugins vote against admitting the gang, which may be for no stated reason."""
        voices: Tiers[Callable[[], Vote | Verdict]] = [
            [partial(voice, gang) for voice in tier] for tier in self.policies.admits
        ]
        return objection(voices)

    def is_promised(self, gang: Gang) -> bool:
        """Whether the gang may keep what it holds and is promised, to wait for the rest."""
        return (
            objection([[partial(voice, gang) for voice in tier] for tier in self.policies.promised]) is None
        )

    def is_starving(self, gang: Gang) -> bool:
        """Whether others may be evicted for the gang."""
        return first_tier_agrees(
            [[partial(voice, gang) for voice in tier] for tier in self.policies.starving]
        )

    def invalidity(self, gang: Gang) -> Verdict | None:
        """Why the gang cannot be placed as it is, such as lacking members."""
        for voice in everyone(self.policies.valid):
            verdict = voice(gang)
            if verdict is not None:
                return verdict
        return None

    def is_overused(self, queue: Queue) -> bool:
        return any(voice(queue) for voice in everyone(self.policies.overused))

    def may_allocate(self, queue: Queue, task: Task) -> bool:
        return all(voice(queue, task) for voice in everyone(self.policies.allocatable))

    def may_fill(self, queue: Queue, task: Task) -> bool:
        """Whether the queue may have the task beyond its share, where the shares of others are not used."""
        return all(voice(queue, task) for voice in everyone(self.policies.fillable))

    def may_claim(self, queue: Queue, task: Task) -> bool:
        return all(voice(queue, task) for voice in everyone(self.policies.claims))

    def victims(self, evictor: Evictor, task: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Who of ``candidates``, which are in victim order, may be evicted for ``task``, in that order."""
        voices = self.policies.preemptable if evictor == "preempt" else self.policies.reclaimable
        asked = [[partial(voice, task, candidates) for voice in tier] for tier in voices]
        return chosen(asked, empty_is_final=self.settings.profile == "design")

    def may_give(self, evictor: Evictor, claimant: Gang, giver: Gang) -> bool:
        """Whether ``victims`` may name tasks of ``giver`` for some task of ``claimant``, as both stand now.

        Some tier has to choose them all, so that one plugin that never would speaks for its tier.
        """
        policies = self.policies
        choosers, screens = (
            (policies.preemptable, policies.unpreemptable)
            if evictor == "preempt"
            else (policies.reclaimable, policies.unreclaimable)
        )
        return any(
            choosing and not any(screen(claimant, giver) for screen in screening)
            for choosing, screening in zip(choosers, screens, strict=True)
        )

    def in_victim_order(self, candidates: Iterable[Task], claimant: Queue) -> list[Task]:
        """Who goes first first: of the queue furthest above its share, of the least gang, the least task.

        Gangs of one queue that no plugin tells apart are not told apart by age: among their tasks the order
        of tasks decides.
        """
        tasks = self.in_task_order(candidates)[::-1]
        gangs = {task.gang: self.model.gangs[task.gang] for task in tasks}
        ranks = {key: self._told_gang_rank(gang) for key, gang in gangs.items()}
        tasks.sort(key=lambda task: ranks[task.gang], reverse=True)
        queues = {gang.queue: self.queues[gang.queue] for gang in gangs.values()}
        if len(queues) == 1:
            return tasks
        shares = {name: self.queue_rank(queue) for name, queue in queues.items()}
        tasks.sort(key=lambda task: shares[gangs[task.gang].queue], reverse=True)
        voices = tuple(everyone(self.policies.victim_queue_rank))
        near = {name: tuple(voice(queue, claimant) for voice in voices) for name, queue in queues.items()}
        tasks.sort(key=lambda task: near[gangs[task.gang].queue])
        return tasks

    # Telling.

    def wake(self, at: float | None) -> None:
        """Time alone will change something at ``at``, which is not past; ``None``: it will not."""
        if at is not None and at > self.now and (self.wake_at is None or at < self.wake_at):
            self.wake_at = at

    def notice(
        self, gang: Gang, type_: Literal["Normal", "Warning"], reason: str, message: str, about: str = ""
    ) -> None:
        """Tell of ``gang`` by an event, unless one of this reason, about the same, was told lately."""
        last = gang.noticed.get((reason, about))
        if last is None or self.now - last >= NOTICE_EVERY_S:
            gang.noticed = {**gang.noticed, (reason, about): self.now}
            self.notices.append(Notice(gang.key, gang.uid, type_, reason, message))

    def yields(self, gang: Gang, claimant: Queue) -> bool:
        """Whether ``claimant``, another queue, may have the whole of ``gang`` evicted."""
        voices = tuple(everyone(self.policies.yields))
        return bool(voices) and all(voice(gang, claimant) for voice in voices)

    # Moving.

    def trial(self) -> Trial:
        return Trial(self)

    def apply(self, move: Move) -> None:
        assert (move.task.standing, move.task.node) == (move.was, move.was_on), f"{move} begins elsewhere"
        self.model.shift(move.task, move.becomes, move.on)
        self._moved.add(move.task.gang)
        if (move.was in _CHARGED) == (move.becomes in _CHARGED):
            return
        points = self.policies.took if move.becomes in _CHARGED else self.policies.gave_back
        for voice in everyone(points):
            voice(move.task)

    def moved_gangs(self) -> set[Key]:
        """The gangs whose tasks moved since this was asked last."""
        moved, self._moved = self._moved, set()
        return moved

    def hold(self, moves: Iterable[Move]) -> None:
        """Let ``moves`` of a gang that cannot be bound yet count until the session ends."""
        for move in moves:
            self._held[move.task.key] = move.task

    def commit(
        self, moves: Sequence[Move], gang: Gang, evictor: Evictor = "preempt", *, whole: bool = False
    ) -> None:
        """Have the API told of ``moves``, made for ``gang``: evictions, and nodes given to tasks.

        Promised room is held until the session ends, and noted on pods for which others were evicted there.
        """
        left: set[str] = set()  # nodes, for the next task that is promised one, or for all of a whole gang
        for move in moves:
            task = move.task
            match move.becomes:
                case Standing.RELEASING:
                    left.add(move.on)
                    self.model.assume_evicted(task, move.was)
                    self.evictions.append(Eviction(task.key, task.uid, task.gang, gang.key, evictor, whole))
                case Standing.ALLOCATED:
                    self.bind(task)
                case Standing.PIPELINED:
                    self._held[task.key] = task
                    if task.node in left and task.nominated != task.node:
                        task.nominated = task.node
                        self.nominations.append(Nomination(task.key, task.uid, task.node))
                    if not whole:
                        left.clear()
                case _:
                    raise AssertionError(f"{move} is none that the API is told of")

    def bind(self, task: Task) -> None:
        assert task.standing is Standing.ALLOCATED, f"{task.key} is {task.standing}"
        self._held.pop(task.key, None)
        self.model.assume_bound(task)
        self.binds.append(Bind(task.key, task.uid, task.gang, task.node, task.created))

    @property
    def promised(self) -> dict[Key, str]:
        return {key: task.node for key, task in self._held.items() if task.standing is Standing.PIPELINED}

    @property
    def promised_gangs(self) -> Sequence[Gang]:
        """Those of which members wait for room to be given back, each once."""
        keys = dict.fromkeys(task.gang for task in self._held.values() if task.standing is Standing.PIPELINED)
        return [self.model.gangs[key] for key in keys]

    def release_held(self) -> None:
        """End of the session: whatever was held and not bound is nobody's again."""
        for task in self._held.values():
            if task.standing in (Standing.ALLOCATED, Standing.PIPELINED):
                self.model.shift(task, Standing.PENDING, "")
        self._held.clear()

"""Calls of the plugins of a session that was just opened over a world of the vectors."""

from collections.abc import Mapping
from typing import Any

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.task import Task
from quorate.gang.session.callbacks import Vote, all_callbacks
from quorate.gang.session.session import Session
from quorate.gang.session.victims import choose_victims
from quorate.gang.session_opening import open_session
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of

Json = dict[str, Any]


class PluginSession:
    """A session of ``plugins``, in one tier, over the world ``given``.  Names as in the vectors."""

    def __init__(self, given: Mapping[str, Any], plugins: list[str | Json], profile: str = "compat") -> None:
        settings = settings_of({"actions": "allocate", "tiers": [plugins]}, profile)
        self.world = World(given, settings, restarting=False)
        self.session: Session = open_session(self.world.model, settings, self.world.now)

    def gang(self, name: str) -> Gang:
        return self.world.model.gangs[key_of(name)]

    def queue(self, name: str) -> Queue:
        return self.session.queues[name]

    def task(self, name: str) -> Task:
        key = key_of(name)
        return next(gang.tasks[key] for gang in self.world.model.gangs.values() if key in gang.tasks)

    def admission(self, gang: str) -> str:
        """Return the message of the gang's rejection; "" if all plugins permit it."""
        votes = [
            callback(self.gang(gang)) for callback in all_callbacks(self.session.callbacks.job_enqueueable)
        ]
        return "; ".join(str(vote) for vote in votes if not isinstance(vote, Vote))

    def invalid_queue(self, gang: str) -> str:
        """Return the message why the gang's queue serves none; "" if it serves gangs."""
        return str(self.session.invalid_queue_reason(self.queue(self.gang(gang).queue)) or "")

    def admit(self, gang: str) -> None:
        for callback in self.session.callbacks.job_enqueued:
            callback(self.gang(gang))

    def withdraw(self, gang: str) -> None:
        for callback in self.session.callbacks.job_dequeued:
            callback(self.gang(gang))

    def queue_order(self) -> list[str]:
        return sorted(self.session.queues, key=lambda name: self.session.queue_order_key(self.queue(name)))

    def gang_order(self) -> list[str]:
        return [gang.key.name for gang in sorted(self.session.gangs, key=self.session.job_order_key)]

    def evict(self, task: str) -> None:
        with self.session.statement() as statement:
            statement.evict(self.task(task))
            statement.commit()

    def pipeline(self, task: str, node: str) -> None:
        with self.session.statement() as statement:
            statement.pipeline(self.task(task), node)
            statement.commit()

    def allocatable(self, task: str) -> bool:
        return self.session.allocatable(self._home(task), self.task(task))

    def preemptive(self, task: str) -> bool:
        return self.session.preemptive(self._home(task), self.task(task).request)

    def _home(self, task: str) -> Queue:
        return self.queue(self.session.gang_of(self.task(task)).queue)

    def gang_reclaimable(self, gang: str, claimant: str) -> bool:
        return self.session.gang_reclaimable(self.gang(gang), self.queue(claimant))

    def reclaimable(self, claimant: str, candidates: list[str]) -> list[str]:
        return self._victims("reclaim", claimant, candidates)

    def preemptable(self, claimant: str, candidates: list[str]) -> list[str]:
        return self._victims("preempt", claimant, candidates)

    def _victims(self, action: Any, claimant: str, candidates: list[str]) -> list[str]:
        tasks = [self.task(name) for name in candidates]
        return [task.key.name for task in choose_victims(self.session, action, self.task(claimant), tasks)]

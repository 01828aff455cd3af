"""Commands to jobs and to queues, each of which is carried out once and then deleted."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from quorate.api.meta import Key, Uid
from quorate.api.volcano.job import Command
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, Unreachable
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import COMMANDS, Resource
from quorate.kube.writes import Delete, send

EARLY_S: Final = 5.0  # how long a command waits for what it is meant for: another watch tells of that


class CommandBus:
    """The commands to objects of one kind that were not taken up yet."""

    def __init__(
        self, client: Client, clock: Clock, commands: Informer[Command], resource: Resource[Any]
    ) -> None:
        self._client = client
        self._clock = clock
        self._commands = commands
        self._resource = resource
        self._index = f"commands to {resource.plural}"
        self._taken_up: set[Uid] = set()  # those that were deleted, until the watch says so
        commands.add_index(self._index, self._target)

    def follow(self, tell: Callable[[Key], None]) -> None:
        """Have ``tell`` called with whatever object has commands that changed."""

        def changed(change: Change[Command]) -> None:
            for command in (change.old, change.new):
                for key in () if command is None else self._target(command):
                    tell(key)
            if change.new is None and change.old is not None:
                self._taken_up.discard(change.old.metadata.uid)

        self._commands.subscribe(changed)

    async def to(self, key: Key, uid: Uid) -> list[Command]:
        """Those to the object, in the order they came; those to an earlier one of its name are deleted."""
        waiting = self._waiting(key)
        meant = [each for each in waiting if each.target is not None and each.target.uid in ("", uid)]
        await self.consume(each for each in waiting if each not in meant)
        return meant

    async def discard_orphans(self, key: Key) -> float | None:
        """Delete those to an object that is not there; when to look again, if some may be here before it."""
        early = [each for each in self._waiting(key) if _age(each)[0] + EARLY_S > self._clock.now()]
        await self.consume(each for each in self._waiting(key) if each not in early)
        return _age(early[0])[0] + EARLY_S if early else None

    async def consume(self, commands: Iterable[Command]) -> None:
        for command in commands:
            metadata = command.metadata
            self._taken_up.add(metadata.uid)  # before: the watch may be faster than the answer
            try:
                await send(self._client, (Delete(COMMANDS, metadata.key, metadata.uid),))
            except (ApiError, Unreachable):
                self._taken_up.discard(metadata.uid)
                raise

    def _waiting(self, key: Key) -> list[Command]:
        stored = self._commands.by_index(self._index, key)
        return sorted((each for each in stored if each.metadata.uid not in self._taken_up), key=_age)

    def _target(self, command: Command) -> tuple[Key, ...]:
        target, resource = command.target, self._resource
        if target is None or target.kind != resource.kind:
            return ()
        if target.api_version.partition("/")[0] != resource.group:
            return ()
        return (Key(command.metadata.namespace if resource.namespaced else "", target.name),)


def _age(command: Command) -> tuple[float, str, str]:
    metadata = command.metadata
    created = metadata.creation_timestamp
    return (0.0 if created is None else created.timestamp(), metadata.namespace, metadata.name)

"""The command bus: each command to a job or a queue is executed once, then deleted."""

from collections.abc import Callable, Iterable
from typing import Any

from quorate.api.meta import Key, Uid
from quorate.api.volcano.job import Command
from quorate.controllers.limits import ORPHAN_TIMEOUT_S
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import RequestFailed
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import COMMANDS, Resource
from quorate.kube.writes import Delete, send


class CommandBus:
    """The commands to objects of one kind that are not executed yet."""

    def __init__(
        self, client: Client, clock: Clock, commands: Informer[Command], resource: Resource[Any]
    ) -> None:
        self._client = client
        self._clock = clock
        self._commands = commands
        self._resource = resource
        self._index = f"commands to {resource.plural}"
        self._deleted: set[Uid] = set()  # until the watch delivers the deletion
        commands.add_index(self._index, self._target)

    def subscribe(self, enqueue: Callable[[Key], None]) -> None:
        """Call ``enqueue`` with the target of each command that changes."""

        def changed(change: Change[Command]) -> None:
            for command in change.versions:
                for key in self._target(command):
                    enqueue(key)
            if change.new is None and change.old is not None:
                self._deleted.discard(change.old.metadata.uid)

        self._commands.subscribe(changed)

    async def pending(self, key: Key, uid: Uid) -> list[Command]:
        """Return the commands to an object, oldest first; delete those to its predecessor."""
        commands = self._cached(key)
        await self.delete(command for command in commands if not _is_to(command, uid))
        return [command for command in commands if _is_to(command, uid)]

    async def delete_orphans(self, key: Key) -> float | None:
        """Delete the commands to an object that does not exist.

        Return when to check again if some are so young that their target may not have been delivered yet.
        """
        oldest = self._clock.now() - ORPHAN_TIMEOUT_S
        commands = self._cached(key)
        young = [command for command in commands if _age(command)[0] > oldest]
        await self.delete(command for command in commands if _age(command)[0] <= oldest)
        return _age(young[0])[0] + ORPHAN_TIMEOUT_S if young else None

    async def delete(self, commands: Iterable[Command]) -> None:
        for command in commands:
            metadata = command.metadata
            self._deleted.add(metadata.uid)  # first: the watch may be faster than the response
            try:
                await send(self._client, (Delete(COMMANDS, metadata.key, metadata.uid),))
            except RequestFailed:
                self._deleted.discard(metadata.uid)
                raise

    def _cached(self, key: Key) -> list[Command]:
        stored = self._commands.by_index(self._index, key)
        return sorted((command for command in stored if command.metadata.uid not in self._deleted), key=_age)

    def _target(self, command: Command) -> tuple[Key, ...]:
        target, resource = command.target, self._resource
        if target is None or target.kind != resource.kind:
            return ()
        if target.api_version.partition("/")[0] != resource.group:
            return ()
        return (Key(command.metadata.namespace if resource.namespaced else "", target.name),)


def _is_to(command: Command, uid: Uid) -> bool:
    return command.target is not None and command.target.uid in ("", uid)


def _age(command: Command) -> tuple[float, str, str]:
    metadata = command.metadata
    created = metadata.creation_timestamp
    return (0.0 if created is None else created.timestamp(), metadata.namespace, metadata.name)

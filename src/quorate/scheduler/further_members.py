"""Further members of gangs that run already: bound only under the requirements that their pod group has now.

An operator that enlarges a gang changes the pod group, then creates pods.  The watch of pods may be ahead of
that of pod groups: a session that knows the pods and the former ``minMember`` would bind a part of them.
A gang that has not started needs no such read: its pods are created after its admission.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from quorate.api.meta import Key
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import native_name
from quorate.gang.outcome import Bind
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.flowcontrol import until_answered
from quorate.kube.log import logger
from quorate.kube.resources import POD_GROUPS, Resource
from quorate.scheduler.binder import Binder
from quorate.scheduler.limits import CONFLICT_S


class FurtherMembers:
    """Gives binds to ``binder``; ``on_refusal`` is called for each bind that another spec may forbid."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        model: Model,
        native: Callable[[], Resource[NativePodGroup]],
        binder: Binder,
        on_refusal: Callable[[Bind], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._model = model
        self._native = native
        self._binder = binder
        self._on_refusal = on_refusal
        self._log = logger(__name__)

    def start(self, tasks: asyncio.TaskGroup, binds: Iterable[Bind]) -> None:
        at_once: list[Bind] = []
        further: dict[Key, list[Bind]] = {}
        for bind in binds:
            gang = self._model.gangs.get(bind.gang)
            if gang is None or not gang.task_counts.scheduled:
                at_once.append(bind)
            else:
                further.setdefault(gang.key, []).append(bind)
        self._binder.start(tasks, at_once)
        for key, of_gang in further.items():
            gang = self._model.gangs[key]
            decided = gang.spec if gang.native is None else gang.native
            tasks.create_task(self._bind(tasks, key, decided, of_gang), name="further members")

    async def _bind(self, tasks: asyncio.TaskGroup, gang: Key, decided: object, binds: list[Bind]) -> None:
        stored = await until_answered(partial(self._read, gang), self._clock, self._client.rng)
        if stored == decided:
            self._binder.start(tasks, binds)
            return
        self._log.info("pod group changed before further members were bound", key=gang, binds=len(binds))
        steady = self._clock.steady
        await steady.sleep_until(steady.now() + CONFLICT_S)
        for bind in binds:
            self._on_refusal(bind)

    async def _read(self, gang: Key) -> object:
        """Return the spec of the pod group as the API server has it; None if it does not exist."""
        native = native_name(gang)
        if native is not None:
            native_group = await self._client.find(self._native(), native)
            return None if native_group is None else native_group.spec
        group = await self._client.find(POD_GROUPS, gang)
        return None if group is None else group.spec

"""The plain scheduler: binds one pod at a time, in the order of priority, then arrival.

Each pod is judged alone, against what is free at that moment.  Pods that must run together may therefore
end up half placed and wait for each other for ever: preventing that is what gang admission is for.
"""

import asyncio
import random
from heapq import heappop, heappush
from itertools import count
from typing import Final, assert_never

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import Node, Pod
from quorate.api.events import ObjectReference
from quorate.api.meta import Condition, Key, Uid, at_epoch, epoch, find_condition, with_condition
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, Conflict, NotFound, Unreachable
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import status_merge_patch
from quorate.kube.resources import NODES, PODS
from quorate.local.controllers.core_events import EventWriter
from quorate.local.controllers.scheduler_filters import (
    Amounts,
    NodeRoom,
    Placement,
    Refusal,
    amounts_of,
    choose_node,
)

OUR_NAME: Final = "default-scheduler"
RETRY_S: Final = 1.0  # after the API refused or could not be reached

Rank = tuple[int, float, int, Key]


class Scheduler:
    """Works once its informer of pods, which it does not run itself, has synced."""

    def __init__(self, client: Client, clock: Clock, rng: random.Random, pods: Informer[Pod]) -> None:
        self._client = client
        self._clock = clock
        self._node_cache = Informer(client, NODES)
        self._pods_synced = pods.synced
        self._events = EventWriter(client, clock, rng, OUR_NAME)
        self._rooms: dict[str, NodeRoom] = {}
        # What bound pods hold, also of those we bound and the watch has not shown bound yet, and of those
        # on nodes that are not there (yet).
        self._held: dict[Uid, tuple[str, Amounts]] = {}
        self._pending: dict[Key, Pod] = {}  # ours to bind: each in the queue or refused
        self._arrivals: dict[Key, int] = {}  # of every pending pod, its place in the order they came
        self._arrival = count()
        self._queue: list[Rank] = []  # a heap; entries of pods that are no longer pending are skipped
        self._refused: set[Key] = set()  # pending, and refused since anything last became free
        self._refusals: dict[bytes, Refusal] = {}  # by encoded spec: equal pods need not be judged again
        self._news = asyncio.Event()
        self._log = logger(__name__)
        self._node_cache.subscribe(self._on_node)
        pods.subscribe(self._on_pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._node_cache.run())
            tasks.create_task(self._events.run())
            await self._node_cache.synced.wait()
            await self._pods_synced.wait()
            while True:
                await self._news.wait()
                self._news.clear()
                await self._drain()

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is None:
            assert change.old is not None
            del self._rooms[change.old.metadata.name]
            return
        room = self._rooms.get(change.new.metadata.name)
        if room is not None:
            room.node = change.new
        else:
            room = self._rooms[change.new.metadata.name] = NodeRoom(change.new)
            for node, amounts in self._held.values():
                if node == room.name:
                    room.take(amounts)
        self._reconsider()

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None or pod.status.phase in ("Succeeded", "Failed"):
            gone = pod or change.old
            assert gone is not None
            self._forget(gone.metadata.key)
            self._release(gone.metadata.uid)
        elif pod.spec.node_name:
            self._forget(pod.metadata.key)
            self._hold(pod, pod.spec.node_name)
        elif pod.metadata.uid in self._held:
            return  # bound by us a moment ago
        elif _is_ours(pod):
            known = self._pending.get(pod.metadata.key)
            self._pending[pod.metadata.key] = pod
            if known is None or known.spec != pod.spec:
                self._enqueue(pod)
        else:
            self._forget(pod.metadata.key)

    def _hold(self, pod: Pod, node: str) -> None:
        if pod.metadata.uid in self._held:
            return
        amounts = amounts_of(pod.spec)
        self._held[pod.metadata.uid] = (node, amounts)
        if node in self._rooms:
            self._rooms[node].take(amounts)

    def _release(self, uid: Uid) -> None:
        node, amounts = self._held.pop(uid, ("", {}))
        if node in self._rooms:
            self._rooms[node].give_back(amounts)
            self._reconsider()

    def _enqueue(self, pod: Pod) -> None:
        self._refused.discard(pod.metadata.key)
        arrival = self._arrivals.setdefault(pod.metadata.key, next(self._arrival))
        heappush(self._queue, _rank(pod, arrival))
        self._news.set()

    def _forget(self, key: Key) -> None:
        self._pending.pop(key, None)
        self._arrivals.pop(key, None)
        self._refused.discard(key)

    def _reconsider(self) -> None:
        """Something may have become free: what was refused is asked again."""
        self._refusals.clear()
        for key in sorted(self._refused):
            self._enqueue(self._pending[key])

    async def _drain(self) -> None:
        while self._queue:
            *_, key = heappop(self._queue)
            pod = self._pending.get(key)
            if pod is None or key in self._refused:
                continue
            try:
                await self._schedule(pod)
            except (NotFound, Conflict):
                continue  # deleted, or changed by somebody else: the watch will tell
            except (ApiError, Unreachable) as error:
                self._log.warning("retrying", pod=key, problem=str(error))
                await self._clock.sleep_until(self._clock.now() + RETRY_S)
                self._pending.setdefault(key, pod)
                self._enqueue(pod)

    async def _schedule(self, pod: Pod) -> None:
        shape = codec.encode(pod.spec)
        choice = self._refusals.get(shape) or choose_node(pod, self._rooms.values())
        match choice:
            case Placement(node):
                await self._bind(pod, node)
            case Refusal():
                self._refusals[shape] = choice
                self._refused.add(pod.metadata.key)
                await self._explain(pod, str(choice))
            case _:
                assert_never(choice)

    async def _bind(self, pod: Pod, node: str) -> None:
        key = pod.metadata.key
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        # Held before it is asked for: the watch may be faster than the answer.
        self._forget(key)
        self._hold(pod, node)
        try:
            path = PODS.path(key.namespace, key.name, "binding")
            await self._client.request("POST", path, body=codec.encode(body))
        except (ApiError, Unreachable):
            self._release(pod.metadata.uid)
            raise
        self._log.debug("pod bound", pod=key, node=node)
        self._events.tell(_about(pod), "Normal", "Scheduled", f"Successfully assigned {key} to {node}")

    async def _explain(self, pod: Pod, message: str) -> None:
        said = find_condition(pod.status.conditions, "PodScheduled")
        if said is not None and (said.status, said.message) == ("False", message):
            return
        new = Condition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message=message,
            last_transition_time=at_epoch(self._clock.now()),
        )
        status = replace(pod.status, conditions=with_condition(pod.status.conditions, new))
        patch = status_merge_patch(pod.metadata, pod.status, status)
        await self._client.patch(PODS, pod.metadata.key, patch, subresource="status")
        self._events.tell(_about(pod), "Warning", "FailedScheduling", message)


def _is_ours(pod: Pod) -> bool:
    return (
        pod.spec.scheduler_name == OUR_NAME
        and not pod.spec.scheduling_gates
        and pod.metadata.deletion_timestamp is None
    )


def _rank(pod: Pod, arrival: int) -> Rank:
    """The order of the queue: higher priority, then older, then as they came.

    Creation is known to the second only.  Within it the order of the watch is the order in which pods were
    made; by name instead, all pods of one job would go before those of another that were made in between.
    """
    assert pod.metadata.creation_timestamp is not None, f"pod {pod.metadata.key} was never created"
    return (-(pod.spec.priority or 0), epoch(pod.metadata.creation_timestamp), arrival, pod.metadata.key)


def _about(pod: Pod) -> ObjectReference:
    metadata = pod.metadata
    return ObjectReference(
        api_version="v1",
        kind="Pod",
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )

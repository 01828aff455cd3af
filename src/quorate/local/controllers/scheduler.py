"""The plain scheduler: binds one pod at a time, by priority, then by age.

Each pod is scheduled alone against the currently free resources. Pods that must run together may therefore
deadlock, each group partly placed; gang admission prevents that.  The pod groups of Kubernetes are ignored,
and an event on the first pod of a group says so.
"""

import asyncio
import random
from heapq import heappop, heappush
from itertools import count
from typing import Final, assert_never

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import Node, Pod
from quorate.api.meta import Key, Uid, condition_at, epoch, find_condition, with_condition
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Conflict, NotFound, RequestFailed, Unreachable
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import status_merge_patch
from quorate.kube.resources import PODS
from quorate.local.controllers.controller import EventRecorder
from quorate.local.controllers.scheduler_filters import (
    FitError,
    NodeInfo,
    ResourceAmounts,
    SelectedNode,
    pod_amounts,
    select_node,
)

SCHEDULER_NAME: Final = "default-scheduler"
RETRY_S: Final = 1.0  # after an API error

QueueKey = tuple[int, float, int, Key]


class IgnoredGroups:
    """The pod groups that an event calls ignored, each until the pod with the event is gone."""

    def __init__(self) -> None:
        self._pods: dict[Key, Uid] = {}  # the pod with the event, by group

    def first_seen(self, pod: Pod) -> Key | None:
        """Return the group of ``pod`` if no other pod stands for it; None otherwise, or if it has none."""
        group = _pod_group_of(pod)
        if group is None or group in self._pods:
            return None
        self._pods[group] = pod.metadata.uid
        return group

    def forget(self, pod: Pod) -> None:
        group = _pod_group_of(pod)
        if group is not None and self._pods.get(group) == pod.metadata.uid:
            del self._pods[group]


def _pod_group_of(pod: Pod) -> Key | None:
    group = pod.spec.scheduling_group
    return Key(pod.metadata.namespace, group.pod_group_name) if group and group.pod_group_name else None


class Scheduler:
    """Binds pods of "default-scheduler".  The caller runs the informers."""

    def __init__(
        self, client: Client, clock: Clock, rng: random.Random, pods: Informer[Pod], nodes: Informer[Node]
    ) -> None:
        self._client = client
        self._clock = clock
        self._synced = (nodes.synced, pods.synced)
        self._events = EventRecorder(client, clock, rng, SCHEDULER_NAME)
        self._nodes: dict[str, NodeInfo] = {}
        # Assumed and bound pods with their node and resources. Includes pods that the watch has not delivered
        # as bound yet, and pods on unknown nodes.
        self._assumed: dict[Uid, tuple[str, ResourceAmounts]] = {}
        self._pending: dict[Key, Pod] = {}  # pods to bind: queued, unschedulable, or to be tried again
        self._arrivals: dict[Key, int] = {}  # arrival number of every pending pod
        self._next_arrival = count()
        self._queue: list[QueueKey] = []  # a heap; entries of pods that are no longer pending are skipped
        self._unschedulable: set[Key] = set()  # pending pods that fit on no node
        self._fit_errors: dict[bytes, FitError] = {}  # by encoded spec, because equal pods have equal results
        self._ignored_groups = IgnoredGroups()
        self._wakeup = asyncio.Event()
        self._log = logger(__name__)
        nodes.subscribe(self._on_node)
        pods.subscribe(self._on_pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            for synced in self._synced:
                await synced.wait()
            while True:
                await self._wakeup.wait()
                self._wakeup.clear()
                await self._drain(tasks)

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is None:
            assert change.old is not None
            del self._nodes[change.old.metadata.name]
            return
        node_info = self._nodes.get(change.new.metadata.name)
        if node_info is not None:
            node_info.node = change.new
        else:
            node_info = self._nodes[change.new.metadata.name] = NodeInfo(change.new)
            for node, amounts in self._assumed.values():
                if node == node_info.name:
                    node_info.add_pod(amounts)
        self._retry_unschedulable()

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None or pod.status.phase in ("Succeeded", "Failed"):
            gone = pod or change.old
            assert gone is not None
            self._ignored_groups.forget(gone)
            self._remove_pending(gone.metadata.key)
            self._forget_assumed(gone.metadata.uid)
        elif pod.spec.node_name:
            self._remove_pending(pod.metadata.key)
            if change.old is None or change.old.spec != pod.spec:
                self._assume(pod, pod.spec.node_name)
        elif pod.metadata.uid in self._assumed:
            return  # bound by this scheduler a moment ago
        elif _is_schedulable(pod):
            pending = self._pending.get(pod.metadata.key)
            self._pending[pod.metadata.key] = pod
            if pending is None or pending.spec != pod.spec:
                self._enqueue(pod)
        else:
            self._remove_pending(pod.metadata.key)

    def _assume(self, pod: Pod, node: str) -> None:
        """Count the pod on the node with what it requests now: it may be resized."""
        amounts = pod_amounts(pod.spec)
        if self._assumed.get(pod.metadata.uid) == (node, amounts):
            return
        self._forget_assumed(pod.metadata.uid)
        self._assumed[pod.metadata.uid] = (node, amounts)
        if node in self._nodes:
            self._nodes[node].add_pod(amounts)

    def _forget_assumed(self, uid: Uid) -> None:
        node, amounts = self._assumed.pop(uid, ("", {}))
        if node in self._nodes:
            self._nodes[node].remove_pod(amounts)
            self._retry_unschedulable()

    def _enqueue(self, pod: Pod) -> None:
        self._unschedulable.discard(pod.metadata.key)
        arrival = self._arrivals.setdefault(pod.metadata.key, next(self._next_arrival))
        heappush(self._queue, _queue_key(pod, arrival))
        self._wakeup.set()

    def _remove_pending(self, key: Key) -> None:
        self._pending.pop(key, None)
        self._arrivals.pop(key, None)
        self._unschedulable.discard(key)

    def _retry_unschedulable(self) -> None:
        """Queue unschedulable pods again, because resources may have become free."""
        self._fit_errors.clear()
        for key in sorted(self._unschedulable):
            self._enqueue(self._pending[key])

    async def _drain(self, retries: asyncio.TaskGroup) -> None:
        while self._queue:
            *_, key = heappop(self._queue)
            pod = self._pending.get(key)
            if pod is None or key in self._unschedulable:
                continue
            try:
                await self._schedule(pod)
            except (NotFound, Conflict):
                continue  # deleted or changed; the watch will deliver it
            except RequestFailed as error:
                self._log.warning("retrying", pod=key, problem=str(error))
                retry = self._retry(self._pending.setdefault(key, pod))
                if isinstance(error, Unreachable):
                    await retry
                else:  # a refusal concerns this pod: the others go on
                    retries.create_task(retry)

    async def _retry(self, pod: Pod) -> None:
        """Queue a pod again after a while, unless it changes or is deleted until then."""
        await self._clock.sleep_until(self._clock.now() + RETRY_S)
        if self._pending.get(pod.metadata.key) is pod:
            self._enqueue(pod)

    async def _schedule(self, pod: Pod) -> None:
        self._report_ignored_group(pod)
        shape = codec.encode(pod.spec)
        choice = self._fit_errors.get(shape) or select_node(pod, self._nodes.values())
        match choice:
            case SelectedNode(node):
                await self._bind(pod, node)
            case FitError():
                self._fit_errors[shape] = choice
                self._unschedulable.add(pod.metadata.key)
                await self._report_unschedulable(pod, str(choice))
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
        # Assume the pod before the request: the watch may be faster than the response.
        self._remove_pending(key)
        self._assume(pod, node)
        try:
            path = PODS.path(key.namespace, key.name, "binding")
            await self._client.request("POST", path, body=codec.encode(body))
        except RequestFailed:
            self._forget_assumed(pod.metadata.uid)
            raise
        self._log.debug("pod bound", pod=key, node=node)
        self._events.report(PODS, pod, "Scheduled", f"Successfully assigned {key} to {node}")

    def _report_ignored_group(self, pod: Pod) -> None:
        if group := self._ignored_groups.first_seen(pod):
            text = (
                f"the local cluster's {SCHEDULER_NAME} places each pod of pod group {group.name} "
                "alone: give the pods the schedulerName of the gang scheduler"
            )
            self._events.report(PODS, pod, "PodGroupIgnored", text, warning=True)

    async def _report_unschedulable(self, pod: Pod, message: str) -> None:
        current = find_condition(pod.status.conditions, "PodScheduled")
        if current is not None and (current.status, current.message) == ("False", message):
            return
        new = condition_at(self._clock.now(), "PodScheduled", "False", "Unschedulable", message)
        status = replace(pod.status, conditions=with_condition(pod.status.conditions, new))
        patch = status_merge_patch(pod.metadata, pod.status, status)
        await self._client.patch(PODS, pod.metadata.key, patch, subresource="status")
        self._events.report(PODS, pod, "FailedScheduling", message, warning=True)


def _is_schedulable(pod: Pod) -> bool:
    return (
        pod.spec.scheduler_name == SCHEDULER_NAME
        and not pod.spec.scheduling_gates
        and pod.metadata.deletion_timestamp is None
    )


def _queue_key(pod: Pod, arrival: int) -> QueueKey:
    """Return the queue order: higher priority, then older, then earlier arrival.

    Creation times have a resolution of one second. Within a second pods are ordered by arrival in the watch,
    which is their creation order. Ordering by name would let all pods of one job precede interleaved pods of
    another job.
    """
    assert pod.metadata.creation_timestamp is not None, f"pod {pod.metadata.key} was never created"
    return (-(pod.spec.priority or 0), epoch(pod.metadata.creation_timestamp), arrival, pod.metadata.key)

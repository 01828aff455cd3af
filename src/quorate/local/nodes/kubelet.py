"""The kubelet of the simulated nodes: watches their pods and executes ``next_step``."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Final

from quorate.api.core.pod_resources import RESIZE_PENDING, pod_requests
from quorate.api.meta import Key, Uid, at_epoch, find_condition
from quorate.api.quantity import parse_quantity
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.patches import status_merge_patch
from quorate.local.nodes.behavior import InvalidBehavior
from quorate.local.nodes.fleet import POD_NETWORK, AddressPool, Node
from quorate.local.nodes.lifecycle import (
    PodCounts,
    Progress,
    Step,
    behavior_of,
    counts_as_running,
    next_step,
    waits_to_run,
)
from quorate.local.nodes.pod_status import (
    NodeCapacity,
    PodAddresses,
    is_resized,
    with_ephemeral_containers,
    with_resized_containers,
)
from quorate.local.nodes.pod_types import PODS, Pod
from quorate.local.own_writes import MutationCache

WORKERS = 16
RESIZE_RETRY_S: Final = 10.0  # of a resize for which the node has no room yet


class Kubelet:
    """One kubelet for all simulated nodes; pods on other nodes count only as peers."""

    def __init__(self, client: Client, clock: Clock, nodes: Informer[Node], speed: float) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes
        self._speed = speed
        self._cache = Informer(client, PODS)
        self._pods = MutationCache(self._cache, owner_of)
        # Of pods with a current stage that began, or was read, in this process.
        self._progress: dict[Uid, Progress] = {}
        self._counts: dict[Uid, PodCounts] = {}  # by owner
        self._resized: set[Uid] = set()  # pods with a resize that is not in their status yet
        self._cache.add_index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
        self._addresses = AddressPool(POD_NETWORK, ())
        self._reconciler = Reconciler("kubelet", self.reconcile, clock, WORKERS)

    async def run(self) -> None:
        self._cache.subscribe(self._on_pod)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cache.run())
            await self._cache.synced.wait()
            taken = (pod.status.pod_ip for pod in self._cache if pod.status.pod_ip)
            self._addresses = AddressPool(POD_NETWORK, taken)
            self._nodes.subscribe(self._on_node)
            tasks.create_task(self._reconciler.run())

    def _on_pod(self, change: Change[Pod]) -> None:
        if change.new is None:
            assert change.old is not None
            self._progress.pop(change.old.metadata.uid, None)
            self._resized.discard(change.old.metadata.uid)
        else:
            if is_resized(change.new) or (
                change.old is not None and _resources_differ(change.old, change.new)
            ):
                self._resized.add(change.new.metadata.uid)
            self._reconciler.enqueue(change.new.metadata.key)
        before, after = counts_of(change.old), counts_of(change.new)
        pod = change.new or change.old
        owner = owner_of(pod) if pod else None
        if owner is not None and before != after:
            self._count(owner, before, after)

    def _on_node(self, change: Change[Node]) -> None:
        """Enqueue the pods of a node that became a simulated one."""
        if _simulated_address(change.new) and not _simulated_address(change.old):
            for pod in self._cache.by_index("node", change.key.name):
                self._reconciler.enqueue(pod.metadata.key)

    def _count(self, owner: Uid, before: PodCounts, after: PodCounts) -> None:
        """Update the counts of an owner, and enqueue its pods that may progress now, or no longer."""
        old = self._counts.get(owner, PodCounts())
        new = old - before + after
        if new == PodCounts():
            self._counts.pop(owner, None)
        else:
            self._counts[owner] = new
        for peer in self._pods.by_group(owner):
            try:
                behavior = behavior_of(peer)
            except InvalidBehavior:
                continue
            if old.suffice(behavior) != new.suffice(behavior):
                self._reconciler.enqueue(peer.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        host_ip = "" if pod is None else _simulated_address(self._nodes.get(Key("", pod.spec.node_name)))
        if pod is None or not host_ip:
            return None
        uid = pod.metadata.uid
        addresses = PodAddresses(host_ip, pod.status.pod_ip or self._addresses.allocate())
        step = next_step(
            pod, self._progress.get(uid), self._counts_with(pod), addresses, self._clock.now(), self._speed
        )
        step = self._with_container_changes(pod, step)
        await self._execute(pod, step)
        if step.progress is None:
            self._progress.pop(uid, None)
        else:
            self._progress[uid] = step.progress
        return step.wake_at

    def _with_container_changes(self, pod: Pod, step: Step) -> Step:
        """Return the step that also starts ephemeral containers and resizes containers."""
        status, moment, wake_at = step.status or pod.status, at_epoch(self._clock.now()), step.wake_at
        if status.phase != "Running" or pod.metadata.deletion_timestamp is not None:
            return step
        status = with_ephemeral_containers(pod, status, moment)
        if pod.metadata.uid in self._resized:
            status = with_resized_containers(pod, status, self._capacity_for(pod), moment)
            if find_condition(status.conditions, RESIZE_PENDING) is None:
                self._resized.discard(pod.metadata.uid)
            else:
                retry_at = self._clock.now() + RESIZE_RETRY_S
                wake_at = retry_at if wake_at is None else min(wake_at, retry_at)
        if status == pod.status:
            return replace(step, wake_at=wake_at)
        return replace(step, status=status, wake_at=wake_at)

    def _capacity_for(self, pod: Pod) -> NodeCapacity:
        """Return what the pod's node can allocate, and how much of it its other pods do not request."""
        node = self._nodes.get(Key("", pod.spec.node_name))
        assert node is not None, "a pod of a simulated node"
        allocatable = {name: parse_quantity(amount).nanos for name, amount in node.status.allocatable.items()}
        free = Counter(allocatable)
        for other in self._cache.by_index("node", pod.spec.node_name):
            if other.metadata.uid != pod.metadata.uid and other.status.phase not in ("Succeeded", "Failed"):
                amounts = pod_requests(other.spec)
                free.subtract({name: amount.nanos for name, amount in amounts.items()})
        return NodeCapacity(allocatable, free)

    def _counts_with(self, pod: Pod) -> PodCounts:
        """Return the counts of the pod's owner with the pod itself as a running one."""
        owner = owner_of(pod)
        if owner is None:
            return PodCounts(running=1)
        counted = counts_of(self._cache.get(pod.metadata.key))
        return self._counts.get(owner, PodCounts()) - counted + PodCounts(running=1)

    async def _execute(self, pod: Pod, step: Step) -> None:
        key = pod.metadata.key
        if step.delete:
            with suppress(NotFound, Conflict):  # deleted, or replaced by another pod with that name
                await self._client.delete(PODS, key, uid=pod.metadata.uid, grace_period_s=0)
        if step.status is not None:
            patch = status_merge_patch(pod.metadata, pod.status, step.status)
            with suppress(NotFound):
                self._pods.record(await self._client.patch(PODS, key, patch, subresource="status"))


def _resources_differ(old: Pod, new: Pod) -> bool:
    """Return True if an update changed the resources of a container."""
    before, after = (
        {container.name: container.resources for container in pod.spec.containers} for pod in (old, new)
    )
    return old.spec != new.spec and before != after


def _simulated_address(node: Node | None) -> str:
    """Return the address of a node; empty if its pods are not simulated, or not yet."""
    return node.address if node is not None and node.is_simulated else ""


def counts_of(pod: Pod | None) -> PodCounts:
    """Return what one pod adds to the counts of its owner."""
    return PodCounts() if pod is None else PodCounts(int(counts_as_running(pod)), int(waits_to_run(pod)))


def owner_of(pod: Pod) -> Uid | None:
    """Return the uid of the controlling owner; its pods are peers."""
    return pod.metadata.controller.uid if pod.metadata.controller else None

"""Feeds of nodes, of the pods that use them without a place, and of the volumes that those pods claim.

Nodes and pods are read from the moment that a flavor has a topology, or pods that are checked against the
nodes.  Until all are listed, no pod gets a place.  Volumes are read from the moment that a workload has pods
with a claim.  Until all are listed, no node takes such pods.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import HostNode, Node
from quorate.api.kueue import ResourceFlavor, Workload
from quorate.api.meta import Key, find_condition
from quorate.controllers.feeds import counts_devices, queueing_feeds
from quorate.controllers.informers import UNFINISHED, PodInformers, synced
from quorate.kube.clock import Clock
from quorate.kube.discovery import plural_of
from quorate.kube.errors import Forbidden
from quorate.kube.feed import Feed, cluster_feed, differ_in, load
from quorate.kube.informer import Change, Informer
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PLACEABLE_PODS,
    RESERVATIONS,
    RESOURCE_CLAIM_TEMPLATES,
    STORAGE_CLASSES,
    Resource,
)
from quorate.kube.selection import Watched
from quorate.kube.unreadable_pods import occupied_node
from quorate.queueing.nodes.pod_templates import has_claims
from quorate.queueing.state import State

if TYPE_CHECKING:
    from quorate.kube.client import Client

HOST_NODES: Final[Resource[Node]] = Resource("", "v1", "nodes", "Node", False, HostNode, is_busy=True)
RETRY_S: Final = 1.0  # changes of nodes and pods within this time cause one evaluation


class NodeFeeds:
    """Feeds the nodes and pods of a cluster to ``state`` once a flavor needs them."""

    def __init__(
        self,
        client: "Client",
        clock: Clock,
        flavors: Informer[ResourceFlavor],
        workloads: Informer[Workload],
        pods: PodInformers,
        state: State,
        changed: Callable[[], object],
    ) -> None:
        self._steady = clock.steady
        self._state = state
        self._changed = changed  # called when a decision may differ
        self._needed = asyncio.Event()
        self._freed: set[str] = set()  # flavors with more room since the last evaluation
        self._has_freed = asyncio.Event()
        self.nodes = Informer(client, HOST_NODES)
        self.pods = pods.select("on nodes", UNFINISHED, lambda pod: pod.uses_node)
        self._nominated = pods.select("nominated", UNFINISHED, is_nominated, is_small=True)
        state.nodes.set_has_nodes(False)
        self._volumes = VolumeFeeds(client, workloads, state, self._note)
        flavors.subscribe(self._flavor_changed)

    def _flavor_changed(self, change: Change[ResourceFlavor]) -> None:
        """Read nodes and pods from the first flavor on that needs them, or if quota counts bound pods."""
        counts_pods = self._state.configuration.outside_quota.mode != "Off"
        if change.new is not None and (counts_pods or self._state.nodes.reads_nodes(change.new)):
            self._needed.set()

    def _note(self, flavors: Collection[str]) -> None:
        if flavors:
            self._freed.update(flavors)
            self._has_freed.set()

    @property
    def needed(self) -> tuple[Watched, ...]:
        """The informers on which decisions depend now, given all flavors."""
        return (self.nodes, self.pods, self._nominated) if self._needed.is_set() else ()

    async def run(self) -> None:
        """Wait until a flavor needs the nodes, then keep ``state`` up to date until cancelled."""
        await self._needed.wait()
        async with asyncio.TaskGroup() as tasks:
            for informer in self.needed:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural} for places")
            await synced(*self.needed)
            nodes, pods, nominated = node_feeds(self._state, self._note)
            nodes.subscribe(self.nodes)
            await pods.subscribe_in_slices(self.pods)
            await nominated.subscribe_in_slices(self._nominated)
            self._state.nodes.set_has_nodes(True)
            self._changed()
            tasks.create_task(self._volumes.run(self._changed), name="volumes of checked pods")
            while True:
                await self._has_freed.wait()
                await self._steady.sleep_until(self._steady.now() + RETRY_S)
                self._has_freed.clear()
                self._state.nodes.retry_flavors(self._freed)
                self._freed.clear()
                self._changed()


def is_nominated(pod: Pod) -> bool:
    return bool(pod.status.nominated_node_name) and not pod.node_name and not pod.has_ended


def node_feeds(
    state: State, note: Callable[[Collection[str]], object]
) -> tuple[Feed[Node], Feed[Pod], Feed[Pod]]:
    """Return the feeds of nodes, of bound pods, and of nominated ones.

    ``note`` is called with the flavors that may have more room.
    """

    def set_aside_pod(key: Key, fault: ObjectFault | None) -> None:
        if fault is not None and (occupied := occupied_node(fault)).name:
            state.nodes.put_unreadable_pod(key, *occupied)

    return (
        cluster_feed(
            HOST_NODES,
            lambda node: note(state.nodes.put_node(node)),
            lambda name: note(state.nodes.remove_node(name)),
            differ_in(_placing_properties),
        ),
        Feed(
            PLACEABLE_PODS,
            lambda pod: note(state.nodes.put_pod(pod)),
            lambda key: note(state.nodes.remove_pod(key)),
            differ_in(_usage),
            set_aside=set_aside_pod,
        ),
        Feed(
            PLACEABLE_PODS,
            lambda pod: note(state.nodes.put_nominated_pod(pod)),
            lambda key: note(state.nodes.remove_nominated_pod(key)),
            differ_in(_usage),
        ),
    )


async def load_model(client: "Client", state: State, now: float) -> None:
    """Fill ``state`` from lists, as a controller process would if it started now.

    Without the permission to list nodes or pods no pod gets a place, and the reasons say so.
    """
    all_feeds = queueing_feeds(state, lambda: now)
    feeds = tuple(feed for feed in all_feeds if feed.resource.group != RESOURCE_CLAIM_TEMPLATES.group)
    await _load_devices(client, state, all_feeds[: len(all_feeds) - len(feeds)])
    if not await plural_of(client, RESERVATIONS.api_version, RESERVATIONS.kind):
        feeds = tuple(feed for feed in feeds if feed.resource is not RESERVATIONS)
    await load(client, feeds)
    updates = state.request_updates
    while updates.are_pending and counts_devices(state.configuration):
        updates.run_slice()
        await asyncio.sleep(0)
    if any(map(state.nodes.reads_nodes, state.flavors.values())):
        await _load_nodes(client, state)


async def _load_devices(client: "Client", state: State, feeds: Iterable[Feed[Any]]) -> None:
    """Load what devices are counted by, as far as it can be read."""
    if not counts_devices(state.configuration) or not await plural_of(
        client, RESOURCE_CLAIM_TEMPLATES.api_version, RESOURCE_CLAIM_TEMPLATES.kind
    ):
        return
    for feed in feeds:
        try:
            await load(client, (feed,))
        except Forbidden:
            state.request_updates.set_unreadable(feed.resource.plural, True)


async def _load_nodes(client: "Client", state: State) -> None:
    """Load nodes and pods, and volumes if a pending workload has claims; set what cannot be read."""
    nodes, pods, nominated = node_feeds(state, lambda _: None)

    def put_pod(pod: Pod) -> None:
        pods.put(pod)
        nominated.put(pod)

    try:
        await load(client, (nodes, replace(pods, put=put_pod)))
    except Forbidden:
        state.nodes.set_has_nodes(False)
        return
    if any(
        has_claims(pod_set.template)
        for entry in state.ledger.entries.values()
        for pod_set in entry.workload.spec.pod_sets
    ):
        try:
            await load(client, volume_feeds(state, lambda _: None))
        except Forbidden:
            state.nodes.set_has_volumes(False)


def _placing_properties(node: Node) -> tuple[Any, ...]:
    """Return what places in topologies depend on; of the conditions that is only Ready."""
    ready = find_condition(node.status.conditions, "Ready")
    return node.metadata.labels, node.spec, node.status.allocatable, ready is None or ready.status


def _usage(pod: Pod) -> tuple[Any, ...]:
    metadata = pod.metadata
    return (
        pod.node_name,
        pod.status.nominated_node_name,
        pod.requests,
        pod.status.phase,
        pod.is_leaving,
        pod.constraints,
        metadata.annotations,
        metadata.labels,
    )


T = TypeVar("T")


class VolumeFeeds:
    """Feeds the volumes of a cluster to ``state`` once a workload needs them."""

    def __init__(
        self,
        client: "Client",
        workloads: Informer[Workload],
        state: State,
        note: Callable[[Collection[str]], object],
    ) -> None:
        self._state = state
        self._needed = asyncio.Event()
        self._informers: list[Informer[Any]] = []
        for feed in volume_feeds(state, note):
            informer = Informer(client, feed.resource)
            feed.subscribe(informer)
            self._informers.append(informer)
        state.nodes.set_has_volumes(False)
        workloads.subscribe(self._workload_changed)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.old is None and change.new is not None and not self._needed.is_set():
            pod_sets = change.new.spec.pod_sets
            if any(has_claims(pod_set.template) for pod_set in pod_sets):
                self._needed.set()

    async def run(self, synchronized: Callable[[], object]) -> None:
        """Wait until a workload has claims, then keep ``state`` up to date until cancelled."""
        await self._needed.wait()
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural} for places")
            await synced(*self._informers)
            self._state.nodes.set_has_volumes(True)
            synchronized()


def volume_feeds(state: State, note: Callable[[Collection[str]], object]) -> tuple[Feed[Any], ...]:
    """Return the feeds; ``note`` is called with the flavors with nodes that may take more pods."""
    constraints = state.nodes.constraints
    storage = constraints.storage

    def noting(put: Callable[[T], object]) -> Callable[[T], None]:
        def put_and_note(obj: T) -> None:
            put(obj)
            note(state.nodes.placing)

        return put_and_note

    return (
        cluster_feed(STORAGE_CLASSES, noting(storage.set_class), storage.remove_class),
        cluster_feed(CSI_NODES, noting(constraints.put_drivers), constraints.remove_drivers),
        cluster_feed(PERSISTENT_VOLUMES, noting(storage.set_volume), storage.remove_volume),
        Feed(PERSISTENT_VOLUME_CLAIMS, noting(constraints.put_claim), constraints.remove_claim),
    )

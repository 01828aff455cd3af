"""The informers of the dashboard: which kinds it watches, and what each change does to its data."""

from collections.abc import Callable
from typing import Any, TypeVar

from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from quorate.api.kueue.multikueue import MultiKueueCluster
from quorate.api.kueue.topology import Topology
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.api.volcano import PodGroup, Queue
from quorate.controllers.feeds import queueing_feeds
from quorate.controllers.informers import UNFINISHED, PodInformers
from quorate.controllers.topology.node_feeds import HOST_NODES, is_nominated, node_feeds
from quorate.dashboard.model.changes import Changed
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.gang.cache.native_groups import as_volcano_group
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.feed import cluster_feed
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    NATIVE_POD_GROUPS,
    POD_GROUPS,
    QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
)
from quorate.kube.selection import Watched
from quorate.queueing.nodes.occupants import workload_of

Note = Callable[[Changed], object]
K = TypeVar("K")
V = TypeVar("V")


def informers_of(data: ClusterData, client: Client, clock: Clock, note: Note) -> list[Watched]:
    """Return informers of all kinds, which feed ``data``; none of them runs yet.

    ``note`` is called after each change.
    """
    data.state.nodes.set_has_nodes(False)
    return [
        *_queueing_informers(data, client, clock, note),
        *_node_informers(data, client, note),
        *_gang_informers(data, client, note),
        _worker_clusters(data, client, note),
    ]


def _queueing_informers(data: ClusterData, client: Client, clock: Clock, note: Note) -> list[Informer[Any]]:
    def workload_changed(change: Change[Workload]) -> None:
        before = data.cluster_queue_of_workload(change.key)
        data.workloads.on_change(change)
        after = data.cluster_queue_of_workload(change.key)
        note(Changed("workload", change.key, tuple(filter(None, dict.fromkeys((before, after))))))

    def local_queue_changed(change: Change[LocalQueue]) -> None:
        if not _specs_differ(change):
            return
        data.queue_revision += 1
        names = dict.fromkeys(queue.spec.cluster_queue for queue in change.versions)
        note(Changed("local_queue", change.key, tuple(names)))

    def cluster_queue_changed(change: Change[ClusterQueue]) -> None:
        if not _specs_differ(change):
            return
        data.queue_revision += 1
        note(Changed("quota", cluster_queues=(change.key.name,)))

    def object_changed(change: Change[Any]) -> None:
        data.queue_revision += 1
        note(Changed("quota"))

    def flavor_changed(change: Change[ResourceFlavor]) -> None:
        data.without_pods.flavor_changed(change.key.name)
        object_changed(change)

    def topology_changed(change: Change[Topology]) -> None:
        _keep(data.topologies, change.key.name, change.new)
        if change.new is None:
            data.without_pods.remove_topology(change.key.name)
        else:
            data.without_pods.put_topology(change.new)
        object_changed(change)

    callbacks: dict[Resource[Any], Callable[[Change[Any]], None]] = {
        WORKLOADS: workload_changed,
        LOCAL_QUEUES: local_queue_changed,
        CLUSTER_QUEUES: cluster_queue_changed,
        RESOURCE_FLAVORS: flavor_changed,
        TOPOLOGIES: topology_changed,
    }
    informers: list[Informer[Any]] = []
    for feed in queueing_feeds(data.state, clock.now):
        informer = Informer(client, feed.resource)
        feed.subscribe(informer)
        informer.subscribe(callbacks.get(feed.resource, object_changed))
        informers.append(informer)
    return informers


def _specs_differ(change: Change[ClusterQueue] | Change[LocalQueue]) -> bool:
    """Return False for a change of the status, which is computed here from the workloads."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or ((old.spec, old.metadata.deletion_timestamp) != (new.spec, new.metadata.deletion_timestamp))
    )


def _node_informers(data: ClusterData, client: Client, note: Note) -> tuple[Watched, ...]:
    def nodes_changed() -> None:
        data.node_revision += 1
        note(Changed("node"))

    def pod_changed(change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and not _pods_differ(old, new):
            return
        data.count_pod(change.key, old, new)
        note(Changed("node"))
        workloads = dict.fromkeys(map(workload_of, change.versions))
        for key in workloads:
            if key is not None:
                note(Changed("workload", key))  # its state may be another one, and its pods are

    nodes: Informer[Node] = Informer(client, HOST_NODES)
    unfinished = PodInformers(client, reads_all=False)
    pods = unfinished.select("on nodes", UNFINISHED, lambda pod: pod.uses_node)
    nominated = unfinished.select("nominated", UNFINISHED, is_nominated, is_small=True)
    of_nodes, of_pods, of_nominated = node_feeds(data.state, lambda _: None)
    of_nodes.subscribe(nodes, nodes_changed)
    without_pods = data.without_pods
    cluster_feed(HOST_NODES, without_pods.put_node, without_pods.remove_node, of_nodes.is_relevant).subscribe(
        nodes
    )
    of_pods.subscribe(pods)
    of_nominated.subscribe(nominated)
    pods.subscribe(pod_changed)
    return nodes, pods, nominated


def _gang_informers(data: ClusterData, client: Client, note: Note) -> tuple[Informer[Any], ...]:
    def group_changed(change: Change[PodGroup]) -> None:
        data.pod_group_revision += 1
        _keep(data.pod_groups, change.key, change.new)
        note(Changed("pod_group", change.key))

    def queue_changed(change: Change[Queue]) -> None:
        data.pod_group_revision += 1
        _keep(data.gang_queues, change.key.name, change.new)
        note(Changed("gang_queue", change.key))

    groups: Informer[PodGroup] = Informer(client, POD_GROUPS)
    native_groups: Informer[NativePodGroup] = Informer(client, NATIVE_POD_GROUPS)
    queues: Informer[Queue] = Informer(client, QUEUES)
    groups.subscribe(group_changed)
    native_groups.subscribe(lambda change: group_changed(as_volcano_change(change)))
    queues.subscribe(queue_changed)
    return groups, native_groups, queues


def as_volcano_change(change: Change[NativePodGroup]) -> Change[PodGroup]:
    """Return the change of a native pod group as one of Volcano, with its API group before the name."""
    old, new = (None if group is None else as_volcano_group(group) for group in (change.old, change.new))
    return Change(old, new)


def _worker_clusters(data: ClusterData, client: Client, note: Note) -> Informer[Any]:
    def on_change(change: Change[MultiKueueCluster]) -> None:
        data.queue_revision += 1
        _keep(data.worker_clusters, change.key.name, change.new)
        note(Changed("quota"))

    clusters: Informer[MultiKueueCluster] = Informer(client, MULTIKUEUE_CLUSTERS)
    clusters.subscribe(on_change)
    return clusters


def _keep(stored: dict[K, V], key: K, newest: V | None) -> None:
    """Store the newest version of an object; None: it was deleted."""
    if newest is None:
        del stored[key]
    else:
        stored[key] = newest


def _pods_differ(old: Pod, new: Pod) -> bool:
    def use(pod: Pod) -> tuple[Any, ...]:
        return pod.node_name, pod.requests, pod.status.phase, pod.metadata.annotations

    return use(old) != use(new)

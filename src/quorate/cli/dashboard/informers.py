"""The informers of the dashboard: which kinds it watches, and what each change does to its data."""

from typing import Any, Final

from quorate.api.core.bound_pod import BoundPod
from quorate.api.core.scheduling import Node
from quorate.api.volcano import PodGroup, Queue
from quorate.cli.dashboard.cluster_data import ClusterData
from quorate.controllers.feeds import queueing_feeds
from quorate.controllers.topology.node_feeds import BOUND_PODS, HOST_NODES, node_feeds
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.feed import Feed
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import POD_GROUPS, QUEUES, WORKLOADS

_USING_NODES: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_NOMINATED: Final = "spec.nodeName=,status.nominatedNodeName!="


def informers_of(data: ClusterData, client: Client, clock: Clock) -> list[Informer[Any]]:
    """Return informers of all kinds, which feed ``data``; none of them runs yet."""
    data.state.set_has_nodes(False)
    return [
        *_queueing_informers(data, client, clock),
        *_node_informers(data, client),
        *_gang_informers(data, client),
    ]


def _queueing_informers(data: ClusterData, client: Client, clock: Clock) -> list[Informer[Any]]:
    def queue_changed(change: Change[Any]) -> None:
        data.queue_revision += 1

    informers: list[Informer[Any]] = []
    for feed in queueing_feeds(data.state, clock.now):
        informer = Informer(client, feed.resource)
        feed.subscribe(informer)
        informer.subscribe(data.workloads.on_change if feed.resource is WORKLOADS else queue_changed)
        informers.append(informer)
    return informers


def _node_informers(data: ClusterData, client: Client) -> tuple[Informer[Any], ...]:
    def node_changed(change: Change[Node]) -> None:
        data.node_revision += 1

    def pod_changed() -> None:
        data.node_revision += 1

    nodes: Informer[Node] = Informer(client, HOST_NODES)
    pods: Informer[BoundPod] = Informer(client, BOUND_PODS, field_selector=_USING_NODES)
    nominated: Informer[BoundPod] = Informer(client, BOUND_PODS, field_selector=_NOMINATED)
    of_nodes, of_pods, of_nominated = node_feeds(data.state, lambda _: None)
    of_nodes.subscribe(nodes)
    of_pods.subscribe(pods)
    of_nominated.subscribe(nominated)
    nodes.subscribe(node_changed)
    Feed(BOUND_PODS, data.pods.put_pod, data.pods.remove_pod).subscribe(pods, pod_changed)
    return nodes, pods, nominated


def _gang_informers(data: ClusterData, client: Client) -> tuple[Informer[Any], ...]:
    def group_changed(change: Change[PodGroup]) -> None:
        data.pod_group_revision += 1
        if change.new is None:
            del data.pod_groups[change.key]
        else:
            data.pod_groups[change.key] = change.new

    def queue_changed(change: Change[Queue]) -> None:
        data.pod_group_revision += 1
        if change.new is None:
            del data.gang_queues[change.key.name]
        else:
            data.gang_queues[change.key.name] = change.new

    groups: Informer[PodGroup] = Informer(client, POD_GROUPS)
    queues: Informer[Queue] = Informer(client, QUEUES)
    groups.subscribe(group_changed)
    queues.subscribe(queue_changed)
    return groups, queues

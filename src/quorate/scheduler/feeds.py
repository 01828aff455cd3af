"""Feeds of the gang model: which kinds the scheduler reads, and what each change does to the model.

The running scheduler subscribes the feeds to informers; ``load_model`` fills a model from lists, for commands
that evaluate pod groups once.  Most updates of pods and nodes cannot change a decision: heartbeats, probes,
our own annotations.  A session follows only the changes that can.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

import msgspec

from quorate.api import codec, kueue, native_groups
from quorate.api.core import Namespace, ResourceQuota
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.kueue.placed_workload import PlacedWorkload
from quorate.api.meta import Key, Struct, find_condition
from quorate.api.volcano import PodGroup
from quorate.gang.cache.from_objects import differ_only_in_status
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import as_volcano_group, native_key
from quorate.gang.namespace_quota.evaluation import unsupported_scopes
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import served_version
from quorate.kube.feed import Feed, cluster_feed, differ_in, load
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import (
    CSI_NODES,
    DEVICE_CLASSES,
    HYPER_NODES,
    NAMESPACES,
    NATIVE_POD_GROUPS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PRIORITY_CLASSES,
    QUEUES,
    RESERVATIONS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from quorate.kube.unreadable_pods import occupied_node

PLACED_WORKLOADS: Final = Resource(kueue.GROUP, kueue.VERSION, "workloads", "Workload", True, PlacedWorkload)


def gang_feeds(model: Model, clock: Clock, *, disruption_budgets: bool = False) -> tuple[Feed[Any], ...]:
    """Return one feed per kind; pods are last, because all other kinds decide how they are evaluated.

    ``disruption_budgets``: whether PodDisruptionBudgets are read, for the plugin pdb.
    """
    constraints, storage = model.constraints, model.storage
    specs_differ = differ_in(attrgetter("spec"))
    budgets = Feed(
        POD_DISRUPTION_BUDGETS,
        model.set_disruption_budget,
        model.remove_disruption_budget,
        differ_in(attrgetter("spec", "status")),
    )

    def put_namespace(namespace: Namespace) -> None:
        constraints.set_namespace(namespace.metadata.name, namespace.metadata.labels)

    def set_aside_pod(key: Key, fault: ObjectFault | None) -> None:
        """Count a pod that cannot be read on its node; if its requests are not known, keep others away."""
        if fault is None:
            model.remove_unreadable_pod(key)
        else:
            model.set_unreadable_pod(key, *occupied_node(fault))

    def set_aside_group(key: Key, fault: ObjectFault | None) -> None:
        """Let the pods of a group that cannot be read count in its queue."""
        if fault is None:
            model.remove_unreadable_group(key)
        else:
            model.set_unreadable_group(key, _queue_of(fault))

    return (
        cluster_feed(
            NAMESPACES,
            put_namespace,
            lambda name: constraints.set_namespace(name, {}),
            differ_in(attrgetter("metadata.labels")),
        ),
        cluster_feed(STORAGE_CLASSES, storage.set_class, storage.remove_class),
        cluster_feed(CSI_NODES, constraints.set_drivers, constraints.remove_drivers, specs_differ),
        cluster_feed(PERSISTENT_VOLUMES, storage.set_volume, storage.remove_volume),
        Feed(PERSISTENT_VOLUME_CLAIMS, storage.set_claim, storage.remove_claim),
        cluster_feed(PLACEABLE_NODES, model.set_node, model.remove_node, differ_in(_scheduling_properties)),
        cluster_feed(
            QUEUES, model.set_queue, model.remove_queue, differ_in(attrgetter("spec", "status.state"))
        ),
        cluster_feed(PRIORITY_CLASSES, model.set_priority_class, model.remove_priority_class),
        Feed(RESOURCE_QUOTAS, lambda quota: model.set_quota(quota, clock.now()), model.remove_quota),
        *((budgets,) if disruption_budgets else ()),
        Feed(POD_GROUPS, model.set_group, model.remove_group, set_aside=set_aside_group),
        Feed(
            PLACEABLE_PODS, model.set_pod, model.remove_pod, is_decisive=_pods_differ, set_aside=set_aside_pod
        ),
    )


def optional_feeds(model: Model, native_group_removed: Callable[[Key], object]) -> tuple[Feed[Any], ...]:
    """Return the feeds of kinds that not every cluster serves, in the order in which they are read.

    ``native_group_removed`` is called with the key of the gang of each of Kubernetes' pod groups that is
    deleted.
    """
    devices, specs_differ = model.devices, differ_in(attrgetter("spec"))
    return (
        cluster_feed(HYPER_NODES, model.set_hyper_node, model.remove_hyper_node, specs_differ),
        Feed(
            PLACED_WORKLOADS,
            model.set_workload,
            model.remove_workload,
            differ_in(attrgetter("hosts", "pods")),
        ),
        native_group_feed(model, native_group_removed),
        cluster_feed(RESERVATIONS, model.set_reservation, model.remove_reservation, specs_differ),
        cluster_feed(DEVICE_CLASSES, devices.set_class, devices.remove_class),
        cluster_feed(RESOURCE_SLICES, devices.set_slice, devices.remove_slice),
        Feed(RESOURCE_CLAIMS, devices.set_claim, devices.remove_claim),
    )


async def find_served(client: Client, resource: Resource[Any]) -> Resource[Any] | None:
    """Return a kind in the version that the API server serves; None if it serves no supported version."""
    versions = native_groups.VERSIONS if resource == NATIVE_POD_GROUPS else (resource.version,)
    return await served_version(client, resource, versions)


def native_group_feed(model: Model, removed: Callable[[Key], object]) -> Feed[native_groups.PodGroup]:
    """Return the feed of Kubernetes' own pod groups; ``removed`` is called with the gang of a deleted one."""

    def put(group: native_groups.PodGroup) -> None:
        model.set_group(as_volcano_group(group), group.spec)

    def remove(key: Key) -> None:
        model.remove_group(native_key(key))
        removed(native_key(key))

    return Feed(NATIVE_POD_GROUPS, put, remove, _native_groups_differ)


def subscribe_informers(
    client: Client, feeds: tuple[Feed[Any], ...], changed: Callable[[], object]
) -> dict[Resource[Any], Informer[Any]]:
    """Return an informer per feed, in the same order; ``changed`` is called when a decision may differ."""
    informers = {feed.resource: Informer(client, feed.resource) for feed in feeds}
    for feed in feeds:
        feed.subscribe(informers[feed.resource], changed)
    return informers


class _GroupSpec(Struct):
    queue: str = ""


class _QueuedGroup(Struct):
    """The field that tells where the pods of a group count."""

    spec: _GroupSpec = _GroupSpec()


def _queue_of(fault: ObjectFault) -> str:
    """Return the queue that a pod group names; "" if that cannot be read."""
    if isinstance(fault.obj, PodGroup):
        return fault.obj.spec.queue or "default"
    try:
        return codec.decode(_QueuedGroup, fault.raw).spec.queue or "default"
    except msgspec.DecodeError:
        return ""


async def load_model(
    client: Client, clock: Clock, schedulers: Collection[str], *, disruption_budgets: bool = False
) -> Model:
    """Return the model that a scheduler with the names ``schedulers`` would have if it started now."""
    model = Model(tuple(schedulers))
    feeds = gang_feeds(model, clock, disruption_budgets=disruption_budgets)
    served: list[Feed[Any]] = []
    for feed in optional_feeds(model, lambda _: None):
        resource = await find_served(client, feed.resource)
        if resource is not None:
            served.append(replace(feed, resource=resource))
    await load(client, (*served, *feeds))
    return model


def _native_groups_differ(old: native_groups.PodGroup, new: native_groups.PodGroup) -> bool:
    """Return True if more differs than the status, which the scheduler itself writes."""
    before, after = old.metadata, new.metadata
    return (
        before.uid != after.uid
        or before.deletion_timestamp != after.deletion_timestamp
        or before.labels != after.labels
        or before.annotations != after.annotations
        or old.spec != new.spec
    )


def _pods_differ(old: Pod, new: Pod) -> bool:
    """Return True if a session could decide differently; conditions do not count."""
    return not differ_only_in_status(old, new) or _scheduling_status(old) != _scheduling_status(new)


def _scheduling_status(pod: Pod) -> tuple[str, str, str]:
    return pod.node_name, pod.status.phase, pod.status.nominated_node_name


def _scheduling_properties(node: Node) -> tuple[Any, ...]:
    """Return what decisions read of a node; of its conditions that is only Ready."""
    ready = find_condition(node.status.conditions, "Ready")
    return (
        node.metadata.labels,
        node.spec,
        node.status.allocatable,
        node.status.images,
        ready is None or ready.status,
    )


def report_unsupported_scopes(quotas: Informer[ResourceQuota]) -> None:
    """Log each quota with scopes that are not known, when it comes or changes."""
    log = logger(__name__)

    def on_quota(change: Change[ResourceQuota]) -> None:
        scopes = () if change.new is None else unsupported_scopes(change.new.spec)
        former = () if change.old is None else unsupported_scopes(change.old.spec)
        if scopes and scopes != former:
            log.warning("quota ignored: its scopes are not known", quota=change.key, scopes=scopes)

    quotas.subscribe(on_quota)

"""What the cluster says, told to the model of the gang core as it comes.

Most of what happens to pods and nodes decides nothing: heartbeats, probes, our own notes.  ``changed`` is
set only by what a session could answer differently to.
"""

import asyncio
from typing import Any

from quorate.api.core import ResourceQuota
from quorate.api.core.scheduling import Node, Pod
from quorate.api.meta import find_condition
from quorate.api.volcano import PodGroup
from quorate.gang.model import Model
from quorate.gang.quota import unevaluable_scopes
from quorate.gang.reading import differ_in_standing_only
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import (
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    POD_GROUPS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_QUOTAS,
    reference_to,
)
from quorate.scheduler.unserved import unserved


class Feed:
    """The informers and what they feed; running them is the caller's."""

    def __init__(
        self, client: Client, clock: Clock, events: EventRecorder, model: Model, changed: asyncio.Event
    ) -> None:
        self._clock = clock
        self._events = events
        self._model = model
        self._changed = changed
        self._log = logger(__name__)
        self.pods = Informer(client, PLACEABLE_PODS)
        self.nodes = Informer(client, PLACEABLE_NODES)
        self.groups = Informer(client, POD_GROUPS)
        self.queues = Informer(client, QUEUES)
        self.quotas = Informer(client, RESOURCE_QUOTAS)
        self.classes = Informer(client, PRIORITY_CLASSES)
        self.pods.subscribe(self._on_pod)
        self.nodes.subscribe(self._on_node)
        self.groups.subscribe(self._on_group)
        self.queues.subscribe(self._on_queue)
        self.quotas.subscribe(self._on_quota)
        self.classes.subscribe(self._on_class)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        return (self.nodes, self.queues, self.classes, self.quotas, self.groups, self.pods)

    def _on_pod(self, change: Change[Pod]) -> None:
        if change.new is None:
            self._model.remove_pod(change.key)
        else:
            self._model.set_pod(change.new)
        if change.old is None or change.new is None or not _decides_alike(change.old, change.new):
            self._changed.set()

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is None:
            self._model.remove_node(change.key.name)
        elif change.old is None or _offers(change.old) != _offers(change.new):
            self._model.set_node(change.new)
        else:
            return
        self._changed.set()

    def _on_group(self, change: Change[PodGroup]) -> None:
        if change.new is None:
            self._model.remove_group(change.key)
        else:
            self._model.set_group(change.new)
            if change.old is None or change.old.spec != change.new.spec:
                self._tell_of_unserved(change.new)
        self._changed.set()

    def _tell_of_unserved(self, group: PodGroup) -> None:
        for sentence in unserved(group.spec):
            about = reference_to(POD_GROUPS, group)
            self._events.event(about, "Warning", "NotServed", sentence, unique=True)

    def _on_queue(self, change: Change[Any]) -> None:
        if change.new is None:
            self._model.remove_queue(change.key.name)
        elif change.old is None or (change.old.spec, change.old.status.state) != (
            change.new.spec,
            change.new.status.state,
        ):
            self._model.set_queue(change.new)
        else:
            return
        self._changed.set()

    def _on_quota(self, change: Change[Any]) -> None:
        if change.new is None:
            self._model.remove_quota(change.key)
        else:
            self._model.set_quota(change.new, self._clock.now())
            self._tell_of_quota(change.new, change.old)
        self._changed.set()

    def _tell_of_quota(self, quota: ResourceQuota, old: ResourceQuota | None) -> None:
        """That it is ignored: once, and again when its scopes change."""
        scopes = unevaluable_scopes(quota.spec)
        if scopes and (old is None or unevaluable_scopes(old.spec) != scopes):
            self._log.warning(
                "quota ignored: its scopes are not known", quota=quota.metadata.key, scopes=scopes
            )

    def _on_class(self, change: Change[Any]) -> None:
        if change.new is None:
            self._model.remove_priority_class(change.key.name)
        else:
            self._model.set_priority_class(change.new)
        self._changed.set()


def _decides_alike(one: Pod, other: Pod) -> bool:
    """Whether no session could answer differently to one than to the other: conditions do not count."""
    return differ_in_standing_only(one, other) and (
        one.node_name,
        one.status.phase,
        one.status.nominated_node_name,
    ) == (other.node_name, other.status.phase, other.status.nominated_node_name)


def _offers(node: Node) -> tuple[Any, ...]:
    """What of a node any decision depends on: of its conditions, whether it is ready."""
    ready = find_condition(node.status.conditions, "Ready")
    return (
        node.metadata.labels,
        node.spec,
        node.status.allocatable,
        node.status.images,
        ready is None or ready.status,
    )

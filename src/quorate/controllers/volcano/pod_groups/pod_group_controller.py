"""Making pod groups for pods that name none, and taking them away when nobody needs them."""

from collections.abc import Mapping
from typing import Any, Final

from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from quorate.api.volcano import PodGroup
from quorate.api.volcano.annotations import GROUP_NAME
from quorate.controllers.context import ControllerContext
from quorate.controllers.volcano.pod_groups.group_pod import GROUP_PODS, GroupPod
from quorate.controllers.volcano.pod_groups.pod_group_builder import (
    POD_GROUP_PREFIX,
    SCALABLE_KINDS,
    pod_group_for,
    pod_group_patch,
    tracks_owner_template,
)
from quorate.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import POD_GROUPS, Resource, reference_to
from quorate.kube.writes import Delete, send

WORKERS: Final = 16
REMEMBERED_S: Final = 5.0  # how long what an owner says is not asked for again: its pods come together
EMPTY_S: Final = 60.0  # how often the owner of a group without pods is looked at
_IN: Final = "in group"  # index of pods by the key of their group


class Replicas(Struct):
    replicas: int = 1


class Owner(Struct):
    """Whatever controls pods, as far as it concerns their group."""

    metadata: ObjectMeta
    spec: Replicas = Replicas()


_OWNERS: Final[Mapping[tuple[str, str], Resource[Owner]]] = {
    ("apps/v1", "ReplicaSet"): Resource("apps", "v1", "replicasets", "ReplicaSet", True, Owner),
    ("apps/v1", "StatefulSet"): Resource("apps", "v1", "statefulsets", "StatefulSet", True, Owner),
    ("apps/v1", "DaemonSet"): Resource("apps", "v1", "daemonsets", "DaemonSet", True, Owner),
    ("batch/v1", "Job"): Resource("batch", "v1", "jobs", "Job", True, Owner),
}


class PodGroupController:
    """Looks after the pods of several schedulers' names, each with an informer of its own.

    ``inherit``: what an owner says of its pods' group counts.
    """

    def __init__(
        self,
        context: ControllerContext,
        pods: list[Informer[GroupPod]],
        groups: Informer[PodGroup],
        *,
        inherit: bool,
    ) -> None:
        self._client = context.client
        self._events = context.events
        self._clock = context.clock
        self._steady = context.clock.steady
        self._namespaces = context.informers.namespaces
        self._pods = pods
        self._groups = groups
        self._inherit = inherit
        self._said: dict[Uid, tuple[Mapping[str, str], float]] = {}  # by owners, until when it is remembered
        self._log = logger(__name__)
        workers = context.workers_for(POD_GROUPS, WORKERS)
        self.reconciler = Reconciler("volcano.pods", self.reconcile_pod, context.clock, workers)
        self.emptied = Reconciler("volcano.groups", self.reconcile_group, context.clock, WORKERS)
        for informer in pods:
            informer.add_index(_IN, _group_key)
            informer.subscribe(self._pod_changed)
        groups.subscribe(self._group_changed)

    def _pod_changed(self, change: Change[GroupPod]) -> None:
        if change.new is not None and change.new.needs_pod_group:
            self.reconciler.enqueue(change.key)
        if change.new is None and change.old is not None and change.old.group.startswith(POD_GROUP_PREFIX):
            self.emptied.enqueue(Key(change.key.namespace, change.old.group))

    def _group_changed(self, change: Change[PodGroup]) -> None:
        if change.key.name.startswith(POD_GROUP_PREFIX):
            self.emptied.enqueue(change.key)

    async def reconcile_pod(self, key: Key) -> None:
        pod = next((pod for each in self._pods if (pod := each.get(key)) is not None), None)
        if pod is None or not pod.needs_pod_group:
            return
        wanted = pod_group_for(pod, await self._said_by_owner(pod), self._said_by_namespace(pod))
        group = self._groups.get(wanted.metadata.key)
        if group is None:
            await self._make(wanted, pod)
        elif tracks_owner_template(pod) and (changes := pod_group_patch(group, wanted)):
            version = {"resourceVersion": group.metadata.resource_version}
            await self._client.patch(POD_GROUPS, group.metadata.key, {"metadata": version, "spec": changes})
        annotations = {GROUP_NAME: wanted.metadata.name}
        try:
            await self._client.patch(GROUP_PODS, key, {"metadata": {"annotations": annotations}})
        except NotFound:
            return  # it went meanwhile

    async def _make(self, wanted: PodGroup, pod: GroupPod) -> None:
        key = wanted.metadata.key
        try:
            await self._client.create(POD_GROUPS, wanted, key.namespace)
        except AlreadyExists:
            return  # for another pod of the same owner
        except (Forbidden, Invalid) as refusal:
            about = reference_to(GROUP_PODS, pod)
            self._events.event(about, "Warning", "PodGroupError", refusal.message, unique=True)
            raise
        self._log.info("pod group made", key=key, min_member=wanted.spec.min_member)

    def _said_by_namespace(self, pod: GroupPod) -> Mapping[str, str]:
        namespace = self._namespaces.get(Key("", pod.metadata.namespace))
        return {} if namespace is None else namespace.metadata.annotations

    async def _said_by_owner(self, pod: GroupPod) -> Mapping[str, str]:
        reference = pod.metadata.controller
        if reference is None or not self._inherit:
            return {}
        now = self._steady.now()
        said, until = self._said.get(reference.uid, ({}, 0.0))
        if now >= until:
            owner = await self._owner(pod.metadata.namespace, reference)
            said = {} if owner is None else owner.metadata.annotations
            self._said = {uid: each for uid, each in self._said.items() if now < each[1]}
            self._said[reference.uid] = (said, now + REMEMBERED_S)
        return said

    async def _owner(self, namespace: str, reference: OwnerReference) -> Owner | None:
        """None for a kind whose pods are not grouped by what it says, and when it is gone."""
        resource = _OWNERS.get((reference.api_version, reference.kind))
        if resource is None:
            return None
        try:
            return await self._client.get(resource, Key(namespace, reference.name))
        except NotFound:
            return None

    async def reconcile_group(self, key: Key) -> float | None:
        """Delete the group of a set that wants no pods: it would wait for them for ever."""
        group = self._groups.get(key)
        reference = None if group is None else group.metadata.controller
        if (
            group is None
            or reference is None
            or (reference.api_version, reference.kind) not in SCALABLE_KINDS
        ):
            return None
        if any(informer.by_index(_IN, key) for informer in self._pods):
            return None
        owner = await self._owner(key.namespace, reference)
        if owner is None or owner.metadata.uid != reference.uid:
            return None  # the group is garbage, and collected
        if owner.spec.replicas > 0:
            return self._clock.now() + EMPTY_S
        await send(self._client, (Delete(POD_GROUPS, key, group.metadata.uid),))
        return None


def _group_key(pod: GroupPod) -> tuple[Any, ...]:
    return (pod.group_key,) if pod.group.startswith(POD_GROUP_PREFIX) else ()

"""The pod group controllers: create groups for plain pods, delete groups without pods, end suspended groups.

A group that is deleted although pods need it is created again: by a person, or because its set was scaled to
zero and back meanwhile.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from quorate.api import codec
from quorate.api.configuration.integrations import VOLCANO_JOB
from quorate.api.core.pod import Pod
from quorate.api.events import ObjectReference
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct, Uid, epoch
from quorate.api.names.volcano import GROUP_NAME, SUSPENDED
from quorate.api.volcano import INQUEUE, PENDING, PodGroup
from quorate.api.volcano.job import GROUP as JOB_GROUP
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import FEW_WORKERS, GROUP_OWNER_CHECK_S, OWNER_CACHE_S, WORKERS
from quorate.controllers.volcano.job.job_pod_group import pod_group_patch
from quorate.controllers.volcano.job.quota_admission import is_stopping, stop_completed
from quorate.controllers.volcano.pod_groups.pod_group_builder import (
    POD_GROUP_PREFIX,
    SCALABLE_KINDS,
    changed_annotations,
    changed_labels,
    names_own_group,
    names_queue,
    needs_pod_group,
    pod_group_for,
    too_few_replicas,
    tracks_owner_template,
)
from quorate.kube.computations import size_of
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound, RequestTooLarge
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import PLACEABLE_PODS, POD_GROUPS, Resource, reference_to
from quorate.kube.selection import Selection
from quorate.kube.writes import Delete, send

BY_GROUP: Final = "pods by group"  # index of pods of groups made for them, by the key of the group


class Replicas(Struct):
    replicas: int = 1


class Owner(Struct):
    """An object that controls pods, as far as it determines their group."""

    metadata: ObjectMeta
    spec: Replicas = Replicas()


_OWNERS: Final[Mapping[tuple[str, str], Resource[Owner]]] = {
    ("apps/v1", "ReplicaSet"): Resource("apps", "v1", "replicasets", "ReplicaSet", True, Owner),
    ("apps/v1", "StatefulSet"): Resource("apps", "v1", "statefulsets", "StatefulSet", True, Owner),
    ("apps/v1", "DaemonSet"): Resource("apps", "v1", "daemonsets", "DaemonSet", True, Owner),
    ("batch/v1", "Job"): Resource("batch", "v1", "jobs", "Job", True, Owner),
}


class PodGroupWriter:
    """Creates and updates pod groups; a refused creation is an event on the owner."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._events = context.events
        self._computations = context.computations
        self._log = logger(__name__)

    async def create(self, wanted: PodGroup, regarding: ObjectReference) -> None:
        """Create ``wanted``, unless a group of its name exists, new or terminating."""
        key = wanted.metadata.key
        try:
            await self._client.create(POD_GROUPS, wanted, key.namespace)
        except AlreadyExists:
            return
        except (Forbidden, Invalid, RequestTooLarge) as refusal:
            self._events.event(regarding, "Warning", "PodGroupError", refusal.message, unique=True)
            raise
        self._log.info("pod group created", key=key, min_member=wanted.spec.min_member)

    async def update(self, group: PodGroup, wanted: PodGroup, size: int, *, moves: bool = False) -> None:
        """Update ``group`` to ``wanted``, which was made from an object of ``size`` bytes.

        ``moves``: to the queue of ``wanted``.
        """
        patch = partial(pod_group_patch, moves=moves)
        changes = await self._computations.run(size, patch, group, wanted)
        annotations, labels = changed_annotations(group, wanted), changed_labels(group, wanted)
        if changes or annotations or labels:
            version = group.metadata.resource_version
            metadata = {"resourceVersion": version, "annotations": annotations, "labels": labels}
            await self._client.patch(POD_GROUPS, group.metadata.key, {"metadata": metadata, "spec": changes})


class PodGroupController:
    """Creates the pod groups of plain pods; one pod informer for each scheduler name.

    ``inherit``: the annotations of an owner apply to the group of its pods.
    """

    def __init__(
        self,
        context: ControllerContext,
        pods: list[Selection[Pod]],
        groups: Informer[PodGroup],
        *,
        inherit: bool,
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._steady = context.clock.steady
        self._namespaces = context.informers.namespaces
        self._pods = pods
        self._groups = groups
        self._inherit = inherit
        self._makes_groups_of_jobs = "batchJobs" not in context.configuration.gang.managed_kinds
        self._writer = PodGroupWriter(context)
        self._computations = context.computations
        # Owners by uid, and the steady time until which they are cached.
        self._owners: dict[Uid, tuple[Owner | None, float]] = {}
        self._owner_reads: dict[Key, float] = {}  # when the owner of each waiting group is read next
        self._events = context.events
        workers = context.workers_for(POD_GROUPS, WORKERS)
        self.pod_reconciler = Reconciler(
            "volcano.pods", self.reconcile_pod, context.clock, workers, report=self._pod_failed
        )
        self.group_reconciler = Reconciler(
            "volcano.groups", self.reconcile_group, context.clock, WORKERS, report=groups.reconcile_failed
        )
        for informer in pods:
            informer.add_index(BY_GROUP, _group_key)
            informer.subscribe(self._pod_changed)
        groups.subscribe(self._group_changed)

    def _pod_changed(self, change: Change[Pod]) -> None:
        if change.new is not None and (
            needs_pod_group(change.new) or (change.old is None and self._lost_its_group(change.new))
        ):
            self.pod_reconciler.enqueue(change.key)
        if (
            change.new is None
            and change.old is not None
            and change.old.group_name.startswith(POD_GROUP_PREFIX)
        ):
            self.group_reconciler.enqueue(Key(change.key.namespace, change.old.group_name))

    def _group_changed(self, change: Change[PodGroup]) -> None:
        if change.key.name.startswith(POD_GROUP_PREFIX):
            self.group_reconciler.enqueue(change.key)
            for pod in self._pods_of(change.key) if change.new is None else ():
                self.pod_reconciler.enqueue(pod.metadata.key)

    def _pods_of(self, group: Key) -> list[Pod]:
        return [pod for informer in self._pods for pod in informer.by_index(BY_GROUP, group)]

    def _lost_its_group(self, pod: Pod) -> bool:
        """Return True if this controller made a group for ``pod`` that does not exist any more."""
        owner = pod.metadata.controller
        is_of_job = owner is not None and (owner.api_version, owner.kind) == ("batch/v1", "Job")
        made_here = names_own_group(pod) and (self._makes_groups_of_jobs or not is_of_job)
        return made_here and self._groups.get(pod.group_key) is None

    def _pod_failed(self, key: Key, error: Exception) -> None:
        informer = next((pod for pod in self._pods if pod.get(key) is not None), self._pods[0])
        informer.reconcile_failed(key, error)

    async def reconcile_pod(self, key: Key) -> None:
        """Create or update the pod's group, then name the group in the pod's annotations."""
        pod = next((pod for informer in self._pods if (pod := informer.get(key)) is not None), None)
        if pod is None or not (needs_pod_group(pod) or self._lost_its_group(pod)):
            return
        wanted, owner, size = await self._wanted_group(pod)
        group = self._groups.get(wanted.metadata.key)
        if group is None:
            await self._writer.create(wanted, reference_to(PLACEABLE_PODS, pod.metadata))
        elif tracks_owner_template(pod):
            await self._writer.update(group, wanted, size, moves=names_queue(pod, _annotations_of(owner)))
        if not pod.group_name and not await self._name_group(pod, wanted.metadata.name):
            return
        if owner is not None and (problem := too_few_replicas(pod, owner.spec.replicas, wanted)):
            self._events.event(
                reference_to(PLACEABLE_PODS, pod.metadata), "Warning", "MinMemberExceedsReplicas", problem
            )

    async def _name_group(self, pod: Pod, group: str) -> bool:
        """Annotate ``pod``, not another pod of its name; return False if it was deleted."""
        metadata = {"uid": pod.metadata.uid, "annotations": {GROUP_NAME: group}}
        try:
            await self._client.patch(PLACEABLE_PODS, pod.metadata.key, {"metadata": metadata})
        except NotFound:
            return False
        return True

    async def _wanted_group(self, pod: Pod) -> tuple[PodGroup, Owner | None, int]:
        """Return the group for ``pod``, the owner, and the size in bytes of what determines the group."""
        owner = await self._cached_owner(pod)
        size = len(codec.encode(pod.spec)) + size_of(pod.metadata)
        wanted = await self._computations.run(
            size, pod_group_for, pod, _annotations_of(owner), self._annotations_of_namespace(pod)
        )
        return wanted, owner, size

    def _annotations_of_namespace(self, pod: Pod) -> Mapping[str, str]:
        namespace = self._namespaces.get(Key("", pod.metadata.namespace))
        return {} if namespace is None else namespace.metadata.annotations

    async def _cached_owner(self, pod: Pod) -> Owner | None:
        """Return the owner that describes the group of ``pod`` in annotations; None if there is none."""
        reference = pod.metadata.controller
        if reference is None or not self._inherit:
            return None
        now = self._steady.now()
        owner, until = self._owners.get(reference.uid, (None, 0.0))
        if now >= until:
            owner = await self._owner(pod.metadata.namespace, reference)
            self._owners = {uid: entry for uid, entry in self._owners.items() if now < entry[1]}
            self._owners[reference.uid] = (owner, now + OWNER_CACHE_S)
        return owner

    async def _owner(self, namespace: str, reference: OwnerReference) -> Owner | None:
        """Return the owner; None if it no longer exists, or its kind does not determine a group."""
        resource = _OWNERS.get((reference.api_version, reference.kind))
        if resource is None:
            return None
        return await self._client.find(resource, Key(namespace, reference.name))

    async def reconcile_group(self, key: Key) -> float | None:
        """Delete the pod group of a set that is scaled to zero: it would stay pending forever.

        A group with pods that waits is updated when the annotations of its owner change.
        """
        group = self._groups.get(key)
        waits = group is not None and group.status.phase in ("", PENDING, INQUEUE)
        if not waits:
            self._owner_reads.pop(key, None)
        reference = None if group is None else group.metadata.controller
        if group is None or reference is None:
            return None
        if (reference.api_version, reference.kind) not in SCALABLE_KINDS:
            return None
        pods = self._pods_of(key)
        if pods:
            return await self._follow_owner(group, pods) if waits else None
        owner = await self._owner(key.namespace, reference)
        if owner is None or owner.metadata.uid != reference.uid:
            return None  # the garbage collector deletes the group
        if owner.spec.replicas > 0:
            return self._clock.now() + GROUP_OWNER_CHECK_S
        await send(self._client, (Delete(POD_GROUPS, key, group.metadata.uid),))
        return None

    async def _follow_owner(self, group: PodGroup, pods: list[Pod]) -> float:
        """Update a waiting group from its owner, which is not watched; return when to read it again."""
        key, now = group.metadata.key, self._clock.now()
        due = self._owner_reads.setdefault(key, now + GROUP_OWNER_CHECK_S)
        if now < due:
            return due
        self._owner_reads[key] = now + GROUP_OWNER_CHECK_S
        pod = max(pods, key=_age)
        wanted, owner, size = await self._wanted_group(pod)
        await self._writer.update(group, wanted, size, moves=names_queue(pod, _annotations_of(owner)))
        return self._owner_reads[key]


def _annotations_of(owner: Owner | None) -> Mapping[str, str]:
    return {} if owner is None else owner.metadata.annotations


def _age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (0.0 if created is None else epoch(created), pod.metadata.name)


def _group_key(pod: Pod) -> tuple[Any, ...]:
    return (pod.group_key,) if pod.group_name.startswith(POD_GROUP_PREFIX) else ()


_PLACED: Final = "placed pods"  # index of pods with a node that have not finished, by the key of their group


class SuspendedGroupController:
    """Deletes the pods of suspended groups that have a node, and marks the stop as complete.

    Pods without a node stay: they wait, and a plain pod would be lost.  ``pods``: the informers of the pod
    group controller.
    """

    def __init__(
        self, context: ControllerContext, pods: Sequence[Selection[Pod]], groups: Informer[PodGroup]
    ) -> None:
        self._client = context.client
        self._pods = pods
        self._groups = groups
        self.reconciler = context.reconciler("volcano.suspended", self.reconcile, groups, FEW_WORKERS)
        jobs_are_queued = VOLCANO_JOB in context.configuration.integrations.frameworks
        for informer in pods:
            informer.add_index(_PLACED, partial(group_of_placed, jobs_are_queued=jobs_are_queued))
            informer.subscribe(self._pod_changed)
        groups.subscribe(self._group_changed)

    def _group_changed(self, change: Change[PodGroup]) -> None:
        if change.new is not None and _is_suspended(change.new):
            self.reconciler.enqueue(change.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        for pod in change.versions:
            group = self._groups.get(pod.group_key)
            if group is not None and _is_suspended(group):
                self.reconciler.enqueue(group.metadata.key)

    async def reconcile(self, key: Key) -> None:
        group = self._groups.get(key)
        if group is None or not _is_suspended(group):
            return
        pods = [pod for informer in self._pods for pod in _placed_pods(informer, key)]
        for pod in pods:
            metadata = pod.metadata
            if metadata.deletion_timestamp is None:
                await self._send(Delete(PLACEABLE_PODS, metadata.key, metadata.uid))
        if not pods and is_stopping(group):
            await self._send(stop_completed(group))

    async def _send(self, write: Any) -> None:
        with suppress(NotFound):  # deleted in the meantime
            await send(self._client, (write,))


def _is_suspended(group: PodGroup) -> bool:
    return group.metadata.annotations.get(SUSPENDED) == "true"


def _placed_pods(pods: Selection[Pod], group: Key) -> Iterator[Pod]:
    yield from pods.by_index(_PLACED, group)
    if group.name.startswith(POD_GROUP_PREFIX):
        yield from (pod for pod in pods.by_index(BY_GROUP, group) if pod.uses_node)


def group_of_placed(pod: Pod, *, jobs_are_queued: bool) -> tuple[Key, ...]:
    """Return the group of a placed pod.

    None for pods of groups that are made for plain pods: they have an index already.  None for pods of
    Volcano Jobs that are queued themselves: their groups are never suspended.
    """
    if not pod.group_name or not pod.uses_node or pod.group_name.startswith(POD_GROUP_PREFIX):
        return ()
    owner = pod.metadata.controller
    is_of_job = owner is not None and owner.api_version.startswith(f"{JOB_GROUP}/")
    return () if is_of_job and jobs_are_queued else (pod.group_key,)

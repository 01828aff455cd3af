"""Controllers of plain pods: single pods and groups as jobs, and pod adoption."""

from collections.abc import Iterator, Sequence
from typing import Final

from quorate.api.core import Namespace
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.api.native_groups import Workload as NativeWorkload
from quorate.controllers.context import ControllerContext
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobframework.construct_workload import prebuilt_name_of, queue_name_of
from quorate.controllers.jobframework.reconciler import JobReconciler, JobSource
from quorate.controllers.limits import GROUP_DELAY_S, NATIVE_GROUPS_RETRY_S, OWNER_RETRY_S
from quorate.controllers.native_groups import NativeGroups, unit_key
from quorate.controllers.pods import constants
from quorate.controllers.pods.defaulting import adoption_plan
from quorate.controllers.pods.native_workloads import native_group_name, native_unit
from quorate.controllers.pods.pod_group import PodGroup
from quorate.controllers.pods.pod_group_kind import PodGroupKind
from quorate.controllers.pods.pod_kind import PodKind
from quorate.controllers.pods.queued_pod import group_name_of, is_gated
from quorate.kube.controller.expectations import Version, versions
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.informer import Change
from quorate.kube.resources import PLACEABLE_PODS
from quorate.kube.selection import Selection

_GROUP: Final = "group"  # index of pods by the key of their group
_CONTROLLED_BY_POD: Final = "controlled by a pod"  # index of workloads by the key of their pod
_NAMES_WORKLOAD: Final = "names workload"  # index of pods by the key of their prebuilt workload
_NAMESPACE: Final = "namespace"


class SinglePods(JobSource[Pod]):
    def __init__(self, context: ControllerContext, pods: Selection[Pod], ancestors: AncestorFinder) -> None:
        self._client = context.client
        self._ancestors = ancestors
        self._labels_deployment = context.configuration.gates.deployment_job_uid_label
        self._pods = pods
        self._workloads = context.informers.workloads
        self._by_annotation = context.configuration.gates.workload_identifier_annotations
        pods.add_index(_NAMES_WORKLOAD, self._prebuilt_key)
        self._workloads.add_index(_CONTROLLED_BY_POD, pod_key_of, of_metadata=True)

    def cached(self, key: Key) -> Pod | None:
        return self._pods.get(key)

    async def live(self, key: Key) -> Pod | None:
        return await self._client.find(PLACEABLE_PODS, key)

    def versions(self, job: Pod) -> set[Version]:
        return versions(PLACEABLE_PODS, (job,))

    def size_of(self, job: Pod) -> int:
        return len(job.written)

    def workloads(self, key: Key) -> Sequence[Workload]:
        return self._workloads.by_index(_CONTROLLED_BY_POD, key)

    async def parent(self, job: Pod) -> Uid | None:
        """Return the Deployment of a gated pod, which is looked up through its ReplicaSet."""
        stamp = job.metadata.annotations.get(constants.SUSPENDING_PARENT)
        if not self._labels_deployment or stamp != constants.DEPLOYMENT or not is_gated(job):
            return None
        ancestor = await self._ancestors.managing_ancestor(job.metadata)
        return None if isinstance(ancestor, OwnerNotFound | BrokenOwnerChain) else ancestor

    def prebuilt(self, job: Pod) -> Workload | None:
        return next((self._workloads.get(key) for key in self._prebuilt_key(job)), None)

    def _prebuilt_key(self, pod: Pod) -> tuple[Key, ...]:
        name = prebuilt_name_of(pod.metadata, by_annotation=self._by_annotation)
        return (Key(pod.metadata.namespace, name),) if name else ()


class PodGroups(JobSource[PodGroup]):
    """Groups of managed pods, of labels or of Kubernetes.

    A pod in a group of Kubernetes needs no further labels: the workload waits for as many pods as the
    ``minCount`` of the group says.  Pods of a group with the basic policy are queued one by one.
    """

    def __init__(self, context: ControllerContext, pods: Selection[Pod], native: NativeGroups) -> None:
        self._clock = context.clock
        self._native = native
        self._gates = context.configuration.gates
        self._pods = pods
        self._workloads = context.informers.workloads
        pods.add_index(_GROUP, self._named_by)

    def key_of(self, pod: Pod) -> tuple[Key, ...]:
        """Return the key of the group with which the pod is queued; empty for a pod that is queued alone."""
        named = self._named_by(pod)
        if not self._is_native(pod):
            return named
        if not pod.metadata.is_managed or self._workloads.by_index(_CONTROLLED_BY_POD, pod.metadata.key):
            return ()
        return tuple(unit for key in named for unit in self._unit_of(key))

    def _named_by(self, pod: Pod) -> tuple[Key, ...]:
        own = group_name_of(pod.metadata, self._gates.workload_identifier_annotations)
        name = own or native_group_name(pod)
        return (Key(pod.metadata.namespace, name),) if name else ()

    def _is_native(self, pod: Pod) -> bool:
        """Return True if the pod, which names a PodGroup of Kubernetes, is in no group of plain pods."""
        return not group_name_of(pod.metadata, self._gates.workload_identifier_annotations)

    def _unit_of(self, key: Key) -> tuple[Key, ...]:
        """Return the key under which the pods of a native group are queued.

        It is the key of the group or of its native workload; empty if the pods are queued one by one.  A key
        stays the same as long as a Workload has it.
        """
        group = self._native.get(key)
        if group is None:
            return (key,)
        if group.spec.workload_name:
            workload = Key(key.namespace, group.spec.workload_name)
            unit = unit_key(workload)
            is_queued = self._workloads.get(key) is None and self._native_queue(workload)
            if is_queued or self._workloads.get(unit) is not None:
                return (unit,)
        return () if group.spec.scheduling_policy.gang is None else (key,)

    def _native_queue(self, key: Key) -> str:
        workload = self._native.workload(key)
        return "" if workload is None else queue_name_of(workload.metadata)

    def native_queue(self, pod: Pod) -> str:
        """Return the queue of the native workload that the pod belongs to; empty if it has none."""
        group = self._native.get(Key(pod.metadata.namespace, native_group_name(pod)))
        if group is None or not group.spec.workload_name:
            return ""
        return self._native_queue(Key(pod.metadata.namespace, group.spec.workload_name))

    def awaits_native(self, key: Key) -> bool:
        """Return True if the group is one of Kubernetes, and it is not known yet whether that exists."""
        return not self._native.are_known and any(map(self._is_native, self._pods.by_index(_GROUP, key)))

    def named(self, group: Key) -> list[Pod]:
        """Return the pods that name a group, managed or not."""
        return self._pods.by_index(_GROUP, group)

    def cached(self, key: Key) -> PodGroup | None:
        groups = self._native.groups_of_unit(key)
        named = [pod for name in (key, *(group.metadata.key for group in groups)) for pod in self.named(name)]
        pods = [pod for pod in named if self.key_of(pod) == (key,)]
        if not pods:
            return None
        composed = PodGroup.of(key.name, pods, self._clock.now(), self._gates)
        if not all(map(self._is_native, pods)):
            return composed
        if groups:
            workload = self._native.workload(Key(key.namespace, groups[0].spec.workload_name))
            return composed.as_unit(native_unit(workload, groups, composed.pods))
        native = self._native.get(key)
        gang = None if native is None else native.spec.scheduling_policy.gang
        return composed.as_native(0 if gang is None else gang.min_count)

    async def live(self, key: Key) -> PodGroup | None:
        return self.cached(key)  # a workload of a group that lost its pods is only released

    def versions(self, job: PodGroup) -> set[Version]:
        return versions(PLACEABLE_PODS, job.pods)

    def size_of(self, job: PodGroup) -> int:
        return sum(len(pod.written) for pod in job.pods)

    def uids(self, job: PodGroup) -> tuple[Uid, ...]:
        return tuple(pod.metadata.uid for pod in job.pods)

    def workloads(self, key: Key) -> Sequence[Workload]:
        workload = self._workloads.get(key)
        return () if workload is None else (workload,)


class PodController:
    """Reconciles managed pods, single or in groups, and adopts pods that name a queue."""

    def __init__(
        self,
        context: ControllerContext,
        pods: Selection[Pod],
        ancestors: AncestorFinder,
        native: NativeGroups,
    ) -> None:
        self._context = context
        self._pods = pods
        self._workloads = context.informers.workloads
        self._ancestors = ancestors
        self._single = JobReconciler(
            context, PodKind(), SinglePods(context, pods, ancestors), "pods", reconcile=self._reconcile_pod
        )
        self._source = PodGroups(context, pods, native)
        self._groups = JobReconciler(
            context, PodGroupKind(), self._source, "pods.groups", reconcile=self._reconcile_group
        )
        self._group_key = self._source.key_of
        self._native = native
        native.subscribe(self._native_group_changed)
        native.subscribe_to_workloads(self._native_workload_changed)
        self._watch()

    @property
    def reconcilers(self) -> tuple[Reconciler, ...]:
        return (self._single.reconciler, self._groups.reconciler)

    def _watch(self) -> None:
        self._pods.add_index(_NAMESPACE, lambda pod: (pod.metadata.namespace,))
        self._pods.subscribe(self._pod_changed)
        self._workloads.subscribe(self._workload_changed)
        self._context.informers.namespaces.subscribe(self._namespace_changed)

    def _pod_changed(self, change: Change[Pod]) -> None:
        if any(map(self._is_relevant, change.versions)):
            self._single.reconciler.enqueue(change.key)
        for pod in change.versions:
            for group in self._group_key(pod):
                self._groups.reconciler.enqueue_in(group, GROUP_DELAY_S)

    def _is_relevant(self, pod: Pod) -> bool:
        """Return False for most pods of a cluster: they are parts of jobs, and change often."""
        all_pods = self._single.options.manage_jobs_without_queue_name
        is_named = bool(queue_name_of(pod.metadata)) or pod.spec.scheduling_group is not None
        return all_pods or pod.metadata.is_managed or is_named

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in change.versions:
            for key in pod_key_of(workload):
                self._single.reconciler.enqueue(key)
            for pod in self._pods.by_index(_NAMES_WORKLOAD, workload.metadata.key):
                self._single.reconciler.enqueue(pod.metadata.key)
            is_group = constants.IS_GROUP in workload.metadata.annotations
            if is_group or self._pods.by_index(_GROUP, workload.metadata.key):
                self._groups.reconciler.enqueue(workload.metadata.key)

    def _namespace_changed(self, change: Change[Namespace]) -> None:
        old, new = change.old, change.new
        if new is not None and (old is None or _what_pods_ask(old) != _what_pods_ask(new)):
            for pod in self._pods.by_index(_NAMESPACE, new.metadata.name):
                self._single.reconciler.enqueue(pod.metadata.key)
                for group in self._group_key(pod):
                    self._groups.reconciler.enqueue(group)

    def _native_group_changed(self, change: Change[NativePodGroup]) -> None:
        """Reconcile the pods of the group, too: its policy decides whether they are queued one by one."""
        for group in change.versions:
            if group.spec.workload_name:
                self._groups.reconciler.enqueue(unit_key(Key(change.key.namespace, group.spec.workload_name)))
        self._reconcile_group_and_pods(change.key)

    def _native_workload_changed(self, change: Change[NativeWorkload]) -> None:
        self._groups.reconciler.enqueue(unit_key(change.key))
        if len({queue_name_of(workload.metadata) for workload in change.versions}) == len(change.versions):
            for group in self._native.groups_of(change.key):
                self._reconcile_group_and_pods(group.metadata.key)

    def _reconcile_group_and_pods(self, group: Key) -> None:
        self._groups.reconciler.enqueue(group)
        for pod in self._source.named(group):
            self._single.reconciler.enqueue(pod.metadata.key)

    async def _reconcile_group(self, key: Key) -> float | None:
        if self._source.awaits_native(key):
            return self._context.clock.now() + NATIVE_GROUPS_RETRY_S
        return await self._groups.reconcile(key)

    async def _reconcile_pod(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        if pod is not None and not pod.metadata.is_managed:
            return await self._adopt(pod)
        if pod is not None and self._group_key(pod):
            return None
        return await self._single.reconcile(key)

    async def _adopt(self, pod: Pod) -> float | None:
        key = pod.metadata.key
        until = self._single.executor.pending_until(key, versions(PLACEABLE_PODS, (pod,)))
        if until is not None:
            return until
        parent = pod.metadata.annotations.get(constants.SUSPENDING_PARENT)
        if parent not in (None, constants.DEPLOYMENT):
            return None  # the reconciler of its set labels the pod
        without_queue_name = self._single.options.manage_jobs_without_queue_name
        queue = queue_name_of(pod.metadata) or self._source.native_queue(pod)
        if not (queue or without_queue_name):
            return None
        ancestor = await self._ancestors.managing_ancestor(pod.metadata) if parent is None else None
        if isinstance(ancestor, OwnerNotFound | BrokenOwnerChain):
            return self._context.clock.now() + OWNER_RETRY_S
        plan = adoption_plan(
            pod,
            namespace_managed=self._single.manages_namespace(key.namespace),
            is_child=ancestor is not None,
            without_queue_name=without_queue_name,
            queue=queue,
        )
        return await self._single.executor.execute(key, plan)


def _what_pods_ask(namespace: Namespace) -> tuple[object, ...]:
    """Return whether pods of the namespace are managed, and whether a group can get replacements."""
    return namespace.metadata.labels, namespace.metadata.deletion_timestamp


def pod_key_of(workload: Workload) -> Iterator[Key]:
    """Return the key of the pod that controls the workload."""
    owner = workload.metadata.controller
    if owner is not None and (owner.api_version, owner.kind) == (
        PLACEABLE_PODS.api_version,
        PLACEABLE_PODS.kind,
    ):
        yield Key(workload.metadata.namespace, owner.name)

"""Controllers of plain pods: single pods and groups as jobs, and pod adoption."""

from collections.abc import Iterator, Sequence
from typing import Final

from quorate.api.core import Namespace
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.controllers.context import ControllerContext
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobframework.construct_workload import prebuilt_name_of, queue_name_of
from quorate.controllers.jobframework.reconciler import JobReconciler, JobSource
from quorate.controllers.limits import GROUP_DELAY_S, NATIVE_GROUPS_RETRY_S, OWNER_RETRY_S
from quorate.controllers.native_groups import NativeGroups
from quorate.controllers.pods import constants
from quorate.controllers.pods.adoption import adoption_plan
from quorate.controllers.pods.pod_group import PodGroup
from quorate.controllers.pods.pod_group_kind import PodGroupKind
from quorate.controllers.pods.pod_kind import PodKind
from quorate.controllers.pods.queued_pod import group_name_of, is_gated
from quorate.kube.controller.expectations import Version, versions
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import NotFound
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
        self._workloads.add_index(_CONTROLLED_BY_POD, pod_key_of)

    def cached(self, key: Key) -> Pod | None:
        return self._pods.get(key)

    async def live(self, key: Key) -> Pod | None:
        try:
            return await self._client.get(PLACEABLE_PODS, key)
        except NotFound:
            return None

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
        return tuple(key for key in self._named_by(pod) if not self._is_basic(pod, key))

    def _named_by(self, pod: Pod) -> tuple[Key, ...]:
        own = group_name_of(pod.metadata, self._gates.workload_identifier_annotations)
        name = own or (_native_group_name(pod) if pod.metadata.is_managed else "")
        return (Key(pod.metadata.namespace, name),) if name else ()

    def _is_basic(self, pod: Pod, key: Key) -> bool:
        return self._is_native(pod) and self._native.is_basic(key)

    def _is_native(self, pod: Pod) -> bool:
        """Return True if the pod is in no group but the one of Kubernetes that it names."""
        return not group_name_of(pod.metadata, self._gates.workload_identifier_annotations)

    def awaits_native(self, key: Key) -> bool:
        """Return True if the group is one of Kubernetes, and it is not known yet whether that exists."""
        return not self._native.are_known and any(map(self._is_native, self.pods(key)))

    def pods(self, key: Key) -> list[Pod]:
        return self._pods.by_index(_GROUP, key)

    def cached(self, key: Key) -> PodGroup | None:
        pods = [pod for pod in self.pods(key) if not self._is_basic(pod, key)]
        if not pods:
            return None
        group = PodGroup.of(key.name, pods, self._clock.now(), self._gates)
        if not all(map(self._is_native, pods)):
            return group
        native = self._native.get(key)
        gang = None if native is None else native.spec.scheduling_policy.gang
        return group.as_native(0 if gang is None else gang.min_count)

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


def _native_group_name(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


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
        native.subscribe(self._native_group_changed)
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
        return all_pods or pod.metadata.is_managed or bool(queue_name_of(pod.metadata))

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
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            for pod in self._pods.by_index(_NAMESPACE, new.metadata.name):
                self._single.reconciler.enqueue(pod.metadata.key)
                for group in self._group_key(pod):
                    self._groups.reconciler.enqueue(group)

    def _native_group_changed(self, change: Change[NativePodGroup]) -> None:
        """Reconcile the pods of the group, too: its policy decides whether they are queued one by one."""
        self._groups.reconciler.enqueue(change.key)
        for pod in self._source.pods(change.key):
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
        ancestor = await self._ancestors.managing_ancestor(pod.metadata) if parent is None else None
        if isinstance(ancestor, OwnerNotFound | BrokenOwnerChain):
            return self._context.clock.now() + OWNER_RETRY_S
        plan = adoption_plan(
            pod,
            namespace_managed=self._single.manages_namespace(key.namespace),
            is_child=ancestor is not None,
            without_queue_name=self._single.options.manage_jobs_without_queue_name,
        )
        return await self._single.executor.execute(key, plan)


def pod_key_of(workload: Workload) -> Iterator[Key]:
    """Return the key of the pod that controls the workload."""
    owner = workload.metadata.controller
    if owner is not None and (owner.api_version, owner.kind) == (
        PLACEABLE_PODS.api_version,
        PLACEABLE_PODS.kind,
    ):
        yield Key(workload.metadata.namespace, owner.name)

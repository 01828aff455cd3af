"""Carrying out the plans for plain pods and for groups of them."""

from collections.abc import Iterator, Sequence
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.core import Namespace
from quorate.api.kueue import Workload
from quorate.api.meta import Key, matches_selector
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import ByName
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobframework.construct_workload import prebuilt_name_of, queue_name_of
from quorate.controllers.pods import constants
from quorate.controllers.pods.adoption import Place, decide_stray
from quorate.controllers.pods.carrying import PlanCarrier
from quorate.controllers.pods.group import decide_group
from quorate.controllers.pods.plan import Catalogue, PodRules
from quorate.controllers.pods.queued_pod import PODS, QueuedPod, group_name_of, is_deleted, is_managed
from quorate.controllers.pods.single import decide_pod
from quorate.controllers.serving.set_templates import DEPLOYMENT
from quorate.kube.errors import NotFound
from quorate.kube.expectations import Version, versions
from quorate.kube.informer import Change, Informer
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import WORKLOADS

BATCH_S: Final = 0.5  # the pods of a group come and go together: one look for many
OWNER_S: Final = 1.0  # after so long an owner that was not seen is looked for again

_GROUP: Final = "group"  # index of pods by the key of their group
_OF_POD: Final = "controlled by a pod"  # index of workloads by the key of their pod
_NAMES: Final = "names"  # index of pods by the key of the workload they name as their own
_NAMESPACE: Final = "namespace"


class PodController:
    """Takes pods in, and keeps them, single or in groups, in step with their workloads."""

    def __init__(
        self, context: ControllerContext, pods: Informer[QueuedPod], ancestors: AncestorFinder
    ) -> None:
        self._context = context
        self._pods = pods
        self._workloads = context.informers.workloads
        self._ancestry = ancestors
        self._rules = pod_rules(context.configuration)
        self._catalogue = catalogue_of(context)
        self._warned: set[Key] = set()  # pods that stand outside of quota: each is told so once
        self._single = PlanCarrier(context, PODS, "pods", self._reconcile_pod)
        self._groups = PlanCarrier(context, PODS, "pods.groups", self._reconcile_group)
        self._follow()

    @property
    def reconcilers(self) -> tuple[Reconciler, ...]:
        return (self._single.reconciler, self._groups.reconciler)

    def _group_of(self, pod: QueuedPod) -> tuple[Key, ...]:
        name = group_name_of(pod.metadata, self._rules.gates.workload_identifier_annotations)
        return (Key(pod.metadata.namespace, name),) if name else ()

    def _prebuilt_of(self, pod: QueuedPod) -> tuple[Key, ...]:
        by_annotation = self._rules.gates.workload_identifier_annotations
        name = prebuilt_name_of(pod.metadata, by_annotation=by_annotation)
        return (Key(pod.metadata.namespace, name),) if name else ()

    def _follow(self) -> None:
        informers = self._context.informers
        self._pods.add_index(_GROUP, self._group_of)
        self._pods.add_index(_NAMES, self._prebuilt_of)
        self._pods.add_index(_NAMESPACE, lambda pod: (pod.metadata.namespace,))
        self._workloads.add_index(_OF_POD, _pod_of)
        self._pods.subscribe(self._pod_changed)
        self._workloads.subscribe(self._workload_changed)
        informers.namespaces.subscribe(self._namespace_changed)

    def _pod_changed(self, change: Change[QueuedPod]) -> None:
        if change.new is None:
            self._warned.discard(change.key)
        if any(pod is not None and self._matters(pod) for pod in (change.old, change.new)):
            self._single.reconciler.enqueue(change.key)
        for pod in (change.old, change.new):
            for group in () if pod is None else self._group_of(pod):
                self._groups.reconciler.enqueue_in(group, BATCH_S)

    def _matters(self, pod: QueuedPod) -> bool:
        """Most pods of a cluster are parts of jobs, and change often."""
        all_matter = self._rules.manage_without_queue_name
        return all_matter or is_managed(pod) or bool(queue_name_of(pod.metadata))

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in (change.old, change.new):
            if workload is None:
                continue
            for key in _pod_of(workload):
                self._single.reconciler.enqueue(key)
            for pod in self._pods.by_index(_NAMES, workload.metadata.key):
                self._single.reconciler.enqueue(pod.metadata.key)
            if self._pods.by_index(_GROUP, workload.metadata.key) or _is_group(workload):
                self._groups.reconciler.enqueue(workload.metadata.key)

    def _namespace_changed(self, change: Change[Namespace]) -> None:
        old, new = change.old, change.new
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            for pod in self._pods.by_index(_NAMESPACE, new.metadata.name):
                self._single.reconciler.enqueue(pod.metadata.key)
                for group in self._group_of(pod):
                    self._groups.reconciler.enqueue(group)

    async def _reconcile_pod(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        if pod is not None and not is_managed(pod):
            return await self._consider(pod)
        if pod is not None and self._group_of(pod):
            return None
        workloads = self._workloads.by_index(_OF_POD, key)
        pods = () if pod is None else (pod,)
        if not pods and not workloads:
            self._single.forget(key)
            return None
        until = self._single.pending_until(key, _seen(pods, workloads))
        if until is not None:
            return until
        if pod is None:
            pod = await self._if_it_lives(key)
        if pod is not None and not is_deleted(pod) and not self._is_managed_namespace(key.namespace):
            return None
        named = None if pod is None else next(map(self._workloads.get, self._prebuilt_of(pod)), None)
        now = self._context.clock.now()
        plan = decide_pod(pod, workloads, named, self._catalogue, self._rules, now)
        return await self._single.carry_out(key, plan, None if pod is None else pod.metadata)

    async def _if_it_lives(self, key: Key) -> QueuedPod | None:
        """The pod, should only our copy lack it: the workload of a living pod must never be finished."""
        try:
            return await self._context.client.get(PODS, key)
        except NotFound:
            return None

    async def _reconcile_group(self, key: Key) -> float | None:
        pods = self._pods.by_index(_GROUP, key)
        workload = self._workloads.get(key)
        if not pods and workload is None:
            self._groups.forget(key)
            return None
        seen = _seen(pods, () if workload is None else (workload,))
        until = self._groups.pending_until(key, seen)
        if until is not None:
            return until
        if pods and not self._is_managed_namespace(key.namespace):
            return None
        now = self._context.clock.now()
        plan = decide_group(key.name, pods, workload, self._catalogue, self._rules, now)
        return await self._groups.carry_out(key, plan, pods[0].metadata if pods else None)

    def _is_managed_namespace(self, name: str) -> bool:
        namespace = self._context.informers.namespaces.get(Key("", name))
        selector = self._context.configuration.managed_jobs_namespace_selector
        return namespace is not None and matches_selector(selector, namespace.metadata.labels)

    async def _consider(self, pod: QueuedPod) -> float | None:
        """Take in a pod that is not managed, if it is to be."""
        key = pod.metadata.key
        until = self._single.pending_until(key, _seen((pod,), ()))
        if until is not None:
            return until
        parent = pod.metadata.annotations.get(constants.SUSPENDING_PARENT)
        if parent not in (None, DEPLOYMENT.framework):
            return None  # whoever looks after its set tells it which group it is of
        manager = await self._ancestry.managing_ancestor(pod.metadata) if parent is None else None
        if isinstance(manager, OwnerNotFound | BrokenOwnerChain):
            return self._context.clock.now() + OWNER_S
        place = Place(self._is_managed_namespace(key.namespace), manager is not None)
        plan = decide_stray(pod, place, self._rules)
        if plan.told:
            if key in self._warned:
                return None
            self._warned.add(key)
        return await self._single.carry_out(key, plan)


def pod_rules(configuration: Configuration) -> PodRules:
    return PodRules(
        manage_without_queue_name=configuration.manage_jobs_without_queue_name,
        wait_for_pods_ready=configuration.wait_for_pods_ready is not None,
        label_keys_to_copy=configuration.integrations.label_keys_to_copy,
        gates=configuration.gates,
        deactivated_kept_s=configuration.retention.deactivated_s,
    )


def catalogue_of(context: ControllerContext) -> Catalogue:
    return Catalogue(
        flavors=ByName(context.informers.flavors),
        workload_classes=ByName(context.informers.workload_classes),
        pod_classes=ByName(context.informers.pod_classes),
    )


def _seen(pods: Sequence[QueuedPod], workloads: Sequence[Workload]) -> set[Version]:
    return (versions(PODS, pods) if pods else set()) | versions(WORKLOADS, workloads)


def _pod_of(workload: Workload) -> Iterator[Key]:
    owner = workload.metadata.controller
    if owner is not None and (owner.api_version, owner.kind) == (PODS.api_version, PODS.kind):
        yield Key(workload.metadata.namespace, owner.name)


def _is_group(workload: Workload) -> bool:
    return constants.IS_GROUP in workload.metadata.annotations

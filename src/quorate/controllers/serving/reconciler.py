"""Carrying out what is decided for the sets of one kind: Deployments, StatefulSets or LeaderWorkerSets."""

import asyncio

from quorate.api.field_path import InvalidTemplate
from quorate.api.kueue import Workload
from quorate.api.meta import Key, matches_selector
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import WORKLOADS_OF, synced
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.jobs.integrations import until_served
from quorate.controllers.pods.carrying import PlanCarrier
from quorate.controllers.pods.plan import PodPlan, warned
from quorate.controllers.pods.queued_pod import PODS, QueuedPod
from quorate.controllers.pods.reconciler import OWNER_S, catalogue_of, pod_rules
from quorate.controllers.serving.gating import decide_template
from quorate.controllers.serving.kinds import ServingSet, SetOfPods
from quorate.controllers.serving.workloads import decide_set
from quorate.kube.expectations import versions
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import WORKLOADS, reference_to


async def run_sets(
    context: ControllerContext, kind: SetOfPods, pods: Informer[QueuedPod], ancestors: AncestorFinder
) -> None:
    """Wait for the kind to be served, then look after its sets until cancelled."""
    await until_served(kind.resource, context.client, context.clock)
    sets = Informer(context.client, kind.resource)
    ancestors.add(kind.resource, sets.get)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sets.run(), name=f"watch {kind.resource.plural}")
        await synced(sets)
        reconciler = SetController(context, kind, sets, pods, ancestors).reconciler
        tasks.create_task(reconciler.run(), name=reconciler.name)


class SetController:
    """Keeps the sets of one kind in step with their workloads, and tells their pods where they belong."""

    def __init__(
        self,
        context: ControllerContext,
        kind: SetOfPods,
        sets: Informer[ServingSet],
        pods: Informer[QueuedPod],
        ancestors: AncestorFinder,
    ) -> None:
        self._context = context
        self._kind = kind
        self._sets = sets
        self._pods = pods
        self._ancestry = ancestors
        self._rules = pod_rules(context.configuration)
        self._catalogue = catalogue_of(context)
        self._carrier = PlanCarrier(context, kind.resource, f"sets.{kind.resource.plural}", self._reconcile)
        self.reconciler = self._carrier.reconciler
        self._index = f"of a {kind.resource.kind}"
        pods.add_index(self._index, lambda pod: (kind.set_of(pod),))
        sets.subscribe(lambda change: self.reconciler.enqueue(change.key))
        pods.subscribe(self._pod_changed)
        context.informers.workloads.subscribe(self._workload_changed)

    def _pod_changed(self, change: Change[QueuedPod]) -> None:
        key = None if change.new is None else self._kind.set_of(change.new)
        if key is not None:
            self.reconciler.enqueue(key)

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in (change.old, change.new):
            owner = None if workload is None else workload.metadata.controller
            if workload is not None and owner is not None and owner.kind == self._kind.resource.kind:
                self.reconciler.enqueue(Key(workload.metadata.namespace, owner.name))

    async def _reconcile(self, key: Key) -> float | None:
        obj = self._sets.get(key)
        if obj is None or obj.metadata.deletion_timestamp is not None:
            self._carrier.forget(key)
            return None  # its workloads are garbage, and let go when the last pod is
        queued = await self._is_queued(obj)
        if queued is None:
            return self._context.clock.now() + OWNER_S
        if not queued:
            return None
        workloads = self._context.informers.workloads.by_index(WORKLOADS_OF, obj.metadata.uid)
        pods = self._pods.by_index(self._index, key)
        seen = versions(self._kind.resource, (obj,)) | versions(WORKLOADS, workloads)
        if pods:
            seen |= versions(PODS, pods)
        until = self._carrier.pending_until(key, seen)
        if until is not None:
            return until
        plan = self._decided(obj, workloads, pods, self._context.clock.now())
        return await self._carrier.carry_out(key, plan, obj.metadata)

    async def _is_queued(self, obj: ServingSet) -> bool | None:
        """One that another set made is looked after with that one; ``None``: its owner has yet to be seen."""
        namespace = self._context.informers.namespaces.get(Key("", obj.metadata.namespace))
        selector = self._context.configuration.managed_jobs_namespace_selector
        if namespace is None or not matches_selector(selector, namespace.metadata.labels):
            return False
        queued = queue_name_of(obj.metadata) or self._rules.manage_without_queue_name
        manager = await self._ancestry.managing_ancestor(obj.metadata) if queued else None
        if isinstance(manager, OwnerNotFound | BrokenOwnerChain):
            return None
        return bool(queued) and manager is None

    def _decided(
        self, obj: ServingSet, workloads: list[Workload], pods: list[QueuedPod], now: float
    ) -> PodPlan:
        kind = self._kind
        try:
            plan = decide_template(kind.templates, kind.resource, obj)
            if plan is None:
                plan = PodPlan()
                if kind.serving is not None:
                    plan = decide_set(kind.serving, obj, workloads, pods, self._catalogue, self._rules, now)
        except InvalidTemplate as unfit:
            return PodPlan(told=(warned(reference_to(kind.resource, obj), "ErrWorkloadCompose", str(unfit)),))
        return plan

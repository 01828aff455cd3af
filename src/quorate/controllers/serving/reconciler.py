"""The controller of Deployments, StatefulSets and LeaderWorkerSets."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from quorate.api.core.pod import Pod
from quorate.api.field_path import InvalidTemplate, look_up, read_entries, read_field
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid, matches_selector
from quorate.controllers.context import ControllerContext, record_workload_creations
from quorate.controllers.executor import ObjectEvent, Plan, PlanExecutor, name_conflict, warning_event
from quorate.controllers.informers import UNREADABLE_RETRY_S, WORKLOADS_OF, ByName, synced
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.jobframework.job_plan import ReconcileContext, job_options
from quorate.controllers.limits import OWNER_RETRY_S, REFUSED_SET_RETRY_S, WORKERS
from quorate.controllers.pods import constants
from quorate.controllers.pods.constants import OWNER_KIND, OWNER_NAME
from quorate.controllers.pods.defaulting import NOT_GATED, DefaultingContext
from quorate.controllers.serving.kinds import ServingFramework, ServingSet
from quorate.controllers.serving.set_templates import (
    SetKind,
    default_set,
    gate_templates,
    is_stamped_by_other,
    ready_pods,
    replicas,
    templates_in,
)
from quorate.controllers.serving.workloads import is_adoptable, serving_plans
from quorate.kube.controller.expectations import versions
from quorate.kube.discovery import wait_until_served
from quorate.kube.errors import AlreadyExists, ApiError, is_refusal
from quorate.kube.informer import Change, Informer
from quorate.kube.patches import merge_patch
from quorate.kube.resources import PLACEABLE_PODS, WORKLOADS, Json, Resource, reference_to
from quorate.kube.selection import Selection
from quorate.kube.writes import Create, Patch

_COMPOSING: Final = ("ErrWorkloadCompose", "no Workload can be made of the set as it is")
_CHANGING: Final = ("UpdateRefused", "the set or its pods cannot be changed")


async def run_sets(
    context: ControllerContext, kind: ServingFramework, pods: Selection[Pod], ancestors: AncestorFinder
) -> None:
    """Wait until the kind is served, then reconcile its sets until cancelled."""
    await wait_until_served(kind.resource, context.client, context.clock)
    sets = Informer(context.client, kind.resource)
    ancestors.add(kind.resource, sets.get)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sets.run(), name=f"watch {kind.resource.plural}")
        await synced(sets)
        reconciler = SetController(context, kind, sets, pods, ancestors).reconciler
        tasks.create_task(reconciler.run(), name=reconciler.name)


class SetController:
    """Keeps the sets of one kind in sync with their workloads and pod groups."""

    def __init__(
        self,
        context: ControllerContext,
        kind: ServingFramework,
        sets: Informer[ServingSet],
        pods: Selection[Pod],
        ancestors: AncestorFinder,
    ) -> None:
        self._context = context
        self._kind = kind
        self._sets = sets
        self._pods = pods
        self._ancestors = ancestors
        self._options = job_options(context.configuration)
        name = f"sets.{kind.resource.plural}"
        self.reconciler = context.reconciler(name, self._reconcile, sets, WORKERS, kind.resource)
        self._executor = PlanExecutor(context, kind.resource, self.reconciler.enqueue)
        informers = context.informers
        self._executor.retry_on(informers.flavors, informers.workload_classes, informers.pod_classes)
        self._index = f"of a {kind.resource.kind}"
        self._owned = f"owned by a {kind.resource.kind}"
        informers.workloads.add_index(self._owned, self._owners)
        pods.add_index(self._index, lambda pod: (kind.set_key_of(pod),))
        sets.subscribe(lambda change: self.reconciler.enqueue(change.key))
        pods.subscribe(self._pod_changed)
        informers.workloads.subscribe(self._workload_changed)

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.new or change.old
        key = None if pod is None else self._kind.set_key_of(pod)
        if key is not None:
            self.reconciler.enqueue(key)

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in change.versions:
            metadata, kind = workload.metadata, self._kind.resource.kind
            owner = metadata.controller
            if owner is not None and owner.kind == kind:
                self.reconciler.enqueue(Key(metadata.namespace, owner.name))
            elif metadata.annotations.get(OWNER_KIND, "").endswith(f", Kind={kind}"):
                self.reconciler.enqueue(Key(metadata.namespace, metadata.annotations.get(OWNER_NAME, "")))

    async def _reconcile(self, key: Key) -> float | None:
        obj = self._sets.get(key)
        if obj is None or obj.metadata.deletion_timestamp is not None:
            self._executor.forget(key)
            return None  # its workloads are garbage-collected, and released when their last pod is
        queued = await self._is_queued(obj)
        if queued is None:
            return self._context.clock.now() + OWNER_RETRY_S
        if not queued:
            return None
        if self._context.informers.has_unreadable_workload(obj.metadata.uid):
            return self._context.clock.now() + UNREADABLE_RETRY_S
        workloads = self._workloads(obj)
        pods = self._pods.by_index(self._index, key)
        seen = versions(self._kind.resource, (obj,)) | versions(WORKLOADS, workloads)
        if pods:
            seen |= versions(PLACEABLE_PODS, pods)
        until = self._executor.pending_until(key, seen)
        if until is not None:
            return until
        plans = self._plans(obj, workloads, pods, self._context.clock.now())
        missing = next((plan.missing_dependency for plan in plans if plan.missing_dependency), "")
        steps = (replace(plan, missing_dependency=missing) for plan in plans or (Plan(),))
        outcomes = await asyncio.gather(*(self._execute(obj, step) for step in steps), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return min((at for at in outcomes if isinstance(at, float)), default=None)

    async def _execute(self, obj: ServingSet, plan: Plan) -> float | None:
        key = obj.metadata.key
        try:
            return await self._executor.execute(key, plan, partial(self._record, obj, plan))
        except ApiError as refusal:
            event = self._refusal_event(obj, plan, refusal)
            if event is None:
                raise
            self._executor.record(key, (event,), unique=True)
            return self._context.clock.now() + REFUSED_SET_RETRY_S

    def _refusal_event(self, obj: ServingSet, plan: Plan, refusal: ApiError) -> ObjectEvent | None:
        """Return the event about a refused write; None if it may succeed at once when it is repeated."""
        about = reference_to(self._kind.resource, obj.metadata)
        if isinstance(refusal, AlreadyExists):
            workloads, owners = self._context.informers.workloads, (obj.metadata.uid,)
            return name_conflict(about, plan.all_writes, workloads, owners)
        if not is_refusal(refusal):
            return None
        creates = any(isinstance(write, Create) for write in plan.all_writes)
        reason, text = _COMPOSING if creates else _CHANGING
        return warning_event(about, reason, f"{text}: {refusal.message or refusal.reason}")

    def _workloads(self, obj: ServingSet) -> list[Workload]:
        """Return the workloads of the set, and those of no object that it adopts."""
        informer = self._context.informers.workloads
        workloads = [
            *informer.by_index(WORKLOADS_OF, obj.metadata.uid),
            *informer.by_index(self._owned, obj.metadata.uid),
        ]
        for name in self._unowned_names(obj):
            stored = informer.get(Key(obj.metadata.namespace, name))
            if stored is not None and is_adoptable(stored) and stored not in workloads:
                workloads.append(stored)
        return workloads

    def _unowned_names(self, obj: ServingSet) -> Iterator[str]:
        """Yield the names of workloads that the set may adopt: of earlier versions, or of its original."""
        serving, short_names = self._kind.serving, self._options.gates.short_workload_names
        if serving is not None:
            yield serving.older_name(obj, short_names)
            if obj.is_copy:
                with suppress(InvalidTemplate):  # it is reported when plans are made
                    yield from (group.workload for group in serving.groups(obj, short_names))

    def _owners(self, workload: Workload) -> tuple[Uid, ...]:
        """Return the sets that own ``workload``, of which its annotations name none."""
        if not is_adoptable(workload):
            return ()
        kind = self._kind.resource.kind
        return tuple(owner.uid for owner in workload.metadata.owner_references if owner.kind == kind)

    async def _is_queued(self, obj: ServingSet) -> bool | None:
        """Return False for a child, which is queued with its parent; None: owner not found."""
        namespace = self._context.informers.namespaces.get(Key("", obj.metadata.namespace))
        selector = self._context.configuration.managed_jobs_namespace_selector
        if namespace is None or not matches_selector(selector, namespace.metadata.labels):
            return False
        if is_stamped_by_other(self._kind.templates, obj.document):
            return False
        queued = queue_name_of(obj.metadata) or self._options.manage_jobs_without_queue_name
        ancestor = (
            await self._ancestors.managing_ancestor(obj.metadata, self._kind.resource) if queued else None
        )
        if isinstance(ancestor, OwnerNotFound | BrokenOwnerChain):
            return None
        return bool(queued) and ancestor is None

    def _plans(
        self, obj: ServingSet, workloads: list[Workload], pods: list[Pod], now: float
    ) -> tuple[Plan, ...]:
        kind = self._kind
        try:
            topology = self._options.topology is not None
            plan = gate_plan(kind.templates, kind.resource, obj, has_pods=bool(pods), topology=topology)
            if plan is not None:
                return (plan,)
            if kind.serving is None:
                return ()
            return serving_plans(
                kind.serving, obj, workloads, pods, self._reconcile_context(), self._options, now
            )
        except InvalidTemplate as invalid:
            about = reference_to(kind.resource, obj.metadata)
            return (Plan(events=(warning_event(about, "ErrWorkloadCompose", str(invalid)),)),)

    def _reconcile_context(self) -> ReconcileContext:
        informers = self._context.informers
        return ReconcileContext(
            flavors=ByName(informers.flavors),
            workload_classes=ByName(informers.workload_classes),
            pod_classes=ByName(informers.pod_classes),
        )

    def _record(self, obj: ServingSet, plan: Plan, produced: list[Any]) -> None:
        if self._options.gates.metric_for_workload_creation_latency:
            kind = self._kind.resource.kind
            record_workload_creations(self._context.record, kind, obj.metadata, plan.writes, produced)


REPLICAS_BEFORE_GATING: Final = "quorate.dev/replicas-before-gating"
_REPLICAS: Final = re.compile(r"[0-9]{1,9}")  # users may write the annotation, too


def gate_plan(
    kind: SetKind,
    resource: Resource[ServingSet],
    obj: ServingSet,
    *,
    has_pods: bool = False,
    topology: bool = False,
) -> Plan | None:
    """Return what a set needs without webhooks before its pods can be admitted; None: it is gated.

    Pods that a set has created before run without quota and cannot be gated any more.  The same write scales
    the set to 0, and another one scales it up again once the pods are gone; a set that is scaled meanwhile is
    scaled to 0 again.  A set with ready pods is not interrupted: an event explains what to do.

    ``has_pods``: a pod of the set exists, which its status may not count yet.
    ``topology``: pods may get places in topologies, for which they wait behind a gate of its own.
    Raises ``InvalidTemplate``.
    """
    document = obj.document
    before = obj.metadata.annotations.get(REPLICAS_BEFORE_GATING)
    wanted = replicas(document)
    if before is not None and wanted:  # scaled since, while pods without the gate may be left
        return _patch(resource, obj, _scaled_down(wanted, {}))
    if before is not None:
        if not _is_scaled_down(document, has_pods):
            return Plan()
        scaled_up = {
            "metadata": {"annotations": {REPLICAS_BEFORE_GATING: None}},
            "spec": {"replicas": int(before) if _REPLICAS.fullmatch(before) else 1},
        }
        return _patch(resource, obj, scaled_up)
    if all(_is_marked(template) for template in templates_in(kind, document)):
        return None
    if ready_pods(kind, document):
        text = (
            f"pods of the set run outside of all quota, since its template lacks the scheduling gate "
            f"{constants.ADMISSION_GATE}: scale it to 0 and back, or install the webhooks before it is made"
        )
        return Plan(events=(warning_event(reference_to(resource, obj.metadata), NOT_GATED, text),))
    queued = DefaultingContext(  # checked by the reconciler
        namespace_managed=True, manage_without_queue_name=True, topology=topology
    )
    gated = gate_templates(kind, default_set(kind, document, queued), queued)
    change = merge_patch({"spec": obj.spec}, {"spec": gated["spec"]})
    return _patch(resource, obj, _scaled_down(wanted, change["spec"]) if wanted else change)


def _scaled_down(wanted: int, spec: Json) -> Json:
    """Return the change ``spec`` with a scale to 0 that remembers how many replicas are wanted."""
    return {
        "metadata": {"annotations": {REPLICAS_BEFORE_GATING: str(wanted)}},
        "spec": {**spec, "replicas": 0},
    }


def _is_marked(template: Json) -> bool:
    """Return True if the webhook or ``gate_plan`` has changed the template."""
    return look_up(template, ("metadata", "annotations", constants.SUSPENDING_PARENT)) is not None


def _is_scaled_down(document: Json, has_pods: bool) -> bool:
    """Return True if the set's own controller has observed the scale to 0 and no pod is left.

    The status of a LeaderWorkerSet has no ``observedGeneration``. It is available without a ready group only
    once its controller has observed the scale to 0, perhaps before its StatefulSet has.
    """
    if read_field(document, ("status", "replicas"), int, 0) > 0:
        return False
    observed = read_field(document, ("status", "observedGeneration"), int, -1)
    if observed < 0:
        conditions = read_entries(document, ("status", "conditions"))
        states = {(condition.get("type"), condition.get("status")) for condition in conditions}
        return not has_pods and ("Available", "True") in states
    return bool(observed >= document["metadata"].get("generation", 0))


def _patch(resource: Resource[ServingSet], obj: ServingSet, change: Json) -> Plan:
    metadata = obj.metadata
    return Plan(writes=(Patch(resource, metadata.key, metadata.resource_version, change),))

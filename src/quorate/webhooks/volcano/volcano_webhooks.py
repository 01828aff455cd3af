"""The admission webhooks of pod groups, their pods, Volcano queues and Volcano Jobs.

The validation rules are in ``api.validation``, the rules about reserved quota in ``gang``.  The defaults are
Volcano's (1.15); they map documents to documents, so that no field of an object is lost.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.configuration.gang import PodGroupWebhooks
from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.api.findings import Finding, child_path
from quorate.api.meta import Key
from quorate.api.names.volcano import GROUP_NAME, HIERARCHY, HIERARCHY_WEIGHTS, QUEUE_NAME
from quorate.api.validation.fields import Findings
from quorate.api.validation.hyper_nodes import hyper_node_findings
from quorate.api.validation.pod_groups import (
    QueueLoad,
    pod_group_findings,
    pod_group_limit_findings,
    pod_group_queue_findings,
)
from quorate.api.validation.volcano_jobs import (
    volcano_job_findings,
    volcano_job_queue_findings,
    volcano_job_update_findings,
    volcano_job_warnings,
)
from quorate.api.validation.volcano_queues import (
    ancestors,
    descendants,
    queue_delete_findings,
    queue_findings,
    queue_update_findings,
)
from quorate.api.volcano import COMPLETED, DEFAULT_QUEUE, PENDING, ROOT_QUEUE, PodGroup, Queue
from quorate.api.volcano.job import Job, with_defaults
from quorate.api.volcano.topology import HyperNode
from quorate.controllers.volcano.pod_groups.scheduling_gates import gate_for
from quorate.gang.cache.from_objects import quota_amounts
from quorate.gang.namespace_quota.evaluation import group_minimum
from quorate.gang.namespace_quota.webhook_checks import PodGroupRequest, group_findings, pod_findings
from quorate.kube.computations import Computations
from quorate.kube.resources import Json
from quorate.webhooks.admission_review import (
    ALLOWED,
    AdmissionRequest,
    AdmissionResponse,
    Handler,
    decode_object,
    decode_old,
    defaulted,
    first_findings,
    for_writes,
    refuse_undecodable,
)
from quorate.webhooks.limits import MAX_FINDINGS
from quorate.webhooks.volcano import volcano_routes
from quorate.webhooks.volcano.quota_pod import IncomingPod, pod_group_of, quota_usage_of, scope_attributes
from quorate.webhooks.volcano.volcano_reader import Queues, VolcanoReader

POD_GROUP_PENDING: Final = "PodGroupPending"
_ROOT_WEIGHT: Final = "1"
_WITHOUT_DELAY: Final = PodGroupWebhooks(min_resources="off")


class VolcanoWebhooks:
    """``scheduler_names``: the schedulers of pods that may belong to pod groups."""

    def __init__(
        self, reader: VolcanoReader, rules: PodGroupWebhooks, scheduler_names: Collection[str]
    ) -> None:
        self._reader = reader
        self._rules = rules
        self._names = frozenset(scheduler_names)
        self._computations = Computations()

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by path."""
        for_creates_and_updates = {
            volcano_routes.MUTATE_POD_GROUPS: self.mutate_pod_group,
            volcano_routes.VALIDATE_POD_GROUPS: self.validate_pod_group,
            volcano_routes.POD_GROUPS_MIN_RESOURCES: self.check_min_resources,
            volcano_routes.MUTATE_QUEUES: self.mutate_queue,
            volcano_routes.MUTATE_JOBS: self.mutate_job,
            volcano_routes.VALIDATE_JOBS: self.validate_job,
            volcano_routes.VALIDATE_HYPER_NODES: validate_hyper_node,
            volcano_routes.PODS_MIN_RESOURCES: self.check_pod_quota,
            volcano_routes.MUTATE_PODS: self.gate_pod,
            volcano_routes.UNUSED: None,
        }
        handlers = {path: for_writes(handler) for path, handler in for_creates_and_updates.items()}
        return handlers | {volcano_routes.VALIDATE_QUEUES: self.validate_queue}

    @property
    def _delay(self) -> PodGroupWebhooks:
        """The rules on quota and pods of pending groups, which need a scheduler that admits groups."""
        return self._rules if self._reader.delays_pod_creation() else _WITHOUT_DELAY

    async def mutate_pod_group(self, request: AdmissionRequest) -> AdmissionResponse:
        namespace = await self._reader.namespace(request.namespace)
        annotations = {} if namespace is None else namespace.metadata.annotations
        return await _defaulted(request, lambda document: default_pod_group(document, annotations))

    async def validate_pod_group(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            group = await decode_object(PodGroup, request.object)
        except msgspec.ValidationError as error:
            return await refuse_undecodable(request.object, error)
        findings = first_findings(pod_group_findings(group))
        if request.operation == "CREATE":
            findings += await self._queue_findings(lambda queues: self._in_queue(group, queues))
        return AdmissionResponse(findings)

    def _in_queue(self, group: PodGroup, queues: Queues) -> Findings:
        queue = queues.get(group.queue_name)
        yield from pod_group_queue_findings(group, queue)
        if queue is None or not self._rules.max_pod_groups_hard:
            return
        yield from pod_group_limit_findings(group, self._loads(queue, queues))

    def _loads(self, queue: Queue, queues: Queues) -> Iterator[QueueLoad]:
        """Yield the loads of ``queue`` and of its ancestors with a limit."""
        for limited in (queue, *ancestors(queue, queues)):
            limit, name = limited.spec.max_pod_groups, limited.metadata.name
            if limit is not None:
                names = [name, *(child.metadata.name for child in descendants(name, queues))]
                groups = [group for child in names for group in self._reader.pod_groups_in_queue(child)]
                yield QueueLoad(name, limit, sum(group.status.phase != COMPLETED for group in groups))

    async def check_min_resources(self, request: AdmissionRequest) -> AdmissionResponse:
        """Refuse ``minResources`` above the quotas, in strict mode added to other groups."""
        try:
            group = await decode_object(PodGroup, request.object)
            old = await decode_object(PodGroup, request.old_object) if request.operation == "UPDATE" else None
        except msgspec.ValidationError:
            return ALLOWED  # validate_pod_group reports it
        view = self._reader.quota(request.namespace)
        if group.spec.min_resources is None or view is None:
            return ALLOWED
        mode = self._delay.min_resources
        other_claims = [
            _claimant(other)
            for other in (self._reader.pod_groups(request.namespace) if mode == "strict" else ())
            if other.status.phase != COMPLETED and other.metadata.name != request.name
        ]
        old_minimum = None if old is None else _claimant(old).minimum
        findings = group_findings(mode, _claimant(group), old_minimum, view.quotas, other_claims)
        return AdmissionResponse(tuple(findings))

    async def check_pod_quota(self, request: AdmissionRequest) -> AdmissionResponse:
        """Refuse a pod of a pending group, and a pod that needs quota reserved for other groups."""
        pod = await _new_pod(request)
        if pod is None:
            return ALLOWED
        group = pod_group_of(pod, self._names)
        rules = self._delay
        if rules.reject_pods_of_pending_groups and group:
            pod_group = self._reader.pod_group(Key(request.namespace, group))
            if pod_group is not None and pod_group.status.phase in ("", PENDING):
                return AdmissionResponse((_pod_group_pending(group),))
        view = self._reader.quota(request.namespace)
        if rules.min_resources == "off" or view is None or not view.quotas or not view.claims:
            return ALLOWED
        findings = pod_findings(
            quota_usage_of(pod.spec),
            scope_attributes(pod.spec),
            view.claims.get(group),
            view.quotas,
            view.reserved,
        )
        return AdmissionResponse(tuple(findings))

    async def gate_pod(self, request: AdmissionRequest) -> AdmissionResponse:
        """Add a gate to a pod if its pod group is not admitted; the gate controller removes it."""
        pod = await _new_pod(request) if self._delay.gate_pods_of_pending_groups else None
        if pod is None or pod.spec.scheduler_name not in self._names:
            return ALLOWED
        group = self._reader.pod_group(Key(request.namespace, pod_group_of(pod, self._names)))
        gate = gate_for(pod.metadata.annotations, group)
        return await _defaulted(request, lambda document: with_gate(document, gate)) if gate else ALLOWED

    async def mutate_queue(self, request: AdmissionRequest) -> AdmissionResponse:
        return await _defaulted(request, default_queue)

    async def validate_queue(self, request: AdmissionRequest) -> AdmissionResponse:
        depth = self._rules.max_queue_depth
        if request.operation == "DELETE":
            return await self._delete_queue(request)
        try:
            new = await decode_object(Queue, request.object)
        except msgspec.ValidationError as error:
            return await refuse_undecodable(request.object, error)
        old = await decode_old(Queue, request)

        def findings(queues: Queues) -> Findings:
            if old is None:
                return queue_findings(new, queues, depth=depth)
            return queue_update_findings(old, new, queues, depth=depth)

        return AdmissionResponse(await self._queue_findings(findings))

    async def _delete_queue(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            queue = await decode_object(Queue, request.old_object)
        except msgspec.ValidationError:
            return ALLOWED  # no object can depend on it
        in_use = self._rules.refuse_deletion_of_used_queues
        return AdmissionResponse(
            await self._queue_findings(
                lambda queues: queue_delete_findings(queue, queues, refuse_in_use=in_use)
            )
        )

    async def mutate_job(self, request: AdmissionRequest) -> AdmissionResponse:
        return await _defaulted(request, default_volcano_job)

    async def validate_job(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            job = with_defaults(await decode_object(Job, request.object))
        except msgspec.ValidationError as error:
            return await refuse_undecodable(request.object, error)
        size = len(request.object) + len(request.old_object)
        if request.operation == "CREATE":
            response = await self._computations.run(
                size, _job_response, job, partial(volcano_job_findings, job)
            )
            queue_related = await self._queue_findings(lambda queues: volcano_job_queue_findings(job, queues))
            return replace(response, findings=(*response.findings, *queue_related))
        try:
            old = default_volcano_job(await decode_object(dict[str, Any], request.old_object))
        except msgspec.ValidationError:  # there is nothing to compare with
            find = partial(volcano_job_findings, job)
        else:  # with defaults, which a manifest may leave out
            new = default_volcano_job(await decode_object(dict[str, Any], request.object))
            find = partial(volcano_job_update_findings, old, new, job)
        return await self._computations.run(size, _job_response, job, find)

    async def _queue_findings(self, check: Callable[[Queues], Findings]) -> tuple[Finding, ...]:
        """Return the findings of ``check``; check the API server if the cache yields any."""
        queues = self._reader.queues()
        if queues is not None and not tuple(check(queues)):
            return ()
        return tuple(check(await self._reader.list_queues()))


def _job_response(job: Job, find: Callable[[], Findings]) -> AdmissionResponse:
    return AdmissionResponse(first_findings(find()), tuple(islice(volcano_job_warnings(job), MAX_FINDINGS)))


async def validate_hyper_node(request: AdmissionRequest) -> AdmissionResponse:
    try:
        hyper_node = await decode_object(HyperNode, request.object)
    except msgspec.ValidationError as error:
        return await refuse_undecodable(request.object, error)
    return AdmissionResponse(first_findings(hyper_node_findings(hyper_node)))


async def _new_pod(request: AdmissionRequest) -> IncomingPod | None:
    """Return the pod to be created; None if it is exempt."""
    if request.operation != "CREATE" or request.namespace == volcano_routes.KUBE_SYSTEM:
        return None
    try:
        pod = await decode_object(IncomingPod, request.object)
    except msgspec.ValidationError:
        return None  # the API server validates it afterwards
    return None if pod.is_daemon_pod else pod


def _claimant(group: PodGroup) -> PodGroupRequest:
    spec = group.spec
    minimum = None if spec.min_resources is None else quota_amounts(spec.min_resources)
    return PodGroupRequest(
        ScopeAttributes(spec.priority_class_name),
        {} if minimum is None else group_minimum(minimum, spec.min_member),
    )


async def _defaulted(request: AdmissionRequest, default: Callable[[Json], Json]) -> AdmissionResponse:
    return await defaulted(request, default) if request.operation == "CREATE" else ALLOWED


def _pod_group_pending(group: str) -> Finding:
    rule = "is a pod group that is not admitted, and has no pods until then (wait for phase Inqueue)"
    return Finding(child_path("metadata.annotations", GROUP_NAME), group, rule, reason=POD_GROUP_PENDING)


def default_pod_group(document: Json, namespace_annotations: Mapping[str, str]) -> Json:
    """Set the queue that the namespace names, if the group names none or only the default queue."""
    spec = document.get("spec") or {}
    queue = namespace_annotations.get(QUEUE_NAME, "")
    if not queue or spec.get("queue", "") not in ("", DEFAULT_QUEUE):
        return document
    return {**document, "spec": {**spec, "queue": queue}}


def default_queue(document: Json) -> Json:
    """Set weight and reclaimable, and prepend the root to the hierarchy annotations."""
    spec = document.get("spec") or {}
    weight, reclaimable = spec.get("weight") or 1, spec.get("reclaimable")
    reclaimable = True if reclaimable is None else reclaimable
    result = {**document, "spec": {**spec, "weight": weight, "reclaimable": reclaimable}}
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    path, weights = annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")
    if path and weights and path.split("/")[0] != ROOT_QUEUE:
        rooted = {HIERARCHY: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS: f"{_ROOT_WEIGHT}/{weights}"}
        result["metadata"] = {**metadata, "annotations": {**annotations, **rooted}}
    return result


def with_gate(document: Json, gate: str) -> Json:
    """Add the gate, unless the pod has it, or names a node, with which the API allows no gates."""
    spec = document["spec"]
    gates = spec.get("schedulingGates") or []
    if spec.get("nodeName") or any(present["name"] == gate for present in gates):
        return document
    return {**document, "spec": {**spec, "schedulingGates": [*gates, {"name": gate}]}}


def default_volcano_job(document: Json) -> Json:
    """Fill in all defaults.  Raises ``msgspec.ValidationError`` if the document is not a job."""
    spec = with_defaults(codec.convert(Job, document)).spec
    given = document.get("spec") or {}
    tasks = [
        {**task, "name": done.name, "minAvailable": done.min_available}
        for task, done in zip(given.get("tasks") or [], spec.tasks, strict=True)
    ]
    filled = {
        "queue": spec.queue,
        "schedulerName": spec.scheduler_name,
        "maxRetry": spec.max_retry,
        "minAvailable": spec.min_available,
        "tasks": tasks,
        "plugins": {name: list(arguments) for name, arguments in spec.plugins.items()},
    }
    return {**document, "spec": {**given, **{name: value for name, value in filled.items() if value}}}

"""Reviews of Volcano's kinds and of pods: questions carried to the rules, and their answers back.

The rules stand elsewhere: what is wrong with objects in ``api.validation``, what quotas leave in ``gang``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.configuration.gang import PodGroupWebhooks
from quorate.api.findings import Finding, child_path
from quorate.api.meta import Key
from quorate.api.validation.fields import Findings
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
from quorate.api.volcano import COMPLETED, DEFAULT_QUEUE, PENDING, PodGroup, Queue
from quorate.api.volcano.annotations import GROUP_NAME
from quorate.api.volcano.job import Job, with_defaults
from quorate.controllers.volcano.pod_groups.scheduling_gates import gate_for
from quorate.gang.quota import Subject
from quorate.gang.quota_guard import Claimant, group_findings, pod_findings
from quorate.gang.reading import quota_units
from quorate.kube.patches import json_patch
from quorate.kube.resources import Json
from quorate.webhooks.admission_review import (
    ALLOWED,
    AdmissionRequest,
    AdmissionResponse,
    Handler,
    for_writes,
)
from quorate.webhooks.queueing_webhooks import unreadable
from quorate.webhooks.volcano import volcano_routes
from quorate.webhooks.volcano.defaulting import (
    default_pod_group,
    default_queue,
    default_volcano_job,
    gated_pod,
)
from quorate.webhooks.volcano.quota_pod import IncomingPod, pod_group_of, quota_subject, quota_usage_of
from quorate.webhooks.volcano.volcano_reader import Queues, VolcanoReader

POD_GROUP_PENDING: Final = "PodGroupPending"


class VolcanoWebhooks:
    """``scheduler_names``: of pods that pod groups are made of."""

    def __init__(
        self, reader: VolcanoReader, rules: PodGroupWebhooks, scheduler_names: Collection[str]
    ) -> None:
        self._reader = reader
        self._rules = rules
        self._names = frozenset(scheduler_names)

    def answers(self) -> Mapping[str, Handler]:
        """Who answers at which path."""
        of_writes = {
            volcano_routes.MUTATE_POD_GROUPS: self.mutate_pod_group,
            volcano_routes.VALIDATE_POD_GROUPS: self.validate_pod_group,
            volcano_routes.POD_GROUPS_MIN_RESOURCES: self.check_min_resources,
            volcano_routes.MUTATE_QUEUES: self.mutate_queue,
            volcano_routes.MUTATE_JOBS: self.mutate_job,
            volcano_routes.VALIDATE_JOBS: self.validate_job,
            volcano_routes.PODS_MIN_RESOURCES: self.check_pod_quota,
            volcano_routes.MUTATE_PODS: self.gate_pod,
            volcano_routes.UNUSED: None,
        }
        answers = {path: for_writes(answer) for path, answer in of_writes.items()}
        return answers | {volcano_routes.VALIDATE_QUEUES: self.validate_queue}

    async def mutate_pod_group(self, request: AdmissionRequest) -> AdmissionResponse:
        namespace = await self._reader.namespace(request.namespace)
        annotations = {} if namespace is None else namespace.metadata.annotations
        return _defaulted(request, lambda document: default_pod_group(document, annotations))

    async def validate_pod_group(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            group = codec.decode(PodGroup, request.object)
        except msgspec.ValidationError as error:
            return AdmissionResponse((unreadable(request.object, error),))
        findings = tuple(pod_group_findings(group))
        if request.operation == "CREATE":
            findings += await self._by_queues(lambda queues: self._in_queue(group, queues))
        return AdmissionResponse(findings)

    def _in_queue(self, group: PodGroup, queues: Queues) -> Findings:
        queue = queues.get(group.spec.queue or DEFAULT_QUEUE)
        yield from pod_group_queue_findings(group, queue)
        if queue is None or not self._rules.max_pod_groups_hard:
            return
        yield from pod_group_limit_findings(group, self._loads(queue, queues))

    def _loads(self, queue: Queue, queues: Queues) -> Iterator[QueueLoad]:
        """Of ``queue`` and of those above it that have a limit."""
        for each in (queue, *ancestors(queue, queues)):
            limit, name = each.spec.max_pod_groups, each.metadata.name
            if limit is not None:
                names = [name, *(below.metadata.name for below in descendants(name, queues))]
                held = [group for below in names for group in self._reader.pod_groups_of(below)]
                yield QueueLoad(name, limit, sum(group.status.phase != COMPLETED for group in held))

    async def check_min_resources(self, request: AdmissionRequest) -> AdmissionResponse:
        """Whether the ``minResources`` of a pod group can, and by mode may, be had."""
        try:
            group = codec.decode(PodGroup, request.object)
            old = codec.decode(PodGroup, request.old_object) if request.operation == "UPDATE" else None
        except msgspec.ValidationError:
            return ALLOWED  # what is wrong with it is said by ``validate_pod_group``
        view = self._reader.quota(request.namespace)
        if group.spec.min_resources is None or view is None:
            return ALLOWED
        mode = self._rules.min_resources
        others = [
            _claimant(other)
            for other in (self._reader.pod_groups(request.namespace) if mode == "strict" else ())
            if other.status.phase != COMPLETED and other.metadata.name != request.name
        ]
        before = None if old is None else _claimant(old).minimum
        return AdmissionResponse(tuple(group_findings(mode, _claimant(group), before, view.quotas, others)))

    async def check_pod_quota(self, request: AdmissionRequest) -> AdmissionResponse:
        """Whether a pod may exist yet, and whether what it uses of quotas is free for it."""
        pod = _new_pod(request)
        if pod is None:
            return ALLOWED
        group = pod_group_of(pod, self._names)
        if self._rules.reject_pods_of_pending_groups and group:
            known = self._reader.pod_group(Key(request.namespace, group))
            if known is not None and known.status.phase in ("", PENDING):
                return AdmissionResponse((_too_early(group),))
        view = self._reader.quota(request.namespace)
        if self._rules.min_resources == "off" or view is None or not view.quotas or not view.claims:
            return ALLOWED
        findings = pod_findings(
            quota_usage_of(pod.spec),
            quota_subject(pod.spec),
            view.claims.get(group),
            view.quotas,
            view.reserved,
        )
        return AdmissionResponse(tuple(findings))

    async def gate_pod(self, request: AdmissionRequest) -> AdmissionResponse:
        """A gate for a pod that comes before its pod group is admitted; our controllers take it off."""
        pod = _new_pod(request) if self._rules.gate_pods_of_pending_groups else None
        if pod is None or pod.spec.scheduler_name not in self._names:
            return ALLOWED
        group = self._reader.pod_group(Key(request.namespace, pod_group_of(pod, self._names)))
        gate = gate_for(pod.metadata.annotations, group)
        return _defaulted(request, lambda document: gated_pod(document, gate)) if gate else ALLOWED

    async def mutate_queue(self, request: AdmissionRequest) -> AdmissionResponse:
        return _defaulted(request, default_queue)

    async def validate_queue(self, request: AdmissionRequest) -> AdmissionResponse:
        depth = self._rules.max_queue_depth
        if request.operation == "DELETE":
            return await self._delete_queue(request)
        try:
            new = codec.decode(Queue, request.object)
        except msgspec.ValidationError as error:
            return AdmissionResponse((unreadable(request.object, error),))
        try:
            old = codec.decode(Queue, request.old_object) if request.operation == "UPDATE" else None
        except msgspec.ValidationError:
            old = None  # what was stored means nothing, so it binds nobody
        if old is None:
            return AdmissionResponse(
                await self._by_queues(lambda queues: queue_findings(new, queues, depth=depth))
            )
        return AdmissionResponse(
            await self._by_queues(lambda queues: queue_update_findings(old, new, queues, depth=depth))
        )

    async def _delete_queue(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            queue = codec.decode(Queue, request.old_object)
        except msgspec.ValidationError:
            return ALLOWED  # it means nothing, so nothing depends on it
        in_use = self._rules.refuse_deletion_of_used_queues
        return AdmissionResponse(
            await self._by_queues(lambda queues: queue_delete_findings(queue, queues, refuse_in_use=in_use))
        )

    async def mutate_job(self, request: AdmissionRequest) -> AdmissionResponse:
        return _defaulted(request, default_volcano_job)

    async def validate_job(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            job = with_defaults(codec.decode(Job, request.object))
        except msgspec.ValidationError as error:
            return AdmissionResponse((unreadable(request.object, error),))
        warnings = tuple(volcano_job_warnings(job))
        if request.operation == "CREATE":
            by_queues = await self._by_queues(lambda queues: volcano_job_queue_findings(job, queues))
            return AdmissionResponse((*volcano_job_findings(job), *by_queues), warnings)
        old, new = (codec.decode(dict[str, Any], body) for body in (request.old_object, request.object))
        return AdmissionResponse(tuple(volcano_job_update_findings(old, new, job)), warnings)

    async def _by_queues(self, check: Callable[[Queues], Findings]) -> tuple[Finding, ...]:
        """What ``check`` finds; what is found by a copy, which may lag, is found again by what is stored."""
        known = self._reader.queues()
        if known is not None and not tuple(check(known)):
            return ()
        return tuple(check(await self._reader.queues_now()))


def _new_pod(request: AdmissionRequest) -> IncomingPod | None:
    """The pod that is to be created, if pods like it are reviewed."""
    if request.operation != "CREATE" or request.namespace == volcano_routes.KUBE_SYSTEM:
        return None
    try:
        pod = codec.decode(IncomingPod, request.object)
    except msgspec.ValidationError:
        return None  # the API server says what is wrong with it
    return None if pod.is_daemon_pod else pod


def _claimant(group: PodGroup) -> Claimant:
    return Claimant(Subject(group.spec.priority_class_name), quota_units(group.spec.min_resources or {}))


def _defaulted(request: AdmissionRequest, default: Callable[[Json], Json]) -> AdmissionResponse:
    """The schema has not been applied at this point, so what does not look as expected is left alone."""
    if request.operation != "CREATE":
        return ALLOWED
    try:
        document = codec.decode(dict[str, Any], request.object)
        return AdmissionResponse(patch=json_patch(document, default(document)))
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
        return ALLOWED


def _too_early(group: str) -> Finding:
    rule = "is a pod group that waits to be admitted, and has no pods until then (wait for phase Inqueue)"
    return Finding(child_path("metadata.annotations", GROUP_NAME), group, rule, reason=POD_GROUP_PENDING)

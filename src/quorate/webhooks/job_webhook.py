"""The admission webhook of a job kind: default labels, suspension, validation.

A managed job is suspended before it is stored, with the same patch that the job reconciler would send.  An
object that cannot be decoded is allowed: the schema of its CRD reports what is wrong, and without webhooks it
would be stored as well.
"""

from typing import Any, Final, Generic

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.field_path import InvalidTemplate, with_field
from quorate.api.findings import Finding
from quorate.api.meta import ObjectMeta
from quorate.api.names.kueue import PRIORITY_CLASS, QUEUE_NAME
from quorate.api.names.multikueue import CONTROLLER
from quorate.api.validation.jobs import JobInfo, job_findings, job_update_findings
from quorate.api.validation.topology import added_findings
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.jobframework.interface import J, JobKind, ValidationScope
from quorate.kube.patches import json_patch, merged
from quorate.kube.resources import Json
from quorate.webhooks.admission_review import (
    ALLOWED,
    AdmissionRequest,
    AdmissionResponse,
    decode_object,
    yield_to_loop,
)
from quorate.webhooks.cluster_reader import DEFAULT_NAME, ClusterReader

_RAY_AND_SPARK: Final = ("RayCluster", "RayJob", "RayService", "SparkApplication")
_QUEUE_ANNOTATION_WARNING: Final = (
    f"the queue is set by annotation {QUEUE_NAME}, which is deprecated (set the label instead)"
)


class JobWebhook(Generic[J]):
    """The webhook of one job kind; all kinds share it."""

    def __init__(self, kind: JobKind[J], reader: ClusterReader, configuration: Configuration) -> None:
        self._kind = kind
        self._reader = reader
        self._manage_all = configuration.manage_jobs_without_queue_name and not kind.requires_queue_name
        self._gates = configuration.webhook_gates
        self._multikueue = configuration.multikueue_gates.multi_kueue
        self._topology = configuration.topology_gates
        self._longest_timeout_s = configuration.longest_workload_timeout_s

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            document = await decode_object(dict[str, Any], request.object)
            job = await self._read(request.object)
        except msgspec.ValidationError:
            return ALLOWED  # the schema is not applied before mutating webhooks
        if not await self._reader.manages_namespace(request.namespace):
            return ALLOWED
        labeled = await self._with_default_labels(document, request.namespace, job.metadata)
        queued = bool(_queue_label(labeled) or queue_name_of(job.metadata))
        if not (queued or self._manage_all) or await self._has_managing_ancestor(
            job.metadata, request.namespace
        ):
            return AdmissionResponse(patch=json_patch(document, labeled))
        suspended = self._suspend(job, labeled)
        await yield_to_loop(request.object)
        delegated = await self._delegate(job, suspended, request.namespace)
        return AdmissionResponse(patch=json_patch(document, delegated))

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            new = await self._read(request.object)
            if request.operation == "CREATE":
                return await self._validate_create(request, new)
            return await self._validate_update(request, await self._read(request.old_object), new)
        except (msgspec.ValidationError, InvalidTemplate):
            return ALLOWED

    async def _read(self, body: msgspec.Raw) -> J:
        job: J = await decode_object(self._kind.resource.type, body)
        return job

    async def _with_default_labels(self, document: Json, namespace: str, metadata: ObjectMeta) -> Json:
        """Add the default queue and the default priority class to a job that names none."""
        labels = {}
        queue = queue_name_of(metadata)
        names_none = not queue and not self._reader.has_job_owner(metadata)
        if names_none and await self._reader.has_default_queue(namespace):
            queue = labels[QUEUE_NAME] = DEFAULT_NAME
        needs_class = self._gates.default_priority_class and PRIORITY_CLASS not in metadata.labels
        if queue and needs_class and await self._reader.has_default_priority_class():
            labels[PRIORITY_CLASS] = DEFAULT_NAME
        return merged(document, {"metadata": {"labels": labels}}) if labels else document

    async def _has_managing_ancestor(self, metadata: ObjectMeta, namespace: str) -> bool:
        if metadata.deletion_timestamp is not None:
            return False
        # An object that is being created does not always contain its namespace.
        placed = msgspec.structs.replace(metadata, namespace=namespace)
        return await self._reader.managing_ancestor(placed) is not None

    def _suspend(self, job: J, document: Json) -> Json:
        """Suspend the job; gate the pods of an elastic job, which grows while it runs."""
        kind = self._kind
        try:
            if kind.is_skipped(job):
                return document
            patches = kind.stop(job, None).patches
            if kind.has_slices and self._is_elastic(job) and not kind.is_gated(job):
                patches += kind.gate(job)
        except InvalidTemplate:
            return document
        for patch in patches:
            if not patch.subresource:
                document = merged(document, patch.body)
        return document

    async def _delegate(self, job: J, document: Json, namespace: str) -> Json:
        """Let the job name MultiKueue as its controller if worker clusters run the jobs of its queue."""
        field, queue = self._kind.managed_by, _queue_label(document)
        if field is None or not (self._multikueue and field.own and queue):
            return document
        if self._kind.manager_of(job) not in ("", field.own):
            return document
        if not await self._reader.is_delegated(namespace, queue):
            return document
        delegated: Json = with_field(document, field.field, CONTROLLER)
        return delegated

    async def _validate_create(self, request: AdmissionRequest, job: J) -> AdmissionResponse:
        scope = await self._scope(job, request)
        own = tuple(self._kind.findings(None, job, scope))
        await yield_to_loop(request.object)
        own += self._topology_findings(job)
        findings = (*job_findings(self._job_info(job)), *own)
        named_by_annotation = queue_name_of(job.metadata) and QUEUE_NAME not in job.metadata.labels
        return AdmissionResponse(findings, (_QUEUE_ANNOTATION_WARNING,) if named_by_annotation else ())

    async def _validate_update(self, request: AdmissionRequest, old: J, new: J) -> AdmissionResponse:
        if not self._validates_update(new):
            return ALLOWED
        has_default_queue = await self._reader.has_default_queue(request.namespace)
        general = job_update_findings(
            self._job_info(old), self._job_info(new), has_default_queue=has_default_queue
        )
        scope = await self._scope(new, request)
        await yield_to_loop(request.object)
        findings: list[Finding] = [*general, *self._kind.findings(old, new, scope)]
        await yield_to_loop(request.object)
        old_findings = self._topology_findings(old)
        await yield_to_loop(request.object)
        findings += added_findings(old_findings, self._topology_findings(new))
        return AdmissionResponse(tuple(findings))

    def _topology_findings(self, job: J) -> tuple[Finding, ...]:
        """Validate topology annotations, unless another object has them, as the runtime of a TrainJob."""
        if self._topology is None:
            return ()
        try:
            return self._kind.topology_findings(job, self._topology)
        except InvalidTemplate:
            return ()

    def _validates_update(self, new: J) -> bool:
        """Return False for a Ray or Spark job without a queue, also if it had one before.

        Only with the gate ValidateRayAndSparkJobUpdates off.
        """
        if self._gates.ray_and_spark_updates or self._kind.resource.kind not in _RAY_AND_SPARK:
            return True
        return self._manage_all or bool(queue_name_of(new.metadata))

    def _job_info(self, job: J) -> JobInfo:
        kind = self._kind
        return JobInfo(
            kind=kind.resource.kind,
            metadata=job.metadata,
            queue=queue_name_of(job.metadata),
            suspended=kind.is_suspended(job),
            supports_prebuilt=kind.supports_prebuilt,
            supports_elastic=kind.supports_elastic and self._gates.elastic_jobs,
            longest_timeout_s=self._longest_timeout_s,
        )

    async def _scope(self, job: J, request: AdmissionRequest) -> ValidationScope:
        queued = bool(queue_name_of(job.metadata)) or self._manage_all
        managed = queued and await self._reader.manages_namespace(request.namespace)
        return ValidationScope(
            queued=managed, elastic=self._is_elastic(job), upgrade_strategy=self._gates.upgrade_strategy
        )

    def _is_elastic(self, job: J) -> bool:
        return self._gates.elastic_jobs and self._job_info(job).elastic


def _queue_label(document: Json) -> str:
    labels = document["metadata"].get("labels") or {}
    name: str = labels.get(QUEUE_NAME, "")
    return name

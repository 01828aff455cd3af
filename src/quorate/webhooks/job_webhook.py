"""What is added to jobs at creation, and what they are refused for: one way for all kinds.

A job that is ours is suspended before it is stored, by the very patch that would suspend it later.  What a
kind cannot make sense of is let through: the schema of its own project says what is wrong, and without
webhooks it would be stored just so.
"""

from typing import Any, Final, Generic

import msgspec

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.field_path import InvalidTemplate
from quorate.api.findings import Finding
from quorate.api.kueue import PRIORITY_CLASS, QUEUE_NAME
from quorate.api.meta import ObjectMeta
from quorate.api.validation.jobs import JobInfo, job_findings, job_update_findings
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.jobframework.interface import J, JobKind, ValidationScope
from quorate.kube.patches import json_patch, merged
from quorate.kube.resources import Json
from quorate.webhooks.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from quorate.webhooks.cluster_reader import DEFAULT_NAME, ClusterReader

_ANNOTATED: Final = (
    f"the queue is named by annotation {QUEUE_NAME}, which is the older form (write it as a label)"
)


class JobWebhook(Generic[J]):
    def __init__(self, kind: JobKind[J], reader: ClusterReader, configuration: Configuration) -> None:
        self._kind = kind
        self._reader = reader
        self._manage_all = configuration.manage_jobs_without_queue_name
        self._gates = configuration.webhook_gates

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            document = codec.decode(dict[str, Any], request.object)
            job = self._read(request.object)
        except msgspec.ValidationError:
            return ALLOWED  # before the schema has been applied anything may come
        if not await self._reader.manages_namespace(request.namespace):
            return ALLOWED
        labelled = await self._labelled(document, request.namespace, job.metadata)
        queued = bool(_queue_label(labelled) or queue_name_of(job.metadata))
        if not (queued or self._manage_all) or await self._is_part(job.metadata, request.namespace):
            return AdmissionResponse(patch=json_patch(document, labelled))
        return AdmissionResponse(patch=json_patch(document, self._suspended(job, labelled)))

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            new = self._read(request.object)
            if request.operation == "CREATE":
                return await self._created(request, new)
            return await self._updated(request, self._read(request.old_object), new)
        except (msgspec.ValidationError, InvalidTemplate):
            return ALLOWED

    def _read(self, body: msgspec.Raw) -> J:
        job: J = codec.decode(self._kind.resource.type, body)
        return job

    async def _labelled(self, document: Json, namespace: str, metadata: ObjectMeta) -> Json:
        """With the queue and the priority class that are for whoever names none."""
        labels = {}
        queue = queue_name_of(metadata)
        names_none = not queue and not self._reader.has_job_owner(metadata)
        if names_none and await self._reader.has_default_queue(namespace):
            queue = labels[QUEUE_NAME] = DEFAULT_NAME
        classless = self._gates.default_priority_class and PRIORITY_CLASS not in metadata.labels
        if queue and classless and await self._reader.has_default_priority_class():
            labels[PRIORITY_CLASS] = DEFAULT_NAME
        return merged(document, {"metadata": {"labels": labels}}) if labels else document

    async def _is_part(self, metadata: ObjectMeta, namespace: str) -> bool:
        if metadata.deletion_timestamp is not None:
            return False
        # An object that is being created does not always say its namespace.
        placed = msgspec.structs.replace(metadata, namespace=namespace)
        return await self._reader.managing_ancestor(placed) is not None

    def _suspended(self, job: J, document: Json) -> Json:
        """Held back; of an elastic job also each of the pods it will have, as it grows while it runs."""
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

    async def _created(self, request: AdmissionRequest, job: J) -> AdmissionResponse:
        scope = await self._scope(job, request)
        findings = (*job_findings(self._facts(job)), *self._kind.findings(None, job, scope))
        annotated = queue_name_of(job.metadata) and QUEUE_NAME not in job.metadata.labels
        return AdmissionResponse(findings, (_ANNOTATED,) if annotated else ())

    async def _updated(self, request: AdmissionRequest, old: J, new: J) -> AdmissionResponse:
        has_default_queue = await self._reader.has_default_queue(request.namespace)
        general = job_update_findings(self._facts(old), self._facts(new), has_default_queue=has_default_queue)
        scope = await self._scope(new, request)
        findings: list[Finding] = [*general, *self._kind.findings(old, new, scope)]
        return AdmissionResponse(tuple(findings))

    def _facts(self, job: J) -> JobInfo:
        kind = self._kind
        return JobInfo(
            kind=kind.resource.kind,
            metadata=job.metadata,
            queue=queue_name_of(job.metadata),
            suspended=kind.is_suspended(job),
            supports_prebuilt=kind.supports_prebuilt,
            supports_elastic=kind.supports_elastic and self._gates.elastic_jobs,
        )

    async def _scope(self, job: J, request: AdmissionRequest) -> ValidationScope:
        queued = bool(queue_name_of(job.metadata)) or self._manage_all
        managed = queued and await self._reader.manages_namespace(request.namespace)
        return ValidationScope(queued=managed, elastic=self._is_elastic(job))

    def _is_elastic(self, job: J) -> bool:
        return self._gates.elastic_jobs and self._facts(job).elastic


def _queue_label(document: Json) -> str:
    labels = document["metadata"].get("labels") or {}
    name: str = labels.get(QUEUE_NAME, "")
    return name

"""The admission webhooks of pods, and of Deployments, StatefulSets and LeaderWorkerSets.

A pod cannot be suspended, so it gets a scheduling gate.  The pod template of a set gets the labels by which
its pods are queued.  The rules of the kinds are in ``controllers.pods`` and ``controllers.serving``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core.pod import Pod
from quorate.api.field_path import InvalidTemplate
from quorate.api.findings import Finding
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.validation.jobs import (
    JobInfo,
    common_update_findings,
    job_findings,
    job_update_findings,
)
from quorate.api.validation.topology import AnnotatedPodSet, added_findings, annotated_topology_findings
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.pods.defaulting import (
    ANNOTATIONS,
    DefaultingContext,
    default_pod,
    pod_findings,
    pod_warnings,
)
from quorate.controllers.pods.queued_pod import is_suspended
from quorate.controllers.serving.kinds import SETS, ServingSet, set_topology_findings
from quorate.controllers.serving.set_templates import (
    DEPLOYMENT,
    LEADER_WORKER_SET,
    STATEFUL_SET,
    ScaleDownState,
    SetKind,
    default_set,
    is_stamped_by_other,
    leader_worker_set_findings,
    ready_pods,
    replicas,
    set_findings,
    stateful_set_findings,
)
from quorate.kube.patches import json_patch
from quorate.kube.resources import PLACEABLE_PODS, Json, Resource
from quorate.webhooks.admission_review import (
    ALLOWED,
    AdmissionRequest,
    AdmissionResponse,
    AdmissionWebhook,
    decode_object,
    yield_to_loop,
)
from quorate.webhooks.cluster_reader import ClusterReader


class _Decoded(msgspec.Struct, frozen=True):
    """The object of a request, with its decoded metadata."""

    document: Json
    metadata: ObjectMeta


class _WithMetadata(Struct):
    metadata: ObjectMeta = ObjectMeta()


async def _decode(body: msgspec.Raw) -> _Decoded:
    """Decode the object of a request.  Raises ``msgspec.ValidationError``."""
    document = await decode_object(dict[str, Any], body)
    return _Decoded(document, (await decode_object(_WithMetadata, body)).metadata)


class _Settings:
    """Reads what the defaults of a new object depend on."""

    def __init__(self, reader: ClusterReader, configuration: Configuration) -> None:
        self._reader = reader
        self._manage_all = configuration.manage_jobs_without_queue_name
        self._default_class = configuration.webhook_gates.default_priority_class
        self._topology = configuration.topology_gates is not None

    async def of(
        self, metadata: ObjectMeta, namespace: str, resource: Resource[Any] | None = None
    ) -> DefaultingContext:
        reader = self._reader
        if not await reader.manages_namespace(namespace):
            return DefaultingContext(namespace_managed=False, topology=self._topology)
        placed = msgspec.structs.replace(metadata, namespace=namespace)
        names_none = not queue_name_of(metadata) and not reader.has_job_owner(metadata)
        return DefaultingContext(
            namespace_managed=True,
            is_child=await reader.managing_ancestor(placed, resource) is not None,
            has_default_queue=names_none and await reader.has_default_queue(namespace),
            default_priority_class=self._default_class and await reader.has_default_priority_class(),
            manage_without_queue_name=self._manage_all,
            topology=self._topology,
        )


class PodWebhook:
    def __init__(self, reader: ClusterReader, configuration: Configuration) -> None:
        self._reader = reader
        self._settings = _Settings(reader, configuration)
        self._gates = configuration.topology_gates
        self._longest_timeout_s = configuration.longest_workload_timeout_s

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            pod = await _decode(request.object)
            setting = await self._settings.of(pod.metadata, request.namespace)
            queued = pod.document
            if setting.namespace_managed and not setting.is_child:
                queued = await self._with_native_queue(pod, request.namespace)
            defaulted = default_pod(queued, setting)
            await yield_to_loop(request.object)
            return AdmissionResponse(patch=json_patch(pod.document, defaulted))
        except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
            return ALLOWED  # the API server validates it afterwards

    async def _with_native_queue(self, pod: _Decoded, namespace: str) -> Json:
        """Return the pod with the queue of the native workload that its pod group belongs to, if any."""
        group = (pod.document["spec"].get("schedulingGroup") or {}).get("podGroupName")
        queue = ""
        if group and not queue_name_of(pod.metadata):
            queue = await self._reader.native_queue(Key(namespace, group))
        if not queue:
            return pod.document
        labels = {**pod.metadata.labels, QUEUE_NAME: queue}
        return {**pod.document, "metadata": {**pod.document["metadata"], "labels": labels}}

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            pod = await _decode(request.object)
            warnings = tuple(pod_warnings(pod.document, self._reader.has_job_owner(pod.metadata)))
            if request.operation == "CREATE":
                own = (*pod_findings(pod.document, None), *self._topology(pod))
                info = await _pod_info(request.object, self._longest_timeout_s)
                return AdmissionResponse((*job_findings(info), *own), warnings)
            before = await _decode(request.old_object)
            general = job_update_findings(
                await _pod_info(request.old_object, self._longest_timeout_s),
                await _pod_info(request.object, self._longest_timeout_s),
                has_default_queue=await self._reader.has_default_queue(request.namespace),
            )
            own = (*pod_findings(pod.document, before.document), *self._topology(pod, before))
            return AdmissionResponse((*general, *own), warnings)
        except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
            return ALLOWED

    def _topology(self, new: _Decoded, old: _Decoded | None = None) -> tuple[Finding, ...]:
        """Return the findings about topology annotations that ``old`` does not have."""
        if self._gates is None:
            return ()
        path, gates = ANNOTATIONS, self._gates
        new_findings, old_findings = (
            ()
            if pod is None
            else tuple(
                annotated_topology_findings(AnnotatedPodSet(path, None, pod.metadata.annotations), gates)
            )
            for pod in (new, old)
        )
        return added_findings(old_findings, new_findings)


async def _pod_info(body: msgspec.Raw, longest_timeout_s: float | None) -> JobInfo:
    pod = await decode_object(Pod, body)
    return JobInfo(
        kind="Pod",
        metadata=pod.metadata,
        queue=queue_name_of(pod.metadata),
        suspended=is_suspended(pod),
        supports_prebuilt=True,
        supports_elastic=False,
        longest_timeout_s=longest_timeout_s,
    )


async def _set_topology(
    framework: str, gates: TopologyGates | None, new: msgspec.Raw, old: msgspec.Raw | None
) -> tuple[Finding, ...]:
    """Return the findings about topology annotations of a set that ``old`` does not have."""
    kind = SETS[framework].serving
    if kind is None or gates is None:
        return ()
    try:
        new_findings, old_findings = [
            () if body is None else set_topology_findings(kind, await decode_object(ServingSet, body), gates)
            for body in (new, old)
        ]
    except InvalidTemplate:
        return ()  # reported where a workload is made of it
    return added_findings(old_findings, new_findings)


SetFindings = Callable[[Json, Json | None, ScaleDownState], Iterator[Finding]]


class SetWebhook:
    def __init__(
        self,
        kind: SetKind,
        resource: Resource[Any],
        findings: SetFindings,
        reader: ClusterReader,
        settings: _Settings,
        configuration: Configuration,
    ) -> None:
        self._gates = configuration.topology_gates
        self._longest_timeout_s = configuration.longest_workload_timeout_s
        self._kind = kind
        self._resource = resource
        self._findings = findings
        self._reader = reader
        self._settings = settings

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            given = await _decode(request.object)
            setting = await self._settings.of(given.metadata, request.namespace, self._resource)
            defaulted = default_set(self._kind, given.document, setting)
            await yield_to_loop(request.object)
            return AdmissionResponse(patch=json_patch(given.document, defaulted))
        except (msgspec.ValidationError, InvalidTemplate, AttributeError, KeyError, TypeError):
            return ALLOWED

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            new = await _decode(request.object)
            if is_stamped_by_other(self._kind, new.document):
                return ALLOWED
            updates = request.operation == "UPDATE"
            earlier = await _decode(request.old_object) if updates else None
            old = None if earlier is None else earlier.document
            remains = await self._remaining_pods(new, old, request.namespace)
            own = (*self._findings(new.document, old, remains),)
            await yield_to_loop(request.object)
            before = request.old_object if updates else None
            own += await _set_topology(self._kind.framework, self._gates, request.object, before)
            return AdmissionResponse((*self._common_findings(new, earlier), *own))
        except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
            return ALLOWED

    async def _remaining_pods(self, new: _Decoded, old: Json | None, namespace: str) -> ScaleDownState:
        """Check for remaining pods only when a StatefulSet is scaled up from zero, which is rare."""
        if self._kind is not STATEFUL_SET or old is None or replicas(old) or not replicas(new.document):
            return ScaleDownState()
        return ScaleDownState(pods=await self._reader.has_pods(new.metadata.uid, namespace))

    def _common_findings(self, new: _Decoded, old: _Decoded | None) -> Iterator[Finding]:
        if old is None:
            return job_findings(self._job_info(new.metadata, suspended=False))
        suspended = not ready_pods(self._kind, old.document)
        return common_update_findings(
            self._job_info(old.metadata, suspended=suspended),
            self._job_info(new.metadata, suspended=suspended),
        )

    def _job_info(self, metadata: ObjectMeta, *, suspended: bool) -> JobInfo:
        return JobInfo(
            kind=self._resource.kind,
            metadata=metadata,
            queue=queue_name_of(metadata),
            suspended=suspended,
            is_set=True,
            supports_prebuilt=False,
            supports_elastic=False,
            longest_timeout_s=self._longest_timeout_s,
        )


def pod_webhooks(
    reader: ClusterReader, configuration: Configuration
) -> Mapping[Resource[Any], AdmissionWebhook]:
    """Return the webhooks of pods and sets, as far as the configuration queues them."""
    settings = _Settings(reader, configuration)
    gates = configuration.webhook_gates
    of_groups = partial(leader_worker_set_findings, immutable_size=gates.immutable_group_size)
    findings: Mapping[str, SetFindings] = {
        DEPLOYMENT.framework: lambda new, old, _: set_findings(DEPLOYMENT, new, old),
        STATEFUL_SET.framework: stateful_set_findings,
        LEADER_WORKER_SET.framework: lambda new, old, _: of_groups(new, old),
    }
    webhooks: dict[Resource[Any], AdmissionWebhook] = {
        row.resource: SetWebhook(row.templates, row.resource, findings[name], reader, settings, configuration)
        for name, row in SETS.items()
    }
    webhooks[PLACEABLE_PODS] = PodWebhook(reader, configuration)
    return {resource: webhooks[resource] for resource in pod_resources(configuration.integrations.frameworks)}


def pod_resources(frameworks: Collection[str]) -> tuple[Resource[Any], ...]:
    """Return the kinds that ``frameworks`` queues; the pods of a queued set are queued, too."""
    sets = tuple(row.resource for name, row in SETS.items() if name in frameworks)
    return (*sets, PLACEABLE_PODS) if sets or "pod" in frameworks else ()

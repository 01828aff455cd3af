"""The admission webhooks of workloads, cluster queues, flavors and cohorts."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.kueue import ClusterQueue, Cohort, ResourceFlavor, Workload
from quorate.api.meta import Struct
from quorate.api.names.kueue import RESOURCE_IN_USE
from quorate.api.validation.fields import Findings
from quorate.api.validation.queues import (
    cluster_queue_findings,
    cluster_queue_update_findings,
    cohort_findings,
    resource_flavor_findings,
)
from quorate.api.validation.workloads import workload_findings, workload_update_findings, workload_warnings
from quorate.kube.resources import Json
from quorate.webhooks.admission_review import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionWebhook,
    decode_object,
    decode_old,
    defaulted,
    first_findings,
    refuse_undecodable,
    yield_to_loop,
)

T = TypeVar("T", bound=Struct)


class QueueingWebhook(Generic[T]):
    """The webhook of one kind; its rules depend only on the new and the old object."""

    def __init__(
        self,
        type_: type[T],
        validate_create: Callable[[T], Findings],
        validate_update: Callable[[T, T], Findings],
        default: Callable[[Json], Json],
        warn: Callable[[T], Iterable[str]] = lambda _: (),
    ) -> None:
        self._type = type_
        self._validate_create = validate_create
        self._validate_update = validate_update
        self._default = default
        self._warn = warn

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        return await defaulted(request, self._default)

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        try:
            new = await decode_object(self._type, request.object)
        except msgspec.ValidationError as error:
            return await refuse_undecodable(request.object, error)
        warnings = tuple(self._warn(new))
        await yield_to_loop(request.object)
        old = await decode_old(self._type, request)
        findings = self._validate_create(new) if old is None else self._validate_update(old, new)
        return AdmissionResponse(first_findings(findings), warnings)


def queueing_webhooks(configuration: Configuration) -> Mapping[str, AdmissionWebhook]:
    gates, partial = configuration.webhook_gates, configuration.gates.partial_admission
    workloads = QueueingWebhook(
        Workload,
        lambda new: workload_findings(new, gates),
        lambda old, new: workload_update_findings(old, new, gates),
        _unchanged if partial else _without_min_counts,
        workload_warnings,
    )
    cluster_queues = QueueingWebhook(
        ClusterQueue,
        cluster_queue_findings,
        lambda old, new: cluster_queue_update_findings(old, new, strict_checks=gates.strict_on_flavors),
        _with_finalizer,
    )
    flavors = QueueingWebhook(
        ResourceFlavor,
        resource_flavor_findings,
        lambda _, new: resource_flavor_findings(new),
        _with_finalizer,
    )
    cohorts = QueueingWebhook(Cohort, cohort_findings, lambda _, new: cohort_findings(new), _unchanged)
    return {
        "Workload": workloads,
        "ClusterQueue": cluster_queues,
        "ResourceFlavor": flavors,
        "Cohort": cohorts,
    }


def _unchanged(document: Json) -> Json:
    return document


def _with_finalizer(document: Json) -> Json:
    """Add the finalizer that delays the deletion of an object in use."""
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers") or []
    if RESOURCE_IN_USE in finalizers:
        return document
    return {**document, "metadata": {**metadata, "finalizers": [*finalizers, RESOURCE_IN_USE]}}


def _without_min_counts(document: Json) -> Json:
    spec = document.get("spec") or {}
    pod_sets = [
        {name: value for name, value in pod_set.items() if name != "minCount"}
        for pod_set in spec.get("podSets") or []
    ]
    return {**document, "spec": {**spec, "podSets": pod_sets}} if pod_sets else document

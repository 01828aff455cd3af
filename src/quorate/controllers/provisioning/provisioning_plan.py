"""The decision about one workload with provisioning checks: check states and requests.

The latest request of each check counts, if it still matches the check's configuration; all other requests are
deleted, and their pod templates with them: a new request may need their names before garbage is collected.
A template that exists before its request is never used: with the right to write PodTemplates a user could
decide for which pods capacity is requested.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from quorate.api.kueue import AdmissionCheckState, ResourceFlavor, Workload, WorkloadStatus
from quorate.api.kueue.provisioning import (
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestConfig,
    ProvisioningRequestConfigSpec,
    ProvisioningRequestSpec,
    RequestedPodSet,
    TemplateReference,
)
from quorate.api.meta import Key, ObjectMeta, OwnerReference
from quorate.controllers.jobframework.construct_workload import PROVISIONING_PREFIX, owner_of
from quorate.controllers.jobframework.podset_info import FlavorNotFound, InjectionConflict
from quorate.controllers.pods.constants import MANAGED
from quorate.controllers.provisioning.check_state import (
    CREATION_ERROR,
    check_state,
    inactive,
    is_failed,
    not_needed,
)
from quorate.controllers.provisioning.requested_pods import (
    RequestedPods,
    attempt_of,
    pod_template,
    request_name,
    requested_pods,
    template_name,
)
from quorate.kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS, WORKLOADS
from quorate.kube.writes import Create, Delete, Patch
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.transition import Event


@dataclass(frozen=True, slots=True)
class ProvisioningInput:
    """A workload and everything the decision about it depends on."""

    workload: Workload
    # By name of those checks of the workload that are ours; None: the configuration does not exist.
    configs: Mapping[str, ProvisioningRequestConfig | None]
    requests: Sequence[ProvisioningRequest]  # controlled by the workload
    template: Callable[[Key], PodTemplate | None]  # among those labeled as ours
    flavors: Mapping[str, ResourceFlavor]
    deletes_evicted: bool  # delete the requests of workloads that lost their reservation
    now: float


@dataclass(frozen=True, slots=True)
class NewRequest:
    check: str
    name: str
    writes: tuple[Create, ...] = ()  # templates first, the request last
    deletions: tuple[Delete, ...] = ()  # of what has its names
    waits_for: str = ""  # what must be created or deleted first
    problem: str = ""  # why it cannot be created at all


@dataclass(frozen=True, slots=True)
class ProvisioningPlan:
    status: WorkloadStatus | None = None
    deletions: tuple[Delete, ...] = ()
    template_owners: tuple[Patch, ...] = ()  # of templates that have a request
    new: tuple[NewRequest, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class _Attempt:
    number: int
    request: ProvisioningRequest


def decide(info: ProvisioningInput) -> ProvisioningPlan:
    workload = info.workload
    lost = c.is_evicted(workload) or not c.has_quota_reservation(workload)
    if c.is_finished(workload) or (lost and info.deletes_evicted):
        return ProvisioningPlan(deletions=_deletions(info.requests, frozenset()))
    if lost:
        return ProvisioningPlan()
    latest = {
        check: attempt
        for check, config in info.configs.items()
        if config is not None and (attempt := _latest_attempt(info, check, config.spec)) is not None
    }
    checks = tuple(
        _updated_state(info, check, latest.get(check.name)) for check in workload.status.admission_checks
    )
    kept = frozenset(attempt.request.metadata.name for attempt in latest.values())
    new = tuple(_new_requests(info, checks, latest))
    obsolete = (
        *_deletions(info.requests, kept),
        *(deletion for request in new for deletion in request.deletions),
    )
    return ProvisioningPlan(
        status=replace(workload.status, admission_checks=checks),
        deletions=obsolete,
        template_owners=tuple(_template_owners(info, latest.values())),
        new=new,
        events=tuple(_state_changes(workload.status.admission_checks, checks)),
    )


def with_problem(workload: Workload, check: str, problem: str) -> WorkloadStatus:
    """Return the workload's status with the reason why no request can be created for ``check``."""
    checks = tuple(
        replace(stored, message=c.truncate_message(problem)) if stored.name == check else stored
        for stored in workload.status.admission_checks
    )
    return replace(workload.status, admission_checks=checks)


def _deletions(requests: Sequence[ProvisioningRequest], kept: frozenset[str]) -> tuple[Delete, ...]:
    return tuple(
        Delete(PROVISIONING_REQUESTS, request.metadata.key, request.metadata.uid)
        for request in requests
        if request.metadata.name not in kept and request.metadata.deletion_timestamp is None
    )


def _latest_attempt(
    info: ProvisioningInput, check: str, config: ProvisioningRequestConfigSpec
) -> _Attempt | None:
    if not requested_pods(info.workload, config):
        return None
    attempts = [
        _Attempt(number, request)
        for request in info.requests
        if (number := attempt_of(request.metadata.name, info.workload.metadata.name, check)) is not None
        and _matches_config(request.spec, config)
    ]
    return max(attempts, key=lambda attempt: attempt.number, default=None)


def _matches_config(request: ProvisioningRequestSpec, config: ProvisioningRequestConfigSpec) -> bool:
    """Compare class and parameters; the workload may have added parameters."""
    return (
        request.provisioning_class_name == config.provisioning_class_name
        and config.parameters.items() <= request.parameters.items()
    )


def _updated_state(
    info: ProvisioningInput, check: AdmissionCheckState, latest: _Attempt | None
) -> AdmissionCheckState:
    if check.name not in info.configs:
        return check  # another controller's
    config = info.configs[check.name]
    if config is None:
        return inactive(check, info.now)
    requested = requested_pods(info.workload, config.spec)
    if not requested:
        return not_needed(check, info.now)
    if latest is None:
        return check
    covered = [name for pods in requested for name in pods.covers]
    return check_state(check, info.workload, latest.request, latest.number, config.spec, covered, info.now)


def _new_requests(
    info: ProvisioningInput, checks: Sequence[AdmissionCheckState], latest: Mapping[str, _Attempt]
) -> Iterator[NewRequest]:
    """Yield the requests to create now: first attempts, and the next attempt after a failed one."""
    for check in checks:
        config = info.configs.get(check.name)
        if config is None or check.state == "Ready":
            continue
        requested = requested_pods(info.workload, config.spec)
        previous = latest.get(check.name)
        if not requested:
            continue
        if previous is None:
            # The retry count of the check includes attempts with a deleted request.
            yield _build_request(info, check.name, (check.retry_count or 0) + 1, requested, config.spec)
        elif check.state == "Pending" and is_failed(previous.request, admitted=c.is_admitted(info.workload)):
            yield _build_request(info, check.name, previous.number + 1, requested, config.spec)


def _build_request(
    info: ProvisioningInput,
    check: str,
    attempt: int,
    requested: Sequence[RequestedPods],
    config: ProvisioningRequestConfigSpec,
) -> NewRequest:
    workload = info.workload.metadata
    name = request_name(workload.name, check, attempt)
    if any(request.metadata.name == name for request in info.requests):
        return NewRequest(check, name, waits_for=f"the deletion of the earlier ProvisioningRequest {name}")
    owner = owner_of(WORKLOADS, workload)
    writes: list[Create] = []
    pod_sets: list[RequestedPodSet] = []
    for pods in requested:
        template = Key(workload.namespace, template_name(name, pods.pod_set.name))
        pod_sets.append(
            RequestedPodSet(pod_template_ref=TemplateReference(name=template.name), count=pods.count)
        )
        stored = info.template(template)
        if stored is not None:
            waits_for = f"the deletion of the earlier PodTemplate {template.name}"
            return NewRequest(check, name, waits_for=waits_for, deletions=_deletion_of(stored))
        content = pod_template(pods, info.flavors)
        match content:
            case FlavorNotFound():
                return NewRequest(check, name, waits_for=f"a flavor: {content}")
            case InjectionConflict(message=message):
                problem = f'{CREATION_ERROR}PodTemplate "{template.name}": {message}'
                return NewRequest(check, name, problem=problem)
        body = {"metadata": _metadata(template, owner), "template": content}
        writes.append(Create(POD_TEMPLATES, body, template.namespace))
    spec = ProvisioningRequestSpec(
        provisioning_class_name=config.provisioning_class_name,
        parameters=config.parameters | _annotated_parameters(workload),
        pod_sets=tuple(pod_sets),
    )
    request = ProvisioningRequest(metadata=_metadata(Key(workload.namespace, name), owner), spec=spec)
    writes.append(Create(PROVISIONING_REQUESTS, request, workload.namespace))
    return NewRequest(check, name, tuple(writes))


def _deletion_of(template: PodTemplate) -> tuple[Delete, ...]:
    """Return the deletion of a template with the name of a new one; empty if it is being deleted."""
    metadata = template.metadata
    if metadata.deletion_timestamp is not None:
        return ()
    return (Delete(POD_TEMPLATES, metadata.key, metadata.uid),)


def _metadata(key: Key, owner: OwnerReference) -> ObjectMeta:
    return ObjectMeta(
        name=key.name, namespace=key.namespace, labels={MANAGED: "true"}, owner_references=(owner,)
    )


def _annotated_parameters(workload: ObjectMeta) -> dict[str, str]:
    return {
        key.removeprefix(PROVISIONING_PREFIX): value
        for key, value in workload.annotations.items()
        if key.startswith(PROVISIONING_PREFIX)
    }


def _is_controlled_by(metadata: ObjectMeta, owner: OwnerReference) -> bool:
    return metadata.controller is not None and metadata.controller.uid == owner.uid


def _template_owners(info: ProvisioningInput, latest: Iterable[_Attempt]) -> Iterator[Patch]:
    """Make each request the controller of its templates, which the workload was before."""
    by_workload = owner_of(WORKLOADS, info.workload.metadata)
    for attempt in latest:
        by_request = owner_of(PROVISIONING_REQUESTS, attempt.request.metadata)
        for pod_set in attempt.request.spec.pod_sets:
            key = Key(info.workload.metadata.namespace, pod_set.pod_template_ref.name)
            template = info.template(key)
            if template is None or not _is_controlled_by(template.metadata, by_workload):
                continue
            rest = [owner for owner in template.metadata.owner_references if owner.uid != by_workload.uid]
            body = {"metadata": {"ownerReferences": [*rest, by_request]}}
            yield Patch(POD_TEMPLATES, key, template.metadata.resource_version, body)


def _state_changes(
    before: Sequence[AdmissionCheckState], after: Sequence[AdmissionCheckState]
) -> Iterator[Event]:
    for old, new in zip(before, after, strict=True):
        if old.state != new.state:
            text = f"Admission check {new.name} updated state from {old.state} to {new.state}"
            message = f"{text} with message: {new.message}" if new.message else text
            yield Event("Normal", "AdmissionCheckUpdated", message)

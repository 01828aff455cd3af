"""What to do about one workload whose admission waits for capacity: its check states, and its requests.

Of the requests of a check the latest attempt counts, if it asks as the check is configured by now; all others
are deleted.  Their pod templates go with them.
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
from quorate.controllers.jobframework.podset_info import InjectionConflict
from quorate.controllers.jobframework.starting import FlavorNotSeen
from quorate.controllers.pods.constants import MANAGED
from quorate.controllers.provisioning.check_state import check_state, inactive, is_failed, not_needed
from quorate.controllers.provisioning.request_names import attempt_of, request_name, template_name
from quorate.controllers.provisioning.requested_pods import RequestedPods, pod_template, requested_pods
from quorate.kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS, WORKLOADS
from quorate.kube.writes import Create, Delete, Patch
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.transition import Event


@dataclass(frozen=True, slots=True)
class ProvisioningInput:
    """A workload, and all that there is of it in the world."""

    workload: Workload
    # Those of its checks that are ours; None where a check names no configuration that is there.
    configs: Mapping[str, ProvisioningRequestConfig | None]
    requests: Sequence[ProvisioningRequest]  # controlled by the workload
    template: Callable[[Key], PodTemplate | None]  # those that are marked as ours
    flavors: Mapping[str, ResourceFlavor]
    cleans_up: bool  # requests of evicted workloads
    now: float


@dataclass(frozen=True, slots=True)
class NewRequest:
    check: str
    name: str
    writes: tuple[Create, ...] = ()  # templates first, the request last
    waits_for: str = ""  # what must come or go before it can be made
    problem: str = ""  # for which it cannot be made, however long one waits


@dataclass(frozen=True, slots=True)
class ProvisioningPlan:
    status: WorkloadStatus | None = None
    surplus: tuple[Delete, ...] = ()
    handovers: tuple[Patch, ...] = ()  # templates, to the requests they are of
    new: tuple[NewRequest, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class _Attempt:
    number: int
    request: ProvisioningRequest


def decide(case: ProvisioningInput) -> ProvisioningPlan:
    workload = case.workload
    evicted = c.is_evicted(workload)
    if c.is_finished(workload) or (evicted and case.cleans_up):
        return ProvisioningPlan(surplus=_deleted(case.requests, frozenset()))
    if evicted or not c.has_quota_reservation(workload) or not case.configs:
        return ProvisioningPlan()
    latest = {
        check: found
        for check, config in case.configs.items()
        if config is not None and (found := _latest(case, check, config.spec)) is not None
    }
    checks = tuple(
        _checked(case, check, latest.get(check.name)) for check in workload.status.admission_checks
    )
    kept = frozenset(each.request.metadata.name for each in latest.values())
    return ProvisioningPlan(
        status=replace(workload.status, admission_checks=checks),
        surplus=_deleted(case.requests, kept),
        handovers=tuple(_handed_over(case, latest.values())),
        new=tuple(_due(case, checks, latest)),
        events=tuple(_changes(workload.status.admission_checks, checks)),
    )


def with_problem(workload: Workload, check: str, problem: str) -> WorkloadStatus:
    """The workload told by its check that no request can be made, and why."""
    checks = tuple(
        replace(each, message=c.truncate_message(problem)) if each.name == check else each
        for each in workload.status.admission_checks
    )
    return replace(workload.status, admission_checks=checks)


def _deleted(requests: Sequence[ProvisioningRequest], kept: frozenset[str]) -> tuple[Delete, ...]:
    return tuple(
        Delete(PROVISIONING_REQUESTS, each.metadata.key, each.metadata.uid)
        for each in requests
        if each.metadata.name not in kept and each.metadata.deletion_timestamp is None
    )


def _latest(case: ProvisioningInput, check: str, config: ProvisioningRequestConfigSpec) -> _Attempt | None:
    if not requested_pods(case.workload, config):
        return None
    attempts = [
        _Attempt(number, request)
        for request in case.requests
        if (number := attempt_of(request.metadata.name, case.workload.metadata.name, check)) is not None
        and _asks_as(request.spec, config)
    ]
    return max(attempts, key=lambda each: each.number, default=None)


def _asks_as(request: ProvisioningRequestSpec, config: ProvisioningRequestConfigSpec) -> bool:
    """Whether the class and the parameters are still those; a workload may have added its own."""
    return (
        request.provisioning_class_name == config.provisioning_class_name
        and config.parameters.items() <= request.parameters.items()
    )


def _checked(
    case: ProvisioningInput, check: AdmissionCheckState, latest: _Attempt | None
) -> AdmissionCheckState:
    if check.name not in case.configs:
        return check  # somebody else's
    config = case.configs[check.name]
    if config is None:
        return inactive(check, case.now)
    asked = requested_pods(case.workload, config.spec)
    if not asked:
        return not_needed(check, case.now)
    if latest is None:
        return check
    covered = [name for each in asked for name in each.covers]
    return check_state(check, case.workload, latest.request, latest.number, config.spec, covered, case.now)


def _due(
    case: ProvisioningInput, checks: Sequence[AdmissionCheckState], latest: Mapping[str, _Attempt]
) -> Iterator[NewRequest]:
    """The requests to make now: first ones, and the next after one that failed was given up."""
    for check in checks:
        config = case.configs.get(check.name)
        if config is None or check.state == "Ready":
            continue
        asked = requested_pods(case.workload, config.spec)
        before = latest.get(check.name)
        if not asked:
            continue
        if before is None:
            # The check remembers how many there were, also when they are gone.
            yield _composed(case, check.name, (check.retry_count or 0) + 1, asked, config.spec)
        elif check.state == "Pending" and is_failed(before.request, admitted=c.is_admitted(case.workload)):
            yield _composed(case, check.name, before.number + 1, asked, config.spec)


def _composed(
    case: ProvisioningInput,
    check: str,
    attempt: int,
    asked: Sequence[RequestedPods],
    config: ProvisioningRequestConfigSpec,
) -> NewRequest:
    workload = case.workload.metadata
    name = request_name(workload.name, check, attempt)
    if any(each.metadata.name == name for each in case.requests):
        return NewRequest(check, name, waits_for=f"the ProvisioningRequest {name} of before to go")
    owner = owner_of(WORKLOADS, workload)
    writes: list[Create] = []
    pod_sets: list[RequestedPodSet] = []
    for pods in asked:
        template = Key(workload.namespace, template_name(name, pods.pod_set.name))
        pod_sets.append(
            RequestedPodSet(pod_template_ref=TemplateReference(name=template.name), count=pods.count)
        )
        stored = case.template(template)
        if stored is not None and _is_of(stored.metadata, owner):
            continue
        if stored is not None:
            return NewRequest(check, name, waits_for=f"the PodTemplate {template.name} of before to go")
        content = pod_template(pods, case.flavors)
        match content:
            case FlavorNotSeen():
                return NewRequest(check, name, waits_for=f"a flavor: {content}")
            case InjectionConflict(message=message):
                problem = f'Error creating PodTemplate "{template.name}": {message}'
                return NewRequest(check, name, problem=problem)
        body = {"metadata": _metadata(template, owner), "template": content}
        writes.append(Create(POD_TEMPLATES, body, template.namespace))
    spec = ProvisioningRequestSpec(
        provisioning_class_name=config.provisioning_class_name,
        parameters=config.parameters | _parameters_of(workload),
        pod_sets=tuple(pod_sets),
    )
    request = ProvisioningRequest(metadata=_metadata(Key(workload.namespace, name), owner), spec=spec)
    writes.append(Create(PROVISIONING_REQUESTS, request, workload.namespace))
    return NewRequest(check, name, tuple(writes))


def _metadata(key: Key, owner: OwnerReference) -> ObjectMeta:
    return ObjectMeta(
        name=key.name, namespace=key.namespace, labels={MANAGED: "true"}, owner_references=(owner,)
    )


def _parameters_of(workload: ObjectMeta) -> dict[str, str]:
    return {
        key.removeprefix(PROVISIONING_PREFIX): value
        for key, value in workload.annotations.items()
        if key.startswith(PROVISIONING_PREFIX)
    }


def _is_of(metadata: ObjectMeta, owner: OwnerReference) -> bool:
    return metadata.controller is not None and metadata.controller.uid == owner.uid


def _handed_over(case: ProvisioningInput, latest: Iterable[_Attempt]) -> Iterator[Patch]:
    """Templates belong to the workload only until their request is there."""
    of_workload = owner_of(WORKLOADS, case.workload.metadata)
    for attempt in latest:
        of_request = owner_of(PROVISIONING_REQUESTS, attempt.request.metadata)
        for pod_set in attempt.request.spec.pod_sets:
            key = Key(case.workload.metadata.namespace, pod_set.pod_template_ref.name)
            template = case.template(key)
            if template is None or not _is_of(template.metadata, of_workload):
                continue
            others = [each for each in template.metadata.owner_references if each.uid != of_workload.uid]
            body = {"metadata": {"ownerReferences": [*others, of_request]}}
            yield Patch(POD_TEMPLATES, key, template.metadata.resource_version, body)


def _changes(before: Sequence[AdmissionCheckState], after: Sequence[AdmissionCheckState]) -> Iterator[Event]:
    for old, new in zip(before, after, strict=True):
        if old.state != new.state:
            text = f"Admission check {new.name} updated state from {old.state} to {new.state}"
            events = f"{text} with message: {new.message}" if new.message else text
            yield Event("Normal", "AdmissionCheckUpdated", events)

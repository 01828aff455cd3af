"""The state of provisioning checks: whether they are active, and on each workload."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.api.kueue import (
    GROUP,
    AdmissionCheck,
    AdmissionCheckState,
    CheckParameters,
    PodSetUpdate,
    Workload,
)
from quorate.api.kueue.provisioning import (
    CONTROLLER,
    ConfiguredPodSetUpdates,
    ProvisioningRequest,
    ProvisioningRequestConfig,
    ProvisioningRequestConfigSpec,
    RetryStrategy,
)
from quorate.api.meta import Condition, at_epoch, find_condition, is_true, true_condition, with_condition
from quorate.controllers.provisioning.requested_pods import CLASS_NAME, CONSUMES
from quorate.kube.resources import ADMISSION_CHECKS
from quorate.kube.writes import Patch, status_patch
from quorate.queueing import conditions as c

CONFIG_KIND: Final = "ProvisioningRequestConfig"
INACTIVE: Final = "the check is not active"
CREATION_ERROR: Final = "Error creating "  # begins the message of a check without a request
NOT_NEEDED: Final = "the provisioning request is not needed"


def config_name(check: AdmissionCheck | None) -> str | None:
    """Return the configuration that a check names; None without one, or if not ours."""
    if check is None or check.spec.controller_name != CONTROLLER:
        return None
    parameters = check.spec.parameters
    return parameters.name if parameters is not None and not _reference_problem(parameters) else None


def decide_active(
    check: AdmissionCheck, config: ProvisioningRequestConfig | None, now: float
) -> tuple[Patch, ...]:
    """Return the patch of a check's Active condition; empty if unchanged or not ours."""
    if check.spec.controller_name != CONTROLLER:
        return ()
    conditions = with_condition(check.status.conditions, _active_condition(check, config, now))
    return status_patch(ADMISSION_CHECKS, check, replace(check.status, conditions=conditions))


def _active_condition(
    check: AdmissionCheck, config: ProvisioningRequestConfig | None, now: float
) -> Condition:
    generation = check.metadata.generation
    parameters = check.spec.parameters
    if parameters is None:
        problem = f"spec.parameters: nothing, must name a {CONFIG_KIND}"
    elif not (problem := _reference_problem(parameters)) and config is None:
        problem = f"{CONFIG_KIND} {parameters.name} doesn't exist"
    if problem:
        return c.new_condition("Active", "False", "BadParametersRef", problem, now, generation)
    return c.new_condition("Active", "True", "Active", "The admission check is active", now, generation)


def _reference_problem(parameters: CheckParameters) -> str:
    """Return why the reference to the configuration is invalid; empty if it is valid."""
    if (parameters.api_group, parameters.kind) == (GROUP, CONFIG_KIND) and parameters.name:
        return ""
    return (
        f"spec.parameters: {parameters.kind or 'no kind'} {parameters.name or 'without a name'} of "
        f"{parameters.api_group or 'no group'}, must name a {CONFIG_KIND} of {GROUP}"
    )


def inactive(check: AdmissionCheckState, now: float) -> AdmissionCheckState:
    return _finalized(replace(check, state="Pending", message=INACTIVE), check, now)


def not_needed(check: AdmissionCheckState, now: float) -> AdmissionCheckState:
    if check.state == "Ready":
        return check
    return _finalized(replace(check, state="Ready", message=NOT_NEEDED, pod_set_updates=()), check, now)


def check_state(
    check: AdmissionCheckState,
    workload: Workload,
    request: ProvisioningRequest,
    attempt: int,
    config: ProvisioningRequestConfigSpec,
    covered: Sequence[str],
    now: float,
) -> AdmissionCheckState:
    """Return the state of ``check`` that follows from its latest ``request``.

    ``covered``: the pod sets that the request covers.
    """
    return _finalized(_check_state(check, workload, request, attempt, config, covered), check, now)


def _check_state(
    check: AdmissionCheckState,
    workload: Workload,
    request: ProvisioningRequest,
    attempt: int,
    config: ProvisioningRequestConfigSpec,
    covered: Sequence[str],
) -> AdmissionCheckState:
    conditions, retries = request.status.conditions, config.retry_strategy
    if failed := true_condition(conditions, "Failed"):
        return _failed(check, attempt, retries, "failure", failed.message)
    if revoked := true_condition(conditions, "CapacityRevoked"):
        # The nodes no longer exist: replaced pods would stay pending, so the workload is rejected.
        return _rejected(check, revoked.message) if workload.spec.active else check
    if expired := true_condition(conditions, "BookingExpired"):
        if c.is_admitted(workload):
            return check  # running pods keep the nodes
        return _failed(check, attempt, retries, "booking expired", expired.message)
    if provisioned := true_condition(conditions, "Provisioned"):
        if check.state == "Ready":
            return check
        updates = pod_set_updates(request, config.pod_set_updates, covered)
        return replace(check, state="Ready", message=provisioned.message, pod_set_updates=updates)
    if is_true(conditions, "Accepted"):
        estimate = find_condition(conditions, "Provisioned")
        if estimate is None:
            return replace(check, message="") if check.message.startswith(CREATION_ERROR) else check
        return replace(check, state="Pending", message=estimate.message)
    return replace(check, state="Pending", message="")


def _failed(
    check: AdmissionCheckState, attempt: int, retries: RetryStrategy, failure: str, message: str
) -> AdmissionCheckState:
    if attempt > retries.backoff_limit_count:
        return _rejected(check, message)
    retrying = replace(check, message=f"Retrying after {failure}: {message}")
    if attempt <= (check.retry_count or 0):
        return retrying  # the workload has been requeued after this attempt already
    return replace(retrying, state="Retry", requeue_after_seconds=backoff_s(attempt, retries))


def backoff_s(attempt: int, retries: RetryStrategy) -> int:
    """Return the seconds to wait after a failed attempt; attempts count from 1."""
    doublings = min(attempt - 1, 31)  # any base reaches the maximum before that
    return min(retries.backoff_base_seconds << doublings, retries.backoff_max_seconds)


def _rejected(check: AdmissionCheckState, message: str) -> AdmissionCheckState:
    return replace(check, state="Rejected", message=message)


def pod_set_updates(
    request: ProvisioningRequest, updates: ConfiguredPodSetUpdates, covered: Sequence[str]
) -> tuple[PodSetUpdate, ...]:
    """Return what pods need to use the provisioned capacity, without missing details."""
    annotations = {CONSUMES: request.metadata.name, CLASS_NAME: request.spec.provisioning_class_name}
    details: Mapping[str, str] = request.status.provisioning_class_details
    selector = {
        label.key: details[label.value_from_provisioning_class_detail]
        for label in updates.node_selector
        if label.value_from_provisioning_class_detail in details
    }
    return tuple(PodSetUpdate(name=name, annotations=annotations, node_selector=selector) for name in covered)


def _finalized(new: AdmissionCheckState, old: AdmissionCheckState, now: float) -> AdmissionCheckState:
    """Return ``new`` with its last transition time and a truncated message."""
    truncated = replace(new, message=c.truncate_message(new.message))
    return truncated if new.state == old.state else replace(truncated, last_transition_time=at_epoch(now))


def is_failed(request: ProvisioningRequest, *, admitted: bool) -> bool:
    """Return True if the request failed, so that another attempt is due."""
    conditions = request.status.conditions
    expired = is_true(conditions, "BookingExpired") and not admitted
    return is_true(conditions, "Failed") or expired

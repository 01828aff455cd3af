"""What the state of a request for capacity means for the admission check that made it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.api.kueue import AdmissionCheckState, PodSetUpdate, Workload
from quorate.api.kueue.provisioning import (
    ConfiguredPodSetUpdates,
    ProvisioningRequest,
    ProvisioningRequestConfigSpec,
    RetryStrategy,
)
from quorate.api.meta import Condition, at_epoch, find_condition
from quorate.controllers.provisioning.request_names import CLASS_NAME, CONSUMES
from quorate.queueing import conditions as c

INACTIVE: Final = "the check is not active"
NOT_NEEDED: Final = "the provisioning request is not needed"


def inactive(check: AdmissionCheckState, now: float) -> AdmissionCheckState:
    return _turned(replace(check, state="Pending", message=INACTIVE), check, now)


def not_needed(check: AdmissionCheckState, now: float) -> AdmissionCheckState:
    if check.state == "Ready":
        return check
    return _turned(replace(check, state="Ready", message=NOT_NEEDED, pod_set_updates=()), check, now)


def check_state(
    check: AdmissionCheckState,
    workload: Workload,
    request: ProvisioningRequest,
    attempt: int,
    config: ProvisioningRequestConfigSpec,
    covered: Sequence[str],
    now: float,
) -> AdmissionCheckState:
    """``check`` as ``request``, its latest, has it; ``covered``: the pod sets whose pods it is for."""
    return _turned(_verdict(check, workload, request, attempt, config, covered), check, now)


def _verdict(
    check: AdmissionCheckState,
    workload: Workload,
    request: ProvisioningRequest,
    attempt: int,
    config: ProvisioningRequestConfigSpec,
    covered: Sequence[str],
) -> AdmissionCheckState:
    conditions, retries = request.status.conditions, config.retry_strategy
    if failed := _true(conditions, "Failed"):
        return _failed(check, attempt, retries, "failure", failed.message)
    if revoked := _true(conditions, "CapacityRevoked"):
        # Pods that are made anew would wait for nodes that are gone, so the workload is to end.
        return _rejected(check, revoked.message) if workload.spec.active else check
    if expired := _true(conditions, "BookingExpired"):
        if c.is_admitted(workload):
            return check  # its pods hold the nodes by being there
        return _failed(check, attempt, retries, "booking expired", expired.message)
    if provisioned := _true(conditions, "Provisioned"):
        if check.state == "Ready":
            return check
        updates = pod_set_updates(request, config.pod_set_updates, covered)
        return replace(check, state="Ready", message=provisioned.message, pod_set_updates=updates)
    if _true(conditions, "Accepted"):
        estimate = find_condition(conditions, "Provisioned")
        return check if estimate is None else replace(check, state="Pending", message=estimate.message)
    return replace(check, state="Pending", message="")


def _failed(
    check: AdmissionCheckState, attempt: int, retries: RetryStrategy, how: str, message: str
) -> AdmissionCheckState:
    if attempt > retries.backoff_limit_count:
        return _rejected(check, message)
    retrying = replace(check, message=f"Retrying after {how}: {message}")
    if attempt <= (check.retry_count or 0):
        return retrying  # the workload has been through this one
    return replace(retrying, state="Retry", requeue_after_seconds=backoff_s(attempt, retries))


def backoff_s(attempt: int, retries: RetryStrategy) -> int:
    """How long to wait after a failed ``attempt``, from 1."""
    doublings = min(attempt - 1, 31)  # beyond which any base has long reached the most there may be
    return min(retries.backoff_base_seconds << doublings, retries.backoff_max_seconds)


def _rejected(check: AdmissionCheckState, message: str) -> AdmissionCheckState:
    return replace(check, state="Rejected", message=message)


def pod_set_updates(
    request: ProvisioningRequest, updates: ConfiguredPodSetUpdates, covered: Sequence[str]
) -> tuple[PodSetUpdate, ...]:
    """What pods must say to get what was provisioned; details that the class does not give are left out."""
    annotations = {
        CONSUMES: request.metadata.name,
        CLASS_NAME: request.spec.provisioning_class_name,
    }
    details: Mapping[str, str] = request.status.provisioning_class_details
    selector = {
        each.key: details[each.value_from_provisioning_class_detail]
        for each in updates.node_selector
        if each.value_from_provisioning_class_detail in details
    }
    return tuple(PodSetUpdate(name=name, annotations=annotations, node_selector=selector) for name in covered)


def _turned(new: AdmissionCheckState, old: AdmissionCheckState, now: float) -> AdmissionCheckState:
    """``new`` with the time of its last change of state, and a message that can be stored."""
    fitting = replace(new, message=c.truncate_message(new.message))
    return fitting if new.state == old.state else replace(fitting, last_transition_time=at_epoch(now))


def is_failed(request: ProvisioningRequest, *, admitted: bool) -> bool:
    """Whether another attempt is due after it."""
    conditions = request.status.conditions
    expired = _true(conditions, "BookingExpired") is not None and not admitted
    return _true(conditions, "Failed") is not None or expired


def _true(conditions: Iterable[Condition], type_: str) -> Condition | None:
    found = find_condition(conditions, type_)
    return found if found is not None and found.status == "True" else None

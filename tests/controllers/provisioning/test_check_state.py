"""The state of a check that follows from its ProvisioningRequest."""

import msgspec
import pytest

from quorate.api.kueue import AdmissionCheckState, PodSetUpdate
from quorate.api.kueue.provisioning import ProvisioningRequestStatus, RetryStrategy
from quorate.api.meta import Condition, at_epoch
from quorate.controllers.provisioning.check_state import backoff_s, check_state
from tests.controllers.objects import CREATED_AT, a_workload
from tests.controllers.provisioning.provisioning_objects import a_check, a_config, a_request

NOW = CREATED_AT + 100
RESERVED = a_workload("QuotaReserved")
ADMITTED = a_workload("QuotaReserved", "Admitted")
CONFIG = a_config(retryStrategy={"backoffLimitCount": 2, "backoffBaseSeconds": 10}).spec


def show(check: AdmissionCheckState) -> str:
    text = f"{check.state}: {check.message}" if check.message else check.state
    requeue = "" if check.requeue_after_seconds is None else f" after {check.requeue_after_seconds} s"
    return text + requeue


@pytest.mark.parametrize(
    ("conditions", "attempt", "retries", "want"),
    [
        pytest.param("", 1, 0, "Pending", id="no conditions"),
        pytest.param("Accepted", 1, 0, "Pending: as before", id="accepted, no estimate"),
        pytest.param(
            "Accepted !Provisioned", 1, 0, "Pending: Provisioned it is", id="accepted with an estimate"
        ),
        pytest.param("Accepted Provisioned", 1, 0, "Ready: Provisioned it is", id="provisioned"),
        pytest.param(
            "Failed",
            1,
            0,
            "Retry: Retrying after failure: Failed it is after 10 s",
            id="first attempt failed",
        ),
        pytest.param(
            "Failed",
            2,
            1,
            "Retry: Retrying after failure: Failed it is after 20 s",
            id="second attempt failed",
        ),
        pytest.param(
            "Failed",
            1,
            1,
            "Pending: Retrying after failure: Failed it is",
            id="failure that was retried already",
        ),
        pytest.param("Failed", 3, 2, "Rejected: Failed it is", id="no attempt left"),
        pytest.param(
            "Provisioned Failed",
            1,
            0,
            "Retry: Retrying after failure: Failed it is after 10 s",
            id="failed after provisioned",
        ),
        pytest.param(
            "Provisioned CapacityRevoked", 1, 0, "Rejected: CapacityRevoked it is", id="capacity revoked"
        ),
        pytest.param(
            "Provisioned BookingExpired",
            1,
            0,
            "Retry: Retrying after booking expired: BookingExpired it is after 10 s",
            id="booking expired",
        ),
        pytest.param(
            "Provisioned BookingExpired",
            3,
            2,
            "Rejected: BookingExpired it is",
            id="booking expired, no attempt left",
        ),
    ],
)
def test_the_check_follows_its_request(conditions: str, attempt: int, retries: int, want: str) -> None:
    check = a_check(message="as before", retry_count=retries or None)
    request = a_request(*conditions.split(), attempt=attempt)
    new = check_state(check, RESERVED, request, attempt, CONFIG, ["main"], NOW)
    assert show(new) == want
    assert new.last_transition_time == at_epoch(CREATED_AT if new.state == "Pending" else NOW)
    assert check_state(new, RESERVED, request, attempt, CONFIG, ["main"], NOW + 1) == new


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param("Provisioned BookingExpired", "Ready", id="booking expired after admission"),
        pytest.param(
            "Provisioned CapacityRevoked",
            "Rejected: CapacityRevoked it is",
            id="capacity revoked after admission",
        ),
    ],
)
def test_after_admission(conditions: str, want: str) -> None:
    request = a_request(*conditions.split())
    assert show(check_state(a_check("Ready"), ADMITTED, request, 1, CONFIG, ["main"], NOW)) == want


def test_a_deactivated_workload_is_not_rejected_again() -> None:
    inactive = a_workload("QuotaReserved", active=False)
    request = a_request("CapacityRevoked")
    assert check_state(a_check("Ready"), inactive, request, 1, CONFIG, ["main"], NOW) == a_check("Ready")


def test_pod_set_updates_name_the_request_and_its_details() -> None:
    updates = [
        {"key": "pool", "valueFromProvisioningClassDetail": "PoolName"},
        {"key": "rack", "valueFromProvisioningClassDetail": "Rack"},
    ]
    config = a_config(podSetUpdates={"nodeSelector": updates}).spec
    request = a_request("Provisioned", details={"PoolName": "fresh"})
    new = check_state(a_check(), RESERVED, request, 1, config, ["main"], NOW)
    assert new.pod_set_updates == (
        PodSetUpdate(
            name="main",
            annotations={
                "autoscaling.x-k8s.io/consume-provisioning-request": "job-train-e4af4-capacity-1",
                "autoscaling.x-k8s.io/provisioning-class-name": "queued",
            },
            node_selector={"pool": "fresh"},
        ),
    )


def test_the_backoff_doubles_up_to_the_maximum() -> None:
    rules = RetryStrategy(backoff_base_seconds=60, backoff_max_seconds=300)
    assert [backoff_s(attempt, rules) for attempt in (1, 2, 3, 4, 1000)] == [60, 120, 240, 300, 300]


def test_a_message_that_is_too_long_is_truncated() -> None:
    failed = Condition(type="Failed", status="True", message="x" * 40_000)
    request = msgspec.structs.replace(a_request(), status=ProvisioningRequestStatus(conditions=(failed,)))
    assert len(check_state(a_check(), RESERVED, request, 1, CONFIG, ["main"], NOW).message) == 32 * 1024


def test_a_creation_error_is_not_the_message_of_a_later_request() -> None:
    check = a_check(message='Error creating ProvisioningRequest "r": no connection')
    for conditions in ("", "Accepted"):
        request = a_request(*conditions.split())
        assert show(check_state(check, RESERVED, request, 1, CONFIG, ["main"], NOW)) == "Pending"

"""What the state of a request means for its check."""

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


def shown(check: AdmissionCheckState) -> str:
    text = f"{check.state}: {check.message}" if check.message else check.state
    later = "" if check.requeue_after_seconds is None else f" after {check.requeue_after_seconds} s"
    return text + later


@pytest.mark.parametrize(
    ("conditions", "attempt", "retries", "want"),
    [
        pytest.param("", 1, 0, "Pending", id="nothing is known"),
        pytest.param("Accepted", 1, 0, "Pending: as before", id="accepted, no estimate"),
        pytest.param("Accepted !Provisioned", 1, 0, "Pending: Provisioned it is", id="an estimate"),
        pytest.param("Accepted Provisioned", 1, 0, "Ready: Provisioned it is", id="provisioned"),
        pytest.param(
            "Failed", 1, 0, "Retry: Retrying after failure: Failed it is after 10 s", id="the first failure"
        ),
        pytest.param(
            "Failed", 2, 1, "Retry: Retrying after failure: Failed it is after 20 s", id="the second"
        ),
        pytest.param(
            "Failed", 1, 1, "Pending: Retrying after failure: Failed it is", id="one that was answered"
        ),
        pytest.param("Failed", 3, 2, "Rejected: Failed it is", id="attempts used up"),
        pytest.param(
            "Provisioned Failed",
            1,
            0,
            "Retry: Retrying after failure: Failed it is after 10 s",
            id="failure wins",
        ),
        pytest.param("Provisioned CapacityRevoked", 1, 0, "Rejected: CapacityRevoked it is", id="revoked"),
        pytest.param(
            "Provisioned BookingExpired",
            1,
            0,
            "Retry: Retrying after booking expired: BookingExpired it is after 10 s",
            id="too late",
        ),
        pytest.param(
            "Provisioned BookingExpired", 3, 2, "Rejected: BookingExpired it is", id="too late, the last time"
        ),
    ],
)
def test_a_check_is_what_its_request_is(conditions: str, attempt: int, retries: int, want: str) -> None:
    check = a_check(message="as before", retry_count=retries or None)
    request = a_request(*conditions.split(), attempt=attempt)
    new = check_state(check, RESERVED, request, attempt, CONFIG, ["main"], NOW)
    assert shown(new) == want
    assert new.last_transition_time == at_epoch(CREATED_AT if new.state == "Pending" else NOW)
    assert check_state(new, RESERVED, request, attempt, CONFIG, ["main"], NOW + 1) == new


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param("Provisioned BookingExpired", "Ready", id="its pods hold the nodes"),
        pytest.param("Provisioned CapacityRevoked", "Rejected: CapacityRevoked it is", id="the nodes go"),
    ],
)
def test_after_admission(conditions: str, want: str) -> None:
    request = a_request(*conditions.split())
    assert shown(check_state(a_check("Ready"), ADMITTED, request, 1, CONFIG, ["main"], NOW)) == want


def test_one_that_was_deactivated_is_not_rejected_again() -> None:
    inactive = a_workload("QuotaReserved", active=False)
    request = a_request("CapacityRevoked")
    assert check_state(a_check("Ready"), inactive, request, 1, CONFIG, ["main"], NOW) == a_check("Ready")


def test_pods_name_their_request_and_get_the_details_that_there_are() -> None:
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


def test_backoffs_double_up_to_the_most() -> None:
    rules = RetryStrategy(backoff_base_seconds=60, backoff_max_seconds=300)
    assert [backoff_s(attempt, rules) for attempt in (1, 2, 3, 4, 1000)] == [60, 120, 240, 300, 300]


def test_a_message_that_cannot_be_stored_is_cut() -> None:
    said = Condition(type="Failed", status="True", message="x" * 40_000)
    request = msgspec.structs.replace(a_request(), status=ProvisioningRequestStatus(conditions=(said,)))
    assert len(check_state(a_check(), RESERVED, request, 1, CONFIG, ["main"], NOW).message) == 32 * 1024

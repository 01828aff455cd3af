"""Explanations quote why pods could not be created, if nothing has followed the failure."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from quorate.api.core.started_pod import FailedCreation
from tests.queueing.test_explanation_states import (
    ADMITTED,
    RUNNING,
    SINCE,
    UNSCHEDULED,
    a_workload,
    explained,
)

FAILED_AT = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("message", "state"),
    [
        ('Error creating: pods "train-x" is forbidden: exceeded quota: small', "Admitted"),
        ('Error creating: Pod "train-x" is invalid: spec.containers[0]: bad', "Stuck"),
    ],
)
def test_the_answer_of_the_api_server_says_why_pods_are_not_created(message: str, state: str) -> None:
    failure = FailedCreation(message=message, at=FAILED_AT)
    found = explained(a_workload(*ADMITTED), [], failure=failure)
    (reason,) = found.reasons
    assert (found.state, found.message) == (
        state,
        f"it is admitted; 0 of 3 pods run: 3 not created: {message}",
    )
    assert (reason.code, reason.needed, reason.since) == ("PodsNotCreated", "3", FAILED_AT)


@pytest.mark.parametrize(
    ("failed_s", "created_s", "is_told"),
    [
        pytest.param(60, None, True, id="no pod was created"),
        pytest.param(60, 59, True, id="after the last pod was created"),
        pytest.param(60, 60, True, id="in the same second"),
        pytest.param(60, 61, False, id="before the last pod was created"),
        pytest.param(-1, None, False, id="before the workload was admitted"),
    ],
)
@pytest.mark.parametrize("is_deleted", [False, True], ids=["it exists", "it is being deleted"])
def test_a_failure_to_create_pods_is_told_only_if_nothing_followed_it(
    failed_s: int, created_s: int | None, is_told: bool, is_deleted: bool
) -> None:
    begin = datetime.fromisoformat(SINCE)
    failure = FailedCreation(message="exceeded quota: small", at=begin + timedelta(seconds=failed_s))
    pods = []
    if created_s is not None:
        created = begin + timedelta(seconds=created_s)
        deleted = created if is_deleted else None
        of_pod = replace(RUNNING.metadata, creation_timestamp=created, deletion_timestamp=deleted)
        pods = [replace(RUNNING, metadata=of_pod)]
    reasons = explained(a_workload(*ADMITTED), pods, failure=failure).reasons
    reason = next(reason for reason in reasons if reason.code == "PodsNotCreated")
    assert reason.text == ("not created: exceeded quota: small" if is_told else "not created yet")


def test_a_failure_is_not_told_of_pods_that_exist() -> None:
    failure = FailedCreation(message="exceeded quota: small")
    found = explained(a_workload(*ADMITTED), [UNSCHEDULED] * 3, failure=failure)
    assert [reason.code for reason in found.reasons] == ["PodsUnschedulable"]

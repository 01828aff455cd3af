"""The plans for pod groups of deactivated workloads."""

import msgspec
import pytest

from quorate.controllers.jobframework.job_plan import JobOptions
from quorate.controllers.pods import constants
from tests.controllers.pods.notation import START, a_group_workload, pods, show
from tests.controllers.pods.test_pod_group_kind import NOTHING, decide_group

GIVEN_UP = "not-QuotaReserved Evicted:DeactivatedDueToAdmissionCheck"
EVICTED_AT = START.timestamp()


@pytest.mark.parametrize(
    ("conditions", "active", "after_s", "want"),
    [
        pytest.param(GIVEN_UP, False, 99, "look again in 1 s", id="before the end of the retention"),
        pytest.param(
            GIVEN_UP,
            False,
            100,
            "release a; delete a; release b; delete b; +Deleted; +Deleted",
            id="after the retention",
        ),
        pytest.param(GIVEN_UP, True, 100, "", id="activated again"),
        pytest.param("not-QuotaReserved Evicted:Deactivated", False, 100, "", id="deactivated by its user"),
    ],
)
def test_deactivated_pods_are_deleted_after_their_retention(
    conditions: str, active: bool, after_s: float, want: str
) -> None:
    members = pods("a=gated b=gated")
    workload = a_group_workload("main=2", conditions, owners=members)
    spec = msgspec.structs.replace(workload.spec, active=active)
    workload = msgspec.structs.replace(workload, spec=spec)
    now = EVICTED_AT + after_s
    plan = decide_group(members, workload, NOTHING, JobOptions(deactivated_retention_s=100.0), now)
    later = "" if plan.wake_at is None else f"look again in {plan.wake_at - now:g} s"
    assert show(plan) + later == want


def test_deactivated_pods_of_a_set_are_not_deleted() -> None:
    members = pods("a=gated b=gated", annotations={constants.SERVING: "true"})
    workload = a_group_workload("main=2", GIVEN_UP, owners=members)
    spec = msgspec.structs.replace(workload.spec, active=False)
    workload = msgspec.structs.replace(workload, spec=spec)
    options = JobOptions(deactivated_retention_s=100.0)
    assert show(decide_group(members, workload, NOTHING, options, EVICTED_AT + 200)) == ""

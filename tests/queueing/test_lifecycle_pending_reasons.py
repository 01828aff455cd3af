"""Why a workload is pending, where the lifecycle and not the admission cycle says so."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.queueing import Scheduling
from quorate.api.core import PodResourceClaim
from quorate.api.meta import Condition, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.inadmissible_reasons import (
    DevicesUncounted,
    LimitRangeViolated,
    Misconfiguration,
    NamespaceMismatched,
    RequestsAboveLimits,
)
from quorate.queueing.lifecycle.transition import QueueView
from quorate.queueing.pending.device_claims import CountedClaim, device_requests
from quorate.queueing.pending.device_sources import ClaimProblem
from tests.queueing.lifecycle_builders import (
    ADMITTED,
    COARSE,
    GRANULAR,
    RESERVED,
    RUNNING,
    a_workload,
    decide,
    is_,
    not_,
    queues,
    replace,
    show,
)


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (queues(local=False), "Misconfigured"),
        (queues("Hold"), "Suspended"),
        (queues(cluster=False), "Misconfigured"),
        (queues(active=False), "Suspended"),
    ],
)
def test_the_granular_reason_of_an_inactive_or_missing_queue(view: QueueView, reason: str) -> None:
    code = "QueueMissing" if reason == "Misconfigured" else "QueueInactive"
    want = f"not QuotaReserved {reason}, quorate.dev/Waiting {code}, not Admitted NoReservation"
    assert show(a_workload(), decide(a_workload(), view, GRANULAR)) == want


UNSCHEDULED = Configuration(gates=COARSE, scheduling=Scheduling(enabled=False))
UNCOUNTED = device_requests(
    "main",
    0,
    (
        PodResourceClaim(name="named", resource_claim_name="claim"),
        PodResourceClaim(name="lost", resource_claim_template_name="lost"),
        PodResourceClaim(name="refused", resource_claim_template_name="refused"),
        PodResourceClaim(name="unmapped", resource_claim_template_name="unmapped"),
        PodResourceClaim(name="short", resource_claim_template_name="short"),
    ),
    {
        "lost": None,
        "refused": CountedClaim("devices.requests[0].exactly is missing"),
        "unmapped": CountedClaim({"gpu": 1}),
        "short": CountedClaim({}, {}, (ClaimProblem("devices.requests[0]", "too few devices", 1),)),
    }.__getitem__,
    resources={},
    absence="does not exist",
)
MISMATCHED = replace(RUNNING, misconfiguration=NamespaceMismatched("ns", "cq"))


@pytest.mark.parametrize(
    ("configuration", "reported", "withdrawn"),
    [
        (UNSCHEDULED, "not QuotaReserved Inadmissible", "not QuotaReserved Pending"),
        (
            replace(UNSCHEDULED, gates=GRANULAR.gates),
            "not QuotaReserved Misconfigured",
            "not QuotaReserved PendingEvaluation",
        ),
    ],
    ids=["coarse reasons", "granular reasons"],
)
def test_a_misconfiguration_that_no_cycle_reports_is_reported_and_withdrawn(
    configuration: Configuration, reported: str, withdrawn: str
) -> None:
    new = a_workload()
    status = decide(new, MISMATCHED, configuration).status
    assert status is not None
    told = replace(new, status=status)
    assert show(new, decide(new, MISMATCHED, configuration)).startswith(reported)
    assert show(told, decide(told, MISMATCHED, configuration)) == "nothing"
    assert show(told, decide(told, RUNNING, configuration)) == withdrawn


@pytest.mark.parametrize(
    "misconfiguration",
    [
        NamespaceMismatched("ns", "cq"),
        RequestsAboveLimits(("requests[cpu]: 2 exceeds the limit 1",)),
        LimitRangeViolated(("cpu: 2 exceeds 1",)),
        *(DevicesUncounted((finding,)) for finding in UNCOUNTED.findings),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "view", [queues(local=False), queues("Hold"), queues(cluster=False), queues(active=False), RUNNING]
)
def test_a_wait_leaves_no_typed_reason_where_another_program_reserves_quota(
    view: QueueView, misconfiguration: Misconfiguration
) -> None:
    """The write of the reservation is not ours, so it would leave the reason beside the quota."""
    new = a_workload()
    status = decide(new, replace(view, misconfiguration=misconfiguration), UNSCHEDULED).status
    assert status is not None
    assert find_condition(status.conditions, c.WAITING) is None
    told = replace(new, status=status)
    assert show(told, decide(told, RUNNING, UNSCHEDULED)) == "not QuotaReserved Pending"


def test_the_reason_that_another_scheduler_wrote_stays() -> None:
    pending = a_workload(not_(c.QUOTA_RESERVED, "Inadmissible", message="no licenses"))
    assert show(pending, decide(pending, RUNNING, UNSCHEDULED)) == "nothing"


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ((RESERVED,), "Admitted Admitted, no quorate.dev/Waiting"),
        ((RESERVED, ADMITTED), "no quorate.dev/Waiting"),
        ((not_(c.QUOTA_RESERVED, "Pending"),), "nothing"),
    ],
    ids=["reserved", "admitted", "neither"],
)
def test_a_wait_ends_when_another_program_admits_the_workload(
    conditions: tuple[Condition, ...], want: str
) -> None:
    workload = a_workload(*conditions, is_(c.WAITING, "QueueMissing"))
    assert show(workload, decide(workload, RUNNING, Configuration(gates=COARSE))) == want

"""The next step of a workload, by the configuration and with its events."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import Gates
from quorate.api.configuration.queueing import ObjectRetention
from quorate.api.kueue import UNREADABLE, Workload, WorkloadStatus
from quorate.api.meta import Condition, at_epoch
from quorate.api.names.kueue import RESOURCE_IN_USE
from quorate.queueing import conditions as c
from tests.queueing.lifecycle_builders import (
    ADMITTED,
    EXPLICIT,
    GRANULAR,
    INACTIVE,
    KEPT_100_S,
    NO_RESERVATION,
    OWNER,
    RESERVED,
    WAIT,
    a_workload,
    a_workload_with,
    check,
    decide,
    is_,
    not_,
    queues,
    replace,
    show,
    with_metadata,
)

LENIENT = Configuration(gates=Gates(finish_orphaned_workloads=False))
UNGATED = Configuration(gates=Gates(admission_gated_by=False))
GATED = a_workload_with(annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/a"})
ORPHAN = a_workload_with(labels={"kueue.x-k8s.io/job-uid": "u"}, finalizers=(RESOURCE_IN_USE,))
LEAVING = a_workload_with(finalizers=(RESOURCE_IN_USE,), deletion_timestamp=at_epoch(900))
DONE = is_(c.FINISHED, "OwnerNotFound", at=900)


@pytest.mark.parametrize(
    ("workload", "configuration", "want"),
    [
        # owners
        pytest.param(
            ORPHAN, WAIT, "Finished OwnerNotFound, release", id="orphan: finished, finalizer removed"
        ),
        pytest.param(ORPHAN, LENIENT, "nothing", id="orphan without the gate"),
        pytest.param(LEAVING, WAIT, "Finished OwnerNotFound, release", id="deleted without an owner"),
        pytest.param(LEAVING, LENIENT, "release", id="deleted without an owner, without the gate"),
        pytest.param(
            with_metadata(a_workload(DONE), labels={"kueue.x-k8s.io/job-uid": "u"}),
            KEPT_100_S,
            "release, delete",
            id="retention applies to a finished orphan",
        ),
        # retention
        pytest.param(
            a_workload(is_(c.FINISHED, at=950)), KEPT_100_S, "wake 1050", id="within the retention period"
        ),
        pytest.param(
            a_workload(is_(c.FINISHED, at=900)),
            KEPT_100_S,
            "release, delete",
            id="after the retention period",
        ),
        pytest.param(
            a_workload(is_(c.FINISHED, at=1000)),
            Configuration(retention=ObjectRetention(finished_s=0)),
            "release, delete",
            id="a retention period of 0",
        ),
        pytest.param(
            with_metadata(a_workload(DONE), deletion_timestamp=at_epoch(990), owner_references=(OWNER,)),
            KEPT_100_S,
            "nothing",
            id="already being deleted",
        ),
        # admission gates
        pytest.param(GATED, WAIT, "not QuotaReserved AdmissionGated", id="gated"),
        pytest.param(GATED, UNGATED, "nothing", id="gated, without the feature gate"),
        pytest.param(
            replace(GATED, status=WorkloadStatus(conditions=(not_(c.QUOTA_RESERVED, c.ADMISSION_GATED),))),
            WAIT,
            "nothing",
            id="still gated",
        ),
        pytest.param(
            a_workload(not_(c.QUOTA_RESERVED, c.ADMISSION_GATED)),
            WAIT,
            "not QuotaReserved Pending",
            id="the gate is cleared",
        ),
        # granular reasons
        pytest.param(a_workload(), GRANULAR, "nothing", id="never evaluated"),
        pytest.param(
            a_workload(not_(c.QUOTA_RESERVED, "WaitingForQuota")),
            GRANULAR,
            "not Admitted NoReservation",
            id="never admitted",
        ),
        pytest.param(
            a_workload(),
            EXPLICIT,
            "not QuotaReserved PendingEvaluation, not Admitted NoReservation",
            id="explicit status",
        ),
        pytest.param(
            a_workload(not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION), spec=INACTIVE),
            GRANULAR,
            "Evicted Deactivated",
            id="deactivation comes first",
        ),
        pytest.param(
            a_workload(
                is_(c.EVICTED), not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION), spec=INACTIVE
            ),
            GRANULAR,
            "not QuotaReserved Deactivated",
            id="deactivated",
        ),
        pytest.param(
            a_workload(not_(c.QUOTA_RESERVED, "WaitingForQuota", message="cpu")),
            GRANULAR,
            "not Admitted NoReservation",
            id="the reason of the cycle stays",
        ),
        pytest.param(
            a_workload(
                not_(c.QUOTA_RESERVED, "Misconfigured", message="LocalQueue lq doesn't exist"),
                not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION),
            ),
            GRANULAR,
            "not QuotaReserved PendingEvaluation",
            id="the queue exists now",
        ),
        pytest.param(
            a_workload(
                not_(c.QUOTA_RESERVED, "Misconfigured", message="requests above limits"),
                not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION),
            ),
            GRANULAR,
            "nothing",
            id="active queues do not change a reason of the workload",
        ),
    ],
)
def test_the_next_step_depends_on_the_configuration(
    workload: Workload, configuration: Configuration, want: str
) -> None:
    assert show(workload, decide(workload, configuration=configuration)) == want


def test_a_reservation_with_pending_checks_has_an_admitted_condition() -> None:
    workload = a_workload(RESERVED, admission_checks=(check("Pending"),))
    got = decide(workload, queues(checks=("c",)), GRANULAR)
    assert show(workload, got) == "not Admitted UnsatisfiedAdmissionChecks"
    assert show(workload, decide(workload, queues(checks=("c",)), WAIT)) == "nothing"


def test_the_event_of_an_admission_has_the_time_since_the_reservation() -> None:
    workload = a_workload(RESERVED, admission_checks=(check("Ready"),))
    (event,) = decide(workload, queues(checks=("c",))).events
    assert event.message == "Admitted by ClusterQueue cq, wait time since reservation was 100s"


def test_setting_and_clearing_admission_gates_emits_events() -> None:
    opened = a_workload(not_(c.QUOTA_RESERVED, c.ADMISSION_GATED))
    assert [(event.type, event.reason, event.message) for event in decide(GATED).events] == [
        ("Normal", "AdmissionGated", "Workload admission is gated by: example.com/a")
    ]
    assert [(event.type, event.reason) for event in decide(opened).events] == [
        ("Normal", "AdmissionGateCleared")
    ]


@pytest.mark.parametrize(
    ("message", "text"), [("", '"c"'), ("no capacity", '"c" (no capacity)')], ids=["empty", "with a reason"]
)
def test_the_event_of_a_rejected_check_has_its_message(message: str, text: str) -> None:
    workload = a_workload(RESERVED, ADMITTED, admission_checks=(check("Rejected", message=message),))
    assert [event.message for event in decide(workload, queues(checks=("c",))).events] == [
        f"Deactivated due to AdmissionCheck in Rejected state: {text}"
    ]


@pytest.mark.parametrize("others", [(RESERVED, ADMITTED), (), (is_(c.FINISHED),)])
def test_a_workload_that_can_be_read_again_has_no_condition_of_that_fault(
    others: tuple[Condition, ...],
) -> None:
    workload = a_workload(*others, is_(UNREADABLE, "Unreadable"))
    status = decide(workload).status
    assert status == replace(workload.status, conditions=others)
    assert decide(replace(workload, status=status)).status is None

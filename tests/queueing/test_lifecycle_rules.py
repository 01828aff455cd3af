"""The lifecycle of a workload: which rule makes the next transition."""

import pytest

from quorate.api.configuration.planned_starts import PlannedStartRules
from quorate.api.kueue import (
    Admission,
    RequeueState,
    Workload,
    WorkloadStatus,
)
from quorate.api.meta import at_epoch, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.transition import QueueView
from tests.queueing.lifecycle_builders import (
    ADMITTED,
    BRIEF,
    INACTIVE,
    NOW,
    RESERVED,
    RUNNING,
    a_workload,
    check,
    decide,
    is_,
    not_,
    queues,
    replace,
    show,
)

QUEUE_MISSING = "not QuotaReserved Inadmissible, quorate.dev/Waiting QueueMissing"
QUEUE_INACTIVE = "not QuotaReserved Inadmissible, quorate.dev/Waiting QueueInactive"


@pytest.mark.parametrize(
    ("workload", "view", "want"),
    [
        pytest.param(a_workload(), RUNNING, "nothing", id="pending with active queues"),
        pytest.param(a_workload(is_(c.FINISHED)), queues(local=False), "nothing", id="finished"),
        # inconsistent statuses
        pytest.param(
            replace(a_workload(RESERVED, ADMITTED), status=WorkloadStatus(conditions=(RESERVED, ADMITTED))),
            RUNNING,
            "not QuotaReserved Inadmissible, not Admitted NoReservation",
            id="reserved without an admission",
        ),
        pytest.param(
            a_workload(ADMITTED), RUNNING, "not Admitted NoReservation", id="admitted without a reservation"
        ),
        pytest.param(
            replace(
                a_workload(),
                status=WorkloadStatus(
                    conditions=(not_(c.QUOTA_RESERVED, "Pending"), not_(c.ADMITTED, "NoReservation")),
                    admission=Admission(cluster_queue="cq"),
                ),
            ),
            RUNNING,
            "released",
            id="an admission without a reservation",
        ),
        # queues
        pytest.param(
            a_workload(),
            queues(local=False),
            QUEUE_MISSING,
            id="no local queue",
        ),
        pytest.param(
            a_workload(),
            queues("Hold"),
            QUEUE_INACTIVE,
            id="local queue stopped",
        ),
        pytest.param(
            a_workload(),
            queues(cluster=False),
            QUEUE_MISSING,
            id="no cluster queue",
        ),
        pytest.param(
            a_workload(),
            queues(active=False),
            QUEUE_INACTIVE,
            id="cluster queue inactive",
        ),
        pytest.param(
            a_workload(not_(c.QUOTA_RESERVED, "OnHold")),
            queues(local=False),
            "nothing",
            id="on hold by its job",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED), queues("Hold"), "wake 1200", id="Hold keeps admitted workloads"
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED),
            queues("HoldAndDrain"),
            "Evicted LocalQueueStopped",
            id="HoldAndDrain evicts admitted workloads",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED),
            queues("HoldAndDrain", "HoldAndDrain"),
            "Evicted LocalQueueStopped",
            id="the local queue is checked first",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED),
            queues("Hold", "HoldAndDrain"),
            "Evicted ClusterQueueStopped",
            id="a cluster queue is drained below a held local queue",
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Pending"),)),
            queues(stop="Hold", checks=("c",)),
            "not QuotaReserved Inadmissible, released",
            id="a reservation without admission is cancelled",
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Pending"),)),
            queues(terminating=True, checks=("c",)),
            "not QuotaReserved Inadmissible, released",
            id="a terminating queue cancels a reservation",
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Pending"),)),
            queues(local_terminating=True, checks=("c",)),
            "not QuotaReserved Inadmissible, released",
            id="a terminating local queue cancels a reservation",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED),
            queues(local_terminating=True),
            "wake 1200",
            id="a terminating local queue keeps admitted workloads",
        ),
        pytest.param(
            a_workload(),
            queues(local_terminating=True),
            QUEUE_INACTIVE,
            id="a terminating local queue is inactive",
        ),
        pytest.param(
            a_workload(RESERVED),
            queues(stop="HoldAndDrain"),
            "Admitted Admitted",
            id="admitted before it is evicted",
        ),
        # requeueing
        pytest.param(
            a_workload(not_(c.REQUEUED, "ClusterQueueStopped")),
            RUNNING,
            "Requeued ClusterQueueRestarted",
            id="cluster queue restarted",
        ),
        pytest.param(
            a_workload(not_(c.REQUEUED, "LocalQueueStopped")),
            RUNNING,
            "Requeued LocalQueueRestarted",
            id="local queue restarted",
        ),
        pytest.param(
            a_workload(not_(c.REQUEUED, "ClusterQueueStopped")),
            queues(stop="Hold"),
            QUEUE_INACTIVE,
            id="cluster queue still stopped",
        ),
        pytest.param(
            a_workload(
                not_(c.REQUEUED, "PodsReadyTimeout"),
                requeue_state=RequeueState(count=2, requeue_at=at_epoch(1060)),
            ),
            RUNNING,
            "wake 1060",
            id="backing off",
        ),
        pytest.param(
            a_workload(
                not_(c.REQUEUED, "PodsReadyTimeout"),
                requeue_state=RequeueState(count=2, requeue_at=at_epoch(1000)),
            ),
            RUNNING,
            "Requeued BackoffFinished, retries 2 until None",
            id="backoff finished",
        ),
        pytest.param(
            a_workload(
                RESERVED,
                is_(c.EVICTED, "AdmissionCheck"),
                not_(c.REQUEUED, "AdmissionCheck"),
                requeue_state=RequeueState(requeue_at=at_epoch(1060)),
            ),
            RUNNING,
            "wake 1060",
            id="backing off while the eviction runs",
        ),
        pytest.param(
            a_workload(
                RESERVED,
                is_(c.EVICTED, "AdmissionCheck"),
                not_(c.REQUEUED, "AdmissionCheck"),
                requeue_state=RequeueState(requeue_at=at_epoch(1000)),
            ),
            RUNNING,
            "Requeued BackoffFinished, retries None until None",
            id="backoff finished while the eviction runs",
        ),
        pytest.param(
            a_workload(is_(c.REQUEUED, "Preempted"), requeue_state=RequeueState(requeue_at=at_epoch(999))),
            RUNNING,
            "retries None until None",
            id="the end of a backoff keeps Requeued=True",
        ),
        pytest.param(
            a_workload(not_(c.REQUEUED, "DeactivatedDueToRequeuingLimitExceeded")),
            RUNNING,
            "Requeued Reactivated",
            id="reactivated after any deactivation",
        ),
        # starts that the API server refuses
        pytest.param(
            a_workload(RESERVED, ADMITTED, not_(c.JOB_UPDATED, c.START_REFUSED, at=NOW - 10)),
            RUNNING,
            "wake 1050",
            id="a job that cannot be started keeps its quota for a while",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, not_(c.JOB_UPDATED, c.START_REFUSED, at=NOW - 60)),
            RUNNING,
            "Evicted StartRefused, retries 1 until 1060",
            id="a job that cannot be started gives its quota back",
        ),
        pytest.param(
            a_workload(
                RESERVED,
                ADMITTED,
                not_(c.JOB_UPDATED, c.START_REFUSED, at=NOW - 60),
                requeue_state=RequeueState(count=1),
            ),
            RUNNING,
            "DeactivationTarget StartRefused",
            id="a job that can never be started is deactivated",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, not_(c.JOB_UPDATED, c.STOP_REFUSED, at=0)),
            RUNNING,
            "wake 1200",
            id="a job that cannot be stopped keeps its quota",
        ),
        # deactivation
        pytest.param(
            a_workload(RESERVED, ADMITTED, spec=INACTIVE),
            RUNNING,
            "Evicted Deactivated",
            id="deactivated by the user",
        ),
        pytest.param(
            a_workload(is_(c.DEACTIVATION_TARGET, "RequeuingLimitExceeded")),
            RUNNING,
            "deactivate",
            id="a deactivation target deactivates",
        ),
        pytest.param(
            a_workload(
                is_(c.DEACTIVATION_TARGET, "RequeuingLimitExceeded"),
                spec=INACTIVE,
                requeue_state=RequeueState(count=3),
            ),
            RUNNING,
            "Evicted DeactivatedDueToRequeuingLimitExceeded, no DeactivationTarget, retries None until None",
            id="deactivated by the system",
        ),
        pytest.param(
            a_workload(is_(c.EVICTED), is_(c.DEACTIVATION_TARGET, "RequeuingLimitExceeded"), spec=INACTIVE),
            RUNNING,
            "no DeactivationTarget",
            id="preempted and then deactivated: the target is removed",
        ),
        pytest.param(
            a_workload(is_(c.EVICTED), spec=INACTIVE, requeue_state=RequeueState(count=3)),
            RUNNING,
            "retries None until None",
            id="already evicted: only the retries are removed",
        ),
        # checks
        pytest.param(
            a_workload(), queues(checks=("c",)), "checks ['c=Pending']", id="an applicable check is added"
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Ready"),)),
            queues(checks=("c",)),
            "Admitted Admitted",
            id="all checks ready",
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Pending"),)),
            RUNNING,
            "checks []",
            id="a check that no longer applies is removed",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, admission_checks=(check("Rejected"),)),
            queues(checks=("c",)),
            "DeactivationTarget AdmissionCheck",
            id="a rejected check",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, admission_checks=(check("Retry"),)),
            queues(checks=("c",)),
            "Evicted AdmissionCheck, checks ['c=Pending']",
            id="a check in state Retry",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, is_(c.EVICTED), admission_checks=(check("Rejected"),)),
            queues(checks=("c",)),
            "DeactivationTarget AdmissionCheck",
            id="a check rejected while the job stops",
        ),
        pytest.param(
            a_workload(admission_checks=(check("Rejected"),)),
            queues(checks=("c",)),
            "DeactivationTarget AdmissionCheck",
            id="a check rejected before a reservation",
        ),
        pytest.param(
            a_workload(is_(c.EVICTED), spec=INACTIVE, admission_checks=(check("Rejected"),)),
            queues(checks=("c",)),
            "checks ['c=Pending']",
            id="a rejected check does not outlast the deactivation",
        ),
        pytest.param(
            a_workload(admission_checks=(check("Retry"),)),
            queues(checks=("c",)),
            "checks ['c=Pending']",
            id="Retry before a reservation",
        ),
        pytest.param(
            a_workload(is_(c.EVICTED, "Preempted"), admission_checks=(check("Retry"),)),
            queues(checks=("c",)),
            "checks ['c=Pending']",
            id="Retry after the reservation was released",
        ),
        pytest.param(
            a_workload(
                RESERVED,
                admission_checks=(
                    check("Retry", last_transition_time=at_epoch(990), requeue_after_seconds=70),
                ),
                requeue_state=RequeueState(count=1, requeue_at=at_epoch(1050)),
            ),
            queues(checks=("c",)),
            "retries 1 until 1060",
            id="a check extends the backoff",
        ),
        pytest.param(
            a_workload(
                RESERVED,
                admission_checks=(
                    check("Retry", last_transition_time=at_epoch(990), requeue_after_seconds=70),
                ),
                requeue_state=RequeueState(requeue_at=at_epoch(1060)),
            ),
            queues(checks=("c",)),
            "Evicted AdmissionCheck, checks ['c=Pending']",
            id="Retry evicts before its backoff ends",
        ),
        # timeouts
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=950)), RUNNING, "wake 1250", id="the timeout is running"
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=700)),
            RUNNING,
            "Evicted PodsReadyTimeout, retries 1 until 1060",
            id="the timeout has expired",
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=700), requeue_state=RequeueState(count=1)),
            RUNNING,
            "DeactivationTarget RequeuingLimitExceeded",
            id="the retries are used up",
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=950), spec=BRIEF),
            RUNNING,
            "wake 1010",
            id="the earlier timeout sets wake_at",
        ),
        pytest.param(
            a_workload(
                RESERVED, is_(c.ADMITTED, at=980), spec=BRIEF, accumulated_past_execution_time_seconds=40
            ),
            RUNNING,
            "DeactivationTarget MaximumExecutionTimeExceeded",
            id="past execution time counts",
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=900)),
            queues(planned_start_rules=PlannedStartRules(default_maximum_s=90, enforces_default=True)),
            "DeactivationTarget MaximumExecutionTimeExceeded",
            id="the default maximum of the queue is enforced",
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=900)),
            queues(planned_start_rules=PlannedStartRules(default_maximum_s=90)),
            "wake 1200",
            id="the default maximum of the queue is not enforced",
        ),
    ],
)
def test_the_next_step(workload: Workload, view: QueueView, want: str) -> None:
    assert show(workload, decide(workload, view)) == want


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_the_message_after_a_restart_names_the_queue(kind: str) -> None:
    status = decide(a_workload(not_(c.REQUEUED, f"{kind}Stopped")), RUNNING).status
    requeued = None if status is None else find_condition(status.conditions, c.REQUEUED)
    assert requeued is not None
    assert requeued.message == f"The {kind} was restarted after being stopped"

"""The plans for a pod group, one state per line."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from quorate.api.configuration.feature_gates import Gates
from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload, WorkloadPriorityClass
from quorate.api.meta import Condition, ObjectMeta, OwnerReference, Uid, at_epoch
from quorate.controllers.jobframework.job_plan import JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.pod_reports import are_ready
from quorate.controllers.jobframework.rules import decide as decide_job
from quorate.controllers.pods import constants
from quorate.controllers.pods.pod_group import PodGroup
from quorate.controllers.pods.pod_group_kind import PodGroupKind
from quorate.kube.writes import Patch
from quorate.queueing.conditions import WAITING_FOR_REPLACEMENT
from tests.controllers.pods.notation import NOW, a_group_workload, a_pod, pods, show

RULES = WaitForPodsReady(timeout_s=300.0, recovery_timeout_s=300.0, block_admission=None)
NOTHING = ReconcileContext(flavors={}, workload_classes={}, pod_classes={})
OPTIONS = JobOptions()


def decide(members: Sequence[Pod], workload: Workload | None, **options: Any) -> JobPlan:
    gates = Gates(**options.pop("gates", {}))
    return decide_group(members, workload, NOTHING, JobOptions(gates=gates, **options), NOW)


def decide_group(
    members: Sequence[Pod],
    workload: Workload | None,
    context: ReconcileContext,
    options: JobOptions,
    now: float,
) -> JobPlan:
    group = PodGroup.of("train", members, now, options.gates) if members else None
    workloads = () if workload is None else (workload,)
    return decide_job(PodGroupKind(), group, workloads, context, options, now)


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param("a=gated b=gated", "create train main=2; +CreatedWorkload", id="a whole group"),
        pytest.param(
            "a=gated/x b=gated/a", "create train a=1 x=1; +CreatedWorkload", id="roles sorted by name"
        ),
        pytest.param("a=gated", "!ErrWorkloadCompose", id="a pod is missing"),
        pytest.param("a=gated b=gated-gone", "release b; !ErrWorkloadCompose", id="one pod was deleted"),
        pytest.param(
            "a=gated b=gated c=gated",
            "release c; delete c; create train main=2; +ExcessPodDeleted; +CreatedWorkload",
            id="the newest excess pod is deleted",
        ),
        pytest.param(
            "a=gated b=failed c=gated",
            "release b; create train main=2; +CreatedWorkload",
            id="a failed pod with a replacement is released",
        ),
        pytest.param("a=running b=gated", "", id="a pod runs without quota"),
        pytest.param(
            "a=running b=running",
            "end a NoMatchingWorkload; delete a; end b NoMatchingWorkload; delete b; +Stopped; +Stopped",
            id="all pods run without quota",
        ),
        pytest.param(
            "a=succeeded b=succeeded",
            "release a; release b",
            id="all pods succeeded, the workload is missing",
        ),
    ],
)
def test_a_group_without_workload(line: str, want: str) -> None:
    assert show(decide(pods(line), None)) == want


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param("a=running b=running", "", id="all pods run"),
        pytest.param("a=running-gone b=failed", "release a; release b", id="one is being deleted"),
        pytest.param("a=failed-gone b=succeeded-gone", "release a; release b", id="all have ended"),
    ],
)
def test_a_group_waits_for_no_replacement_in_a_namespace_that_is_being_deleted(line: str, want: str) -> None:
    """The namespace controller deletes other objects, such as the Workload, when no pod is left."""
    context = replace(NOTHING, namespace_deleted=True)
    workload = a_group_workload(conditions="QuotaReserved Admitted")
    assert show(decide_group(pods(line), workload, context, OPTIONS, NOW)) == want


@pytest.mark.parametrize(
    ("line", "conditions", "want"),
    [
        pytest.param("a=gated b=gated", "not-QuotaReserved:Pending", "", id="pending"),
        pytest.param(
            "a=gated b=gated",
            "QuotaReserved Admitted",
            "ungate a; ungate b; +Started; +Started",
            id="admitted",
        ),
        pytest.param("a=running b=running", "QuotaReserved Admitted", "", id="running"),
        pytest.param(
            "a=running b=succeeded", "QuotaReserved Admitted", "status reclaim main=1", id="one pod succeeded"
        ),
        pytest.param(
            "a=succeeded b=succeeded",
            "QuotaReserved Admitted",
            "status Finished=True:Succeeded",
            id="all pods succeeded",
        ),
        pytest.param(
            "a=running b=failed",
            "QuotaReserved Admitted",
            "status WaitingForReplacementPods=True:PodsFailed",
            id="one pod failed",
        ),
        pytest.param(
            "a=running b=failed c=gated",
            "QuotaReserved Admitted WaitingForReplacementPods:PodsFailed",
            "own; +OwnerReferencesAdded",
            id="a failed pod is replaced",
        ),
        pytest.param(
            "a=running b=running",
            "QuotaReserved Admitted WaitingForReplacementPods:PodsFailed",
            "status WaitingForReplacementPods=False:PodsReady",
            id="no replacement is missing",
        ),
        pytest.param(
            "a=running b=running c=gated",
            "QuotaReserved Admitted",
            "release c; delete c; +ExcessPodDeleted",
            id="one excess pod",
        ),
        pytest.param(
            "a=running b=running-gone c=gated",
            "QuotaReserved Admitted",
            "",
            id="another pod waits for the place of one that is leaving",
        ),
        pytest.param(
            "a=running b=running-gone c=gated d=gated",
            "QuotaReserved Admitted",
            "release d; delete d; +ExcessPodDeleted",
            id="one excess pod beside a pod that waits for a place",
        ),
        pytest.param(
            "a=running b=succeeded-gone c=gated",
            "QuotaReserved Admitted",
            "release c; delete c; +ExcessPodDeleted",
            id="a pod that succeeded while it was leaving is not replaced",
        ),
        pytest.param(
            "a=running b=gated",
            "QuotaReserved Admitted Evicted:Preempted",
            "end a WorkloadEvictedDueToPreempted; delete a; +Stopped",
            id="evicted: running pods are stopped, gated pods stay",
        ),
        pytest.param(
            "a=running-gone b=running-gone",
            "QuotaReserved Admitted Evicted:Preempted",
            "",
            id="evicted, pods still terminating",
        ),
        pytest.param(
            "a=failed-gone b=failed-gone",
            "QuotaReserved Admitted Evicted:Preempted",
            "status WaitingForReplacementPods=True:Preempted",
            id="evicted, replacements missing",
        ),
        pytest.param(
            "a=failed-gone b=failed-gone",
            "QuotaReserved Admitted Evicted:Preempted WaitingForReplacementPods:Preempted",
            "status QuotaReserved=False:PendingEvaluation Admitted=False:NoReservation "
            "Requeued=True:Preempted",
            id="evicted, quota released",
        ),
        pytest.param(
            "a=running b=running",
            "not-QuotaReserved:Pending",
            "end a NotAdmitted; delete a; end b NotAdmitted; delete b; +Stopped; +Stopped",
            id="ungated by another client",
        ),
        pytest.param(
            "a=succeeded b=succeeded",
            "QuotaReserved Admitted Finished:Succeeded",
            "release a; release b; release workload",
            id="finished: all pods are released",
        ),
        pytest.param(
            "a=gated/other b=gated/other",
            "not-QuotaReserved:Pending",
            "spec maximumExecutionTimeSeconds podSets priority priorityClassRef queueName; +UpdatedWorkload",
            id="other roles: the workload is updated",
        ),
        pytest.param(
            "a=gated/other b=gated/other",
            "QuotaReserved",
            "release workload; delete workload; +DeletedWorkload",
            id="other roles with reserved quota",
        ),
    ],
)
def test_a_group_with_its_workload(line: str, conditions: str, want: str) -> None:
    members = pods(line)
    owned = [each for each in members if each.metadata.name in "ab"]
    assert show(decide(members, a_group_workload(conditions=conditions, owners=owned))) == want


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        pytest.param("WorkloadEvictedDueToPreempted", ("Preempted", "for another"), id="evicted"),
        pytest.param(
            "NodeFailure",
            ("PodsFailed", "Some Failed pods need replacement"),
            id="stopped for another reason",
        ),
    ],
)
def test_pods_that_an_eviction_stopped_need_replacement_for_its_reason(
    reason: str, want: tuple[str, str]
) -> None:
    """Also if the workload has quota again before the end of its pods is seen."""
    stopped = Condition(
        type=constants.TERMINATION_TARGET, status="True", reason=reason, message="for another",
        last_transition_time=at_epoch(NOW - 5),
    )  # fmt: skip
    running, gone = pods("a=running b=failed-gone")
    gone = msgspec.structs.replace(gone, status=msgspec.structs.replace(gone.status, conditions=(stopped,)))
    group = PodGroup.of("train", [running, gone], NOW, Gates())
    workload = a_group_workload(conditions="QuotaReserved Admitted", owners=[running, gone])
    (patch,) = decide_job(PodGroupKind(), group, [workload], NOTHING, OPTIONS, NOW).writes
    assert isinstance(patch, Patch)
    found = [each for each in patch.body["status"]["conditions"] if each["type"] == WAITING_FOR_REPLACEMENT]
    assert [(each["status"], each["reason"], each["message"]) for each in found] == [("True", *want)]


def test_replaced_pods_are_released_once_their_replacements_own_the_workload() -> None:
    members = pods("a=failed-gone b=failed-gone c=gated d=gated")
    waiting = "not-QuotaReserved:Pending WaitingForReplacementPods:Preempted"
    before = a_group_workload(conditions=waiting, owners=members[:2])
    assert show(decide(members, before)) == "own; +OwnerReferencesAdded"
    after = a_group_workload(conditions=waiting, owners=members)
    assert show(decide(members, after)) == "release a; release b"


def test_all_pods_are_terminated_when_the_workload_is_deleted() -> None:
    workload = a_group_workload(conditions="not-QuotaReserved", deletion_timestamp=at_epoch(NOW))
    first = show(decide(pods("a=gated b=succeeded"), workload))
    assert first == "end a WorkloadDeleted; delete a; end b WorkloadDeleted; delete b; +Stopped; +Stopped"
    then = show(decide(pods("a=gated-gone b=succeeded-gone"), workload))
    assert then == "release a; release b; release workload"


def test_the_workload_of_a_group_without_pods_is_released() -> None:
    assert show(decide([], a_group_workload())) == "release workload"


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param("QuotaReserved Admitted", "", id="no pod exists yet"),
        pytest.param(
            "QuotaReserved Admitted Evicted:PodsReadyTimeout",
            "status QuotaReserved=False:PendingEvaluation Admitted=False:NoReservation "
            "Requeued=False:PodsReadyTimeout",
            id="evicted before the first pod",
        ),
        pytest.param("not-QuotaReserved Evicted:PodsReadyTimeout", "", id="evicted, quota released"),
    ],
)
def test_the_workload_of_a_set_without_pods_releases_its_quota(conditions: str, want: str) -> None:
    workload = a_group_workload(conditions=conditions)
    maker = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="s", uid=Uid("s"), controller=True)
    metadata = msgspec.structs.replace(workload.metadata, owner_references=(maker,))
    assert show(decide([], msgspec.structs.replace(workload, metadata=metadata))) == want


def test_a_workload_that_is_not_of_a_group_is_a_name_conflict() -> None:
    ours = a_group_workload()
    foreign = msgspec.structs.replace(ours, metadata=msgspec.structs.replace(ours.metadata, annotations={}))
    assert show(decide([], foreign)) == ""
    refused = decide(pods("a=gated b=gated"), foreign)
    assert show(refused) == "!WorkloadNameConflict"
    assert [each.event.message for each in refused.events] == [
        f'A Workload named "{foreign.metadata.name}" already exists but is not a pod group workload; '
        "this pod group cannot be admitted"
    ]
    assert show(
        decide(pods("a=gated b=gated"), foreign, gates={"pod_integration_validate_group_owner": False})
    ) == ("own; +OwnerReferencesAdded")


@pytest.mark.parametrize(
    ("others", "own", "conditions", "want"),
    [
        pytest.param("a=gated", "", "QuotaReserved Admitted", "!WorkloadNameConflict", id="without the set"),
        pytest.param("a=gated-gone", "", "", "release a; !WorkloadNameConflict", id="deleted"),
        pytest.param(
            "a=gated",
            "",
            "QuotaReserved Admitted Evicted:PodsReadyTimeout",
            "status QuotaReserved=False:PendingEvaluation Admitted=False:NoReservation "
            "Requeued=False:PodsReadyTimeout; !WorkloadNameConflict",
            id="the set is evicted and has no pod",
        ),
        pytest.param("a=gated", "running", "QuotaReserved Admitted", "", id="the set runs"),
        pytest.param("a=failed", "running", "QuotaReserved Admitted", "release a", id="ended beside the set"),
    ],
)
def test_a_pod_that_only_names_the_group_of_a_set_is_refused(
    others: str, own: str, conditions: str, want: str
) -> None:
    """It is older than the pods of the set, and states another size."""
    serving = {constants.SERVING: "true", constants.FAST_ADMISSION: "true"}
    members = [a_pod("w", own, total="2", annotations=serving, age=1)] if own else []
    maker = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="s", uid=Uid("s"), controller=True)
    owned = a_group_workload(conditions=conditions, owners=members)
    metadata = msgspec.structs.replace(
        owned.metadata,
        annotations={**owned.metadata.annotations, constants.OWNER_KIND: "apps/v1, Kind=StatefulSet"},
        owner_references=(maker, *owned.metadata.owner_references),
    )
    group = [*pods(others, total="9"), *members]
    assert show(decide(group, msgspec.structs.replace(owned, metadata=metadata))) == want


def test_with_fast_admission_one_pod_is_enough_for_a_workload() -> None:
    fast = {constants.FAST_ADMISSION: "true"}
    assert show(decide(pods("a=gated", total="3", annotations=fast), None)) == (
        "create train main=3; +CreatedWorkload"
    )


def test_fast_admission_is_on_only_if_its_annotation_is_true() -> None:
    off = {constants.FAST_ADMISSION: "false"}
    assert show(decide(pods("a=gated", annotations=off), None)) == "!ErrWorkloadCompose"


EVICTED = "not-QuotaReserved Evicted:PodsReadyTimeout WaitingForReplacementPods:PodsReadyTimeout"


@pytest.mark.parametrize(
    ("line", "conditions", "want"),
    [
        pytest.param(
            "a=running", "QuotaReserved Admitted", "", id="pods that never existed are not waited for"
        ),
        pytest.param(
            "a=running b=failed", "QuotaReserved Admitted", "", id="one pod runs, the failed one may follow"
        ),
        pytest.param(
            "a=failed-gone",
            "QuotaReserved Admitted Evicted:PodsReadyTimeout",
            "status WaitingForReplacementPods=True:PodsReadyTimeout",
            id="evicted incomplete: a replacement is missing",
        ),
        pytest.param("a=failed-gone", EVICTED, "", id="it waits for the replacement"),
        pytest.param(
            "a=failed-gone b=gated",
            EVICTED,
            "status WaitingForReplacementPods=False:PodsReady",
            id="one replacement is enough",
        ),
    ],
)
def test_a_group_with_fast_admission_waits_for_one_pod(line: str, conditions: str, want: str) -> None:
    members = pods(line, total="3", annotations={constants.FAST_ADMISSION: "true"})
    assert show(decide(members, a_group_workload("main=3", conditions, owners=members))) == want


def test_a_group_with_an_unretriable_pod_ends_with_its_last_pod() -> None:
    kept, final = a_pod("a", "failed"), a_pod("b", "failed", annotations={constants.RETRIABLE: "false"})
    workload = a_group_workload(conditions="QuotaReserved Admitted", owners=[kept, final])
    plan = decide([kept, final], workload)
    assert show(plan) == "status Finished=True:Failed"
    assert show(decide([a_pod("a", "running"), final], workload)) == "status reclaim main=1"


def test_a_serving_group_never_finishes_and_has_no_reclaimable_pods() -> None:
    members = pods("a=succeeded b=succeeded", annotations={constants.SERVING: "true"}, has_finalizer=False)
    assert show(decide(members, a_group_workload(conditions="QuotaReserved Admitted", owners=members))) == ""


@pytest.mark.parametrize("conditions", ["QuotaReserved Admitted", "QuotaReserved Admitted Evicted:Preempted"])
@pytest.mark.parametrize("ended", ["failed-gone", "succeeded-gone", "failed"])
def test_an_ended_pod_of_a_serving_group_is_released(ended: str, conditions: str) -> None:
    members = pods(f"a={ended} b=gated", annotations={constants.SERVING: "true"})
    workload = a_group_workload(conditions=conditions, owners=members)
    assert show(decide(members, workload)) == "release a"


def test_a_pending_workload_follows_the_labels_of_its_pods() -> None:
    members = pods("a=gated b=gated", queue="other", labels={"kueue.x-k8s.io/priority-class": "high"})
    workload = a_group_workload(conditions="not-QuotaReserved:Pending", owners=members)
    high = WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=10)
    context = ReconcileContext(flavors={}, workload_classes={"high": high}, pod_classes={})
    plan = decide_group(members, workload, context, OPTIONS, NOW)
    assert show(plan) == "spec priority priorityClassRef queueName; +UpdatedWorkload"
    unknown = decide(members, workload)
    assert "!WorkloadPriorityClassNotFound" in show(unknown)
    assert show(unknown).endswith(
        "missing WorkloadPriorityClass high doesn't exist: create it, or name another"
    )
    reserving = a_group_workload(conditions="QuotaReserved", owners=members)
    assert show(decide_group(members, reserving, context, OPTIONS, NOW)) == ""


def test_excess_pods_of_a_set_stay_gated() -> None:
    members = pods("a=running b=running c=gated", annotations={constants.SERVING: "true"})
    workload = a_group_workload(conditions="QuotaReserved Admitted", owners=members)
    assert show(decide(members, workload)) == ""


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param("a=running b=running", "status PodsReady=True:Started", id="all pods are ready"),
        pytest.param("a=running b=succeeded", "status PodsReady=True:Started", id="one pod succeeded"),
        pytest.param("a=running b=pending", "status PodsReady=False:WaitForStart", id="one pod is pending"),
    ],
)
def test_a_group_is_ready_when_all_pods_are_ready_or_succeeded(line: str, want: str) -> None:
    members = pods(line)
    workload = a_group_workload(conditions="QuotaReserved Admitted", owners=members)
    assert show(decide(members, workload, wait_for_pods_ready=RULES)) == want


@pytest.mark.parametrize(
    ("line", "counts", "ready"),
    [
        pytest.param(
            "a=running b=pending c=running", ("1", "2", "1"), True, id="as many as the least allows"
        ),
        pytest.param("a=running b=pending c=pending", ("1", "2", "2"), False, id="more"),
        pytest.param("a=running b=running", ("1", "1"), True, id="a pod does not exist"),
        pytest.param(
            "a=running b=pending c=running", ("1", "", "1"), False, id="a pod without the annotation"
        ),
        pytest.param("a=running b=pending c=running", ("1", "3", "1"), False, id="as many as the group has"),
        pytest.param("a=running b=pending c=running", ("1", "-1", "1"), False, id="no count"),
    ],
)
def test_with_the_gate_a_group_is_ready_without_some_of_its_pods(
    line: str, counts: tuple[str, ...], ready: bool
) -> None:
    members = [
        a_pod(name, state, total="3", annotations={constants.MAX_NOT_READY: count} if count else {})
        for (name, state), count in zip((each.split("=") for each in line.split()), counts, strict=True)
    ]
    for gate in (True, False):
        gates = Gates(wait_for_pods_ready_max_not_ready=gate)
        assert is_ready(PodGroup.of("train", members, NOW, gates)) is (ready and gate)


def is_ready(group: PodGroup) -> bool:
    return are_ready(replace(group, roles=(("main", group.total),)).counts)


def test_a_group_without_the_annotation_needs_all_its_pods() -> None:
    members = [a_pod(name, "running", total="3") for name in "abc"]
    gates = Gates(wait_for_pods_ready_max_not_ready=True)
    assert is_ready(PodGroup.of("train", members, NOW, gates))
    assert not is_ready(PodGroup.of("train", members[:2], NOW, gates))


def test_with_the_gate_quota_is_released_before_the_pods_are_gone() -> None:
    members = pods("a=running-gone b=running-gone")
    evicted = a_group_workload(conditions="QuotaReserved Admitted Evicted:Preempted", owners=members)
    assert show(decide(members, evicted)) == ""
    assert show(decide(members, evicted, gates={"fast_quota_release_in_pod_integration": True})).startswith(
        "status QuotaReserved=False"
    )


def test_gated_pods_are_deleted_before_started_ones() -> None:
    members = [a_pod("a", "gated", age=0), a_pod("b", "running", age=1), a_pod("c", "running", age=2)]
    workload = a_group_workload(conditions="QuotaReserved Admitted", owners=members)
    assert show(decide(members, workload)) == "release a; delete a; +ExcessPodDeleted"

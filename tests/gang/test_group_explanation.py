"""The explanation of a pod group from its status."""

from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core.started_pod import FailedCreation, StartedPod
from quorate.api.explanation import Change, Reason, Remedy
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, OwnerReference, Uid
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job
from quorate.gang.explanation import (
    ENOUGH,
    ENOUGH_FOR_ONE_THAT_NEVER_FITS,
    GroupFacts,
    explain_group,
    explain_job_without_group,
    may_wait,
    waiting_group,
)
from quorate.gang.pending_reasons import PendingReason
from quorate.queueing.explanation.pods import with_members

SHORT = {
    "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources",
    "message": "cluster: cpu: need 6, have 2 now",
}  # fmt: skip
TOO_LARGE = SHORT | {"message": "2 of 3 members found no node: no share, so it can never fit"}
Json = dict[str, Any]
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "train"}


def a_group(phase: str, *conditions: Any, running: int = 0, **annotations: Any) -> PodGroup:
    metadata = {
        "name": "g", "namespace": "lab", "ownerReferences": [JOB],
        "annotations": {name.replace("_", "/"): value for name, value in annotations.items()},
    }  # fmt: skip
    status = {"phase": phase, "conditions": list(conditions), "running": running}
    return codec.convert(PodGroup, {"metadata": metadata, "spec": {"minMember": 3}, "status": status})


@pytest.mark.parametrize(
    ("group", "state", "message"),
    [
        pytest.param(
            a_group("Pending", SHORT),
            "Queued",
            "its phase is Pending; cluster: cpu: need 6, have 2 now",
            id="waits for room",
        ),
        pytest.param(a_group(""), "Queued", "its phase is Pending", id="not evaluated yet"),
        pytest.param(
            a_group("Pending", SHORT | {"reason": "QueueNotFound", "message": "queue q does not exist"}),
            "NeverFits",
            "its phase is Pending; queue q does not exist",
            id="its queue does not exist",
        ),
        pytest.param(
            a_group("Inqueue"),
            "Admitted",
            "it is admitted, and 3 of its pods may be created and get nodes",
            id="admitted",
        ),
        pytest.param(
            a_group("Inqueue", TOO_LARGE),
            "Stuck",
            "it is admitted, and 3 of its pods may be created and get nodes; " + TOO_LARGE["message"],
            id="admitted, and too large",
        ),
        pytest.param(a_group("Running", running=3), "Running", "its phase is Running", id="runs"),
        pytest.param(a_group("Running", running=2), "RunningInPart", "its phase is Running", id="in part"),
        pytest.param(a_group("Completed", SHORT), "Finished", "its phase is Completed", id="ended"),
    ],
)
def test_the_state_of_a_pod_group(group: PodGroup, state: str, message: str) -> None:
    found = explain_group(group)
    assert (found.state, found.message) == (state, message)


def test_an_admitted_group_is_in_its_state_since_its_admission() -> None:
    notes: Json = {"scheduling.volcano.sh/inqueue-since": "2026-01-01T00:00:07Z"}
    group = a_group("Inqueue", **notes)
    found = {
        phase: explain_group(replace(group, status=replace(group.status, phase=phase))).since
        for phase in ("Inqueue", "Pending")
    }
    assert found == {"Inqueue": datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC), "Pending": None}


def test_a_pending_group_has_the_reason_of_the_scheduler() -> None:
    (reason,) = explain_group(a_group("Pending", SHORT)).reasons
    assert (reason.code, reason.text) == ("NotEnoughResources", "cluster: cpu: need 6, have 2 now")


@pytest.mark.parametrize("reason", get_args(PendingReason), ids=lambda reason: reason.__name__)
def test_there_is_something_to_do_about_each_reason(reason: type[PendingReason]) -> None:
    if isinstance(reason.reason, property):
        return  # that of a reason that it contains
    assert reason.reason in ENOUGH.keys() | ENOUGH_FOR_ONE_THAT_NEVER_FITS.keys()


def test_members_of_an_incomplete_gang_need_no_room_on_a_node() -> None:
    missing = SHORT | {"reason": "NotEnoughTasks", "message": "1 of 3 members exist"}
    group = a_group("Inqueue", missing)
    metadata = {
        "name": "g-0", "namespace": "lab", "uid": "g-0",
        "annotations": {"scheduling.k8s.io/group-name": "g"},
    }  # fmt: skip
    member = codec.convert(StartedPod, {"metadata": metadata})
    failure = FailedCreation(message="Pod g-1 is invalid")
    found = with_members(explain_group(group), [member], failure)
    assert [reason.code for reason in found.reasons] == [
        "NotEnoughTasks", "PodsUnschedulable", "PodsNotCreated",
    ]  # fmt: skip
    assert found.enough == (
        "its controller must create the missing pods",
        "the API server must accept them: change what it names",
    )


@pytest.mark.parametrize(
    ("phase", "members", "code"),
    [("Inqueue", 2, "NotEnoughTasks"), ("Inqueue", 3, ""), ("Inqueue", None, ""), ("Running", 2, "")],
)
def test_an_admitted_group_waits_for_its_members(phase: str, members: int | None, code: str) -> None:
    explanation = explain_group(a_group(phase), members=members)
    assert explanation.code == code
    assert explanation.message.endswith("2 of 3 members exist") == bool(code)


@pytest.mark.parametrize(("phase", "admitted"), [("Pending", 0), ("Inqueue", 3), ("Running", 3)])
def test_pods_of_a_pending_group_are_not_admitted(phase: str, admitted: int) -> None:
    pods = explain_group(a_group(phase)).pods
    assert pods is not None
    assert (pods.requested, pods.admitted) == (3, admitted)


@pytest.mark.parametrize(
    ("of", "phase", "condition", "waits"),
    [
        pytest.param("train", "Pending", SHORT, True, id="its pod group is pending"),
        pytest.param("train", "Inqueue", SHORT, False, id="its pod group is admitted too"),
        pytest.param(
            "train", "Inqueue", TOO_LARGE, True, id="its pod group is admitted, and can never start"
        ),
        pytest.param("other", "Pending", SHORT, False, id="the pod group of another job is pending"),
    ],
)
def test_a_workload_may_wait_for_its_pod_group(of: str, phase: str, condition: Json, waits: bool) -> None:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name=of, uid=Uid(of))
    workload = Workload(metadata=ObjectMeta(name="w", namespace="lab", owner_references=(owner,)))
    reason = waiting_group(workload, [a_group(phase, condition)])
    assert (reason is not None) is waits
    if reason is not None:
        assert reason.needs_change == (condition is TOO_LARGE)
        assert reason.text == (
            f"its pod group waits: NotEnoughResources: {condition['message']} "
            "(quorate podgroup explain g shows more)"
        )


@pytest.mark.parametrize(
    ("state", "want"),
    [
        pytest.param(
            {"phase": "Pending", "reason": "InvalidJob", "message": "spec.tasks: 2 tasks have the name a"},
            ("NeverFits", "InvalidJob", "correct the field that the message names"),
            id="it cannot be synced",
        ),
        pytest.param(
            {"phase": "Pending", "reason": "Suspended", "message": "it waits"},
            ("Queued", "Suspended", ""),
            id="it waits",
        ),
        pytest.param({}, ("Queued", "", ""), id="new"),
        pytest.param({"phase": "Running"}, ("Running", "", ""), id="it runs"),
        pytest.param(
            {"phase": "Failed", "reason": "InvalidJob", "message": "x"}, ("Finished", "", ""), id="ended"
        ),
    ],
)
def test_a_volcano_job_without_a_group_is_explained_by_its_status(
    state: Json, want: tuple[str, str, str]
) -> None:
    job = codec.convert(Job, {"metadata": {"name": "train", "namespace": "lab"}, "status": {"state": state}})
    found = explain_job_without_group(job)
    assert (found.state, found.code, " ".join(found.enough)) == want


def of(*reasons: Reason, **fields: Any) -> GroupFacts:
    return GroupFacts(reasons=reasons, text="; ".join(each.text for each in reasons), **fields)


RAISED = Change(action="RaiseQuota", text="raise capability of queue q to 6 cpu")
CAPABILITY = Remedy(all_of=(RAISED,), pods=3)
FEWER = Remedy(all_of=(Change(action="LowerMinMember", text="lower minMember to 2"),), pods=2)
NOW = Reason(code="NotEnoughResources", text="cluster: cpu: need 6, have 3 now")
NEVER = Reason(code="QueueNotFound", text="queue q does not exist", needs_change=True)
MISSING = Reason(code="NotEnoughTasks", text="2 of 3 members exist")
LATER = Reason(code="BackingOff", text="it is not tried before 00:20:00 UTC")


@pytest.mark.parametrize(
    ("group", "facts", "state", "message", "enough"),
    [
        pytest.param(
            a_group("Pending", SHORT),
            of(NOW, remedies=(CAPABILITY, FEWER), rivals=2),
            "Queued",
            "its phase is Pending; cluster: cpu: need 6, have 3 now",
            (
                "either raise capability of queue q to 6 cpu",
                "or lower minMember to 2",
                "provided that the 2 other pod groups that wait cannot start first",
            ),
            id="remedies",
        ),
        pytest.param(
            a_group("Pending", SHORT),
            of(NOW),
            "Queued",
            "its phase is Pending; cluster: cpu: need 6, have 3 now",
            (ENOUGH["NotEnoughResources"],),
            id="no change is known",
        ),
        pytest.param(
            a_group("Inqueue"),
            of(MISSING, remedies=(FEWER,)),
            "Admitted",
            "it is admitted, and 3 of its pods may be created and get nodes; 2 of 3 members exist",
            ("either its controller must create the missing pods", "or lower minMember to 2"),
            id="pods are missing",
        ),
        pytest.param(
            a_group("Pending", SHORT),
            of(starts=True),
            "Queued",
            "its phase is Pending; there is room for it now "
            "(if it stays pending, check that the gang scheduler runs)",
            ("the gang scheduler must admit it",),
            id="it starts next",
        ),
        pytest.param(
            a_group("Pending", SHORT),
            of(LATER),
            "Queued",
            "its phase is Pending; it is not tried before 00:20:00 UTC; cluster: cpu: need 6, have 2 now",
            (ENOUGH["BackingOff"], ENOUGH["NotEnoughResources"]),
            id="it was rolled back, for the stored reason",
        ),
        pytest.param(
            a_group(""), of(NEVER), "NeverFits", "its phase is Pending; queue q does not exist",
            (ENOUGH_FOR_ONE_THAT_NEVER_FITS["QueueNotFound"],), id="it never starts as it is",
        ),
        pytest.param(
            a_group("Completed", SHORT), of(NOW), "Finished", "its phase is Completed", (), id="it has ended"
        ),
    ],
)  # fmt: skip
def test_what_a_session_would_decide_now_replaces_the_status(
    group: PodGroup, facts: GroupFacts, state: str, message: str, enough: tuple[str, ...]
) -> None:
    found = explain_group(group, facts)
    assert (found.state, found.message, found.enough) == (state, message, enough)
    assert (found.remedies, found.rivals) == (facts.remedies, facts.rivals)


@pytest.mark.parametrize(
    ("group", "waits"),
    [
        (a_group(""), True),
        (a_group("Inqueue"), True),
        (a_group("Running", running=2), True),
        (a_group("Running", running=3), False),
        (a_group("Completed"), False),
    ],
)
def test_only_a_group_that_may_wait_is_evaluated(group: PodGroup, waits: bool) -> None:
    assert may_wait(group) is waits

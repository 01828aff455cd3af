"""What the pods of a pod group wait for."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from quorate.api.core.started_pod import FailedCreation, StartedPod
from quorate.api.explanation import Explanation, ObjectName, PodCounts, Reason
from quorate.queueing.explanation.pods import explain_pod_without_group, with_members
from tests.queueing.test_explanation_states import PULLING, RUNNING, UNSCHEDULED

GROUP = Explanation(
    object=ObjectName(kind="PodGroup", name="g", namespace="default"),
    state="Running",
    message="its phase is Running",
    pods=PodCounts(requested=3, admitted=3),
)


def member(pod: StartedPod, group: str = "g") -> StartedPod:
    annotations = {"scheduling.k8s.io/group-name": group}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def test_members_that_do_not_run_are_counted() -> None:
    pods = [member(RUNNING), member(PULLING), member(UNSCHEDULED), member(RUNNING, "other")]
    found = with_members(GROUP, pods)
    assert (found.state, found.pods) == (
        "Stuck", PodCounts(requested=3, admitted=3, created=3, running=1),
    )  # fmt: skip
    assert found.message == (
        "its phase is Running; 1 starting on a node (ImagePullBackOff), "
        "1 without a node (0/2 nodes are available: 2 Insufficient cpu)"
    )
    assert [each.code for each in found.reasons] == ["ContainersWaiting", "PodsUnschedulable"]


def test_a_group_of_which_all_members_run_is_left_as_it_is() -> None:
    found = with_members(GROUP, [member(RUNNING)] * 3)
    assert (found.state, found.message, found.reasons) == ("Running", "its phase is Running", ())


def test_numbers_are_those_of_the_group_which_its_pods_may_not_have_yet() -> None:
    cause = Reason(code="NotEnoughResources", text="1 of 3 members found no node")
    found = with_members(replace(GROUP, message=cause.text, reasons=(cause,)), [member(UNSCHEDULED)] * 3)
    assert found.message == "1 of 3 members found no node; 3 without a node"


@pytest.mark.parametrize(
    ("pod", "state", "code", "message"),
    [
        (
            UNSCHEDULED,
            "Held",
            "PodGroupNotFound",
            "it is without a node (0/2 nodes are available: 2 Insufficient cpu)",
        ),
        (PULLING, "Admitted", "ContainersWaiting", "it is starting on a node (ImagePullBackOff)"),
        (RUNNING, "Running", "", "its phase is Running"),
    ],
    ids=["waits", "starts", "runs"],
)
def test_a_pod_of_a_group_that_does_not_exist_says_so(
    pod: StartedPod, state: str, code: str, message: str
) -> None:
    found = explain_pod_without_group(member(pod))
    assert (found.object.kind, found.state, found.code) == ("Pod", state, code)
    assert found.message == f"{message}; its pod group g does not exist, or may not be read"


@pytest.mark.parametrize(
    ("failed_s", "created_s", "codes"),
    [
        pytest.param(5, 4, ["PodsNotCreated"], id="after the last pod was created"),
        pytest.param(5, 6, [], id="before the last pod was created"),
        pytest.param(-1, -9, [], id="before the group was admitted"),
        pytest.param(0, -9, ["PodsNotCreated"], id="in the second of the admission"),
    ],
)
def test_a_failure_to_create_members_is_told_only_if_nothing_followed_it(
    failed_s: int, created_s: int, codes: list[str]
) -> None:
    begin = datetime(2026, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)

    def after(seconds: int) -> datetime:
        return (begin + timedelta(seconds=seconds)).replace(microsecond=0)

    pod = member(RUNNING)
    pod = replace(pod, metadata=replace(pod.metadata, creation_timestamp=after(created_s)))
    failure = FailedCreation(message="exceeded quota: small", at=after(failed_s))
    found = with_members(replace(GROUP, since=begin), [pod], failure)
    assert [reason.code for reason in found.reasons] == codes

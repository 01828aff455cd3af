"""Counts of the pods of a group: how many may still run, whether it is ready, and when it has ended."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core.pod import Pod, PodCondition, PodStatus
from quorate.api.kueue import ReclaimablePod
from quorate.controllers.jobframework.pod_reports import are_ready
from quorate.controllers.pods import constants
from quorate.controllers.pods.pod_group import PodGroup, count_pods
from tests.controllers.pods.notation import NOW, a_group_workload, a_pod, pods

NOT_RETRIED = {constants.RETRIABLE: "false"}
STATES = ("gated", "pending", "running", "running-gone", "succeeded", "failed", "failed-gone", "gated-gone")


def counted(members: list[Pod], roles: str, given_back: int = 0) -> PodGroup:
    """Return the group with the pods that its workload counts."""
    workload = a_group_workload(roles, "QuotaReserved Admitted", owners=members)
    reported = (ReclaimablePod(name="main", count=given_back),) if given_back else ()
    status = msgspec.structs.replace(workload.status, reclaimable_pods=reported)
    workload = msgspec.structs.replace(workload, status=status)
    group = PodGroup.of("train", members, NOW)
    kept = count_pods(workload, group)
    sizes = tuple((pod_set.name, pod_set.count) for pod_set in workload.spec.pod_sets)
    return replace(group, pods=kept.kept, absent=kept.absent, roles=sizes)


def show(group: PodGroup) -> str:
    may_run = " ".join(f"{each.name} {each.may_run}" for each in group.counts)
    end = "" if group.outcome is None else f"; {'succeeded' if group.outcome.success else 'failed'}"
    absent = f"; {group.absent} absent" if group.absent else ""
    return f"{may_run}; {'ready' if are_ready(group.counts) else 'not ready'}{absent}{end}"


@pytest.mark.parametrize(
    ("line", "retries", "want"),
    [
        pytest.param("a=running b=running", True, "main 2; ready", id="all run"),
        pytest.param("a=running b=pending", True, "main 2; not ready", id="one starts"),
        pytest.param("a=running b=succeeded", True, "main 1; ready", id="one has succeeded"),
        pytest.param("a=running b=failed", True, "main 2; not ready; 1 absent", id="one is to be replaced"),
        pytest.param("a=running b=failed c=gated", True, "main 2; not ready", id="one is being replaced"),
        pytest.param("a=running b=running-gone", True, "main 2; ready", id="one is being deleted"),
        pytest.param("a=succeeded b=succeeded", True, "main 0; ready; succeeded", id="all have succeeded"),
        pytest.param("a=failed b=failed", True, "main 2; not ready; 2 absent", id="both are to be replaced"),
        pytest.param("a=running b=failed", False, "main 1; ready", id="a failed pod is not replaced"),
        pytest.param("a=succeeded b=failed", False, "main 0; ready; failed", id="the last pod has ended"),
        pytest.param("a=failed b=running-gone", False, "main 1; ready", id="the last pod is being deleted"),
        pytest.param("a=gated b=gated", False, "main 2; not ready", id="no pod has started"),
        pytest.param(
            "a=running b=failed c=gated",
            False,
            "main 2; not ready",
            id="another pod comes before the quota goes",
        ),
        pytest.param("a=gated b=gated-gone", False, "main 2; not ready; 1 absent", id="one never started"),
    ],
)
def test_the_pods_of_a_group(line: str, retries: bool, want: str) -> None:
    members = pods(line, annotations={} if retries else NOT_RETRIED)
    assert show(counted(members, "main=2")) == want


def test_a_pod_that_was_stopped_with_its_group_may_be_created_again() -> None:
    stopped = a_pod("b", "failed-gone", annotations=NOT_RETRIED, age=1)
    target = PodCondition(type=constants.TERMINATION_TARGET, status="True")
    stopped = msgspec.structs.replace(stopped, status=PodStatus(phase="Failed", conditions=(target,)))
    waiting = a_pod("a", "gated", annotations=NOT_RETRIED)
    assert show(counted([waiting, stopped], "main=2")) == "main 2; not ready; 1 absent"


def test_no_pod_takes_the_place_of_one_that_has_given_back_its_quota() -> None:
    members = pods("a=running b=failed c=gated", annotations=NOT_RETRIED)
    assert [each.metadata.name for each in counted(members, "main=2", given_back=1).pods] == ["a", "b"]
    succeeded = pods("a=running b=succeeded c=gated", annotations=NOT_RETRIED)
    assert [each.metadata.name for each in counted(succeeded, "main=2", given_back=1).pods] == ["a", "b"]


@given(
    states=st.lists(st.sampled_from(STATES), min_size=1, max_size=4),
    size=st.integers(1, 4),
    retries=st.booleans(),
)
def test_counts_and_end_of_a_group_agree(states: list[str], size: int, retries: bool) -> None:
    annotations = {} if retries else NOT_RETRIED
    members = [
        a_pod(f"p{at}", state, age=at, total=str(size), annotations=annotations)
        for at, state in enumerate(states)
    ]
    group = counted(members, f"main={size}")
    if not group.pods:
        return
    (counts,) = group.counts
    present = sum(not pod.has_ended and "gated-gone" not in _state_of(pod) for pod in group.pods)
    assert present <= counts.may_run <= size, "what runs has quota"
    assert counts.may_run + counts.succeeded + counts.failed == size, "each pod of the group counts once"
    assert counts.failed == 0 or not retries
    assert are_ready(group.counts) == (counts.ready + counts.succeeded + counts.failed >= size)
    if group.outcome is not None:
        assert counts.active + counts.terminating == 0, "a group has not ended while a pod runs"
        assert group.outcome.success == (counts.succeeded == size)
    elif counts.may_run == 0:
        raise AssertionError("a group of which no pod may run has ended")


def _state_of(pod: Pod) -> str:
    deleted = "-gone" if pod.metadata.deletion_timestamp is not None else ""
    return f"{'gated' if pod.gates else pod.status.phase}{deleted}"

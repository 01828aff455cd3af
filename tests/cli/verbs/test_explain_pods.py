"""``quorate workload explain`` tells what the pods of an admitted workload wait for."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.kueue import Workload
from quorate.cli.verbs.explain.explanation import WorkloadExplanation, explanation_of
from quorate.cli.verbs.explain.pods import StartedPod, with_pods
from quorate.queueing.state import State
from tests.queueing.notation import read_configuration

TRUE = {"status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def a_workload(requested: int, admitted: int, *conditions: dict[str, Any], active: bool = True) -> Workload:
    spec = {"podSets": [{"name": "main", "count": requested, "template": {}}], "active": active}
    status = {
        "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": admitted}]},
        "conditions": [TRUE | {"type": type_} for type_ in ("QuotaReserved", "Admitted")] + list(conditions),
    }
    return codec.convert(
        Workload, {"metadata": {"name": "w", "namespace": "ns"}, "spec": spec, "status": status}
    )


def a_pod(phase: str = "Running", workload: str = "w", **fields: Any) -> StartedPod:
    metadata = {"name": "p", "namespace": "ns", "annotations": {"kueue.x-k8s.io/workload": workload}}
    status = {"phase": phase, **fields.pop("status", {})}
    return codec.convert(StartedPod, {"metadata": metadata, "spec": fields, "status": status})


RUNNING = a_pod(nodeName="n")
UNSCHEDULED = a_pod(
    "Pending",
    status={
        "conditions": [
            {
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/2 nodes are available: 2 Insufficient cpu",
            }
        ]
    },
)  # fmt: skip
GATED = a_pod("Pending", schedulingGates=[{"name": "kueue.x-k8s.io/topology"}])
PULLING = a_pod(
    "Pending",
    nodeName="n",
    status={"containerStatuses": [{"name": "m", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
)


@pytest.mark.parametrize(
    ("pods", "standing", "says"),
    [
        ([RUNNING] * 3, "runs", "it is admitted"),
        ([RUNNING, RUNNING, a_pod("Succeeded")], "runs", "it is admitted"),
        (
            [RUNNING, RUNNING, UNSCHEDULED],
            "runs in part",
            "it is admitted; 2 of 3 pods run: 1 without a node (0/2 nodes are available: 2 Insufficient cpu)",
        ),
        (
            [GATED, PULLING],
            "has quota",
            "it is admitted; 0 of 3 pods run: 1 not created yet; "
            "1 starting on a node (ImagePullBackOff); 1 with the gate kueue.x-k8s.io/topology",
        ),
        ([a_pod(workload="other")] * 3, "has quota", "it is admitted; 0 of 3 pods run: 3 not created yet"),
        ([RUNNING, RUNNING, a_pod("Failed")], "runs in part", "it is admitted; 2 of 3 pods run: 1 failed"),
    ],
)
def test_pods_that_do_not_run_are_told(pods: list[StartedPod], standing: str, says: str) -> None:
    admitted = WorkloadExplanation(workload="ns/w", standing="runs", says="it is admitted")
    found = with_pods(admitted, a_workload(3, 3), pods)
    assert (found.standing, found.says) == (standing, says)


def explained(workload: Workload) -> tuple[str, str]:
    found = explanation_of(State(read_configuration({})), {}, workload)
    return found.standing, found.says


def test_the_pods_of_a_partial_admission_are_counted() -> None:
    assert explained(a_workload(10, 7)) == ("runs", "it is admitted with 7 of 10 pods of main")
    assert explained(a_workload(10, 10)) == ("runs", "it is admitted")


def test_the_reason_of_a_deactivation_is_told() -> None:
    text = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    evicted = TRUE | {"type": "Evicted", "reason": "DeactivatedDueToRequeuingLimitExceeded", "message": text}
    workload = a_workload(1, 1, evicted, active=False)
    released = codec.convert(
        Workload,
        {
            "metadata": {"name": "w", "namespace": "ns"},
            "spec": {"active": False},
            "status": {"conditions": [evicted]},
        },
    )
    assert explained(released) == (
        "kept out",
        f"it is stopped, spec.active is false: {text} (quorate workload resume queues it again)",
    )
    assert explained(workload)[0] == "kept out"

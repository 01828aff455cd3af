"""Forceful termination of pods on unreachable nodes."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Node
from quorate.controllers.executor import Plan
from quorate.controllers.limits import RECOVERY_GRACE_S
from quorate.controllers.pods import constants
from quorate.controllers.pods.failure_recovery import recovery_plan
from quorate.kube.writes import Apply, Delete
from tests.controllers.pods.notation import NOW, a_pod, show

DELETED_AT = NOW + 30  # as the notation has it
LATE = DELETED_AT + RECOVERY_GRACE_S
MAY = {constants.FORCEFULLY: "true"}


def a_node(*taints: str) -> Node:
    spec = {"taints": [{"key": taint, "effect": "NoExecute"} for taint in taints]}
    return codec.convert(Node, {"metadata": {"name": "node-1"}, "spec": spec})


LOST = a_node("node.kubernetes.io/unreachable")


def test_a_stuck_pod_is_terminated_a_minute_after_its_grace_period() -> None:
    pod = a_pod("a", "running-gone", annotations=MAY)
    assert recovery_plan(pod, LOST, LATE - 1).wake_at == LATE
    plan = recovery_plan(pod, LOST, LATE)
    assert show(plan) == "end a KueueForcefullyDeleted; delete a; !KueueForcefullyDeleted"
    ((patch, deleted),) = plan.concurrent
    assert isinstance(patch, Apply)
    assert patch.body["status"]["phase"] == "Failed"
    assert isinstance(deleted, Delete)
    assert deleted.grace_period_s == 0


def test_a_terminated_pod_keeps_its_phase() -> None:
    ((patch, _),) = recovery_plan(a_pod("a", "succeeded-gone", annotations=MAY), LOST, LATE).concurrent
    assert isinstance(patch, Apply)
    assert "phase" not in patch.body["status"]


@pytest.mark.parametrize(
    ("state", "annotations", "node"),
    [
        pytest.param("running", MAY, LOST, id="not deleted"),
        pytest.param("running-gone", {}, LOST, id="without the annotation"),
        pytest.param("running-gone", MAY, a_node(), id="the node is reachable"),
        pytest.param(
            "running-gone", MAY, None, id="the node does not exist: the pod garbage collector deletes the pod"
        ),
    ],
)
def test_other_pods_are_not_terminated(state: str, annotations: Any, node: Node | None) -> None:
    assert recovery_plan(a_pod("a", state, annotations=annotations), node, LATE) == Plan()

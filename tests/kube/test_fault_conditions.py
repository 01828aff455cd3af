"""The condition of an object that cannot be decoded."""

import json
from typing import Any

import pytest

from quorate.api.meta import Key, Uid
from quorate.kube.fault_conditions import OF_QUEUEING, FaultCondition, conditions_with_fault
from quorate.kube.limits import MAX_FAULT_MESSAGE
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS

NOW = "2026-01-02T03:04:05Z"
BEFORE = "2025-01-01T00:00:00Z"
ACTIVE, RESERVED = OF_QUEUEING[CLUSTER_QUEUES], OF_QUEUEING[WORKLOADS]


def a_condition(type_: str, status: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": type_, "status": status, "reason": "Unreadable",
        "message": "left out of all decisions: it is odd", "lastTransitionTime": BEFORE, **fields,
    }  # fmt: skip


def conditions(raw: Any, wanted: FaultCondition = ACTIVE, problem: str = "it is odd") -> Any:
    text = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    fault = ObjectFault(CLUSTER_QUEUES, Key("", "a"), Uid("1"), "7", "decode", problem, raw=text)
    return conditions_with_fault(fault, wanted, NOW)


NEW = a_condition("Active", "False", lastTransitionTime=NOW)
OTHER = {"type": "Other", "anything": 7}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, [NEW], id="no conditions"),
        pytest.param(None, [NEW], id="no status"),
        pytest.param({"conditions": None}, [NEW], id="null"),
        pytest.param({"conditions": [OTHER]}, [OTHER, NEW], id="another condition is kept"),
        pytest.param(
            {"conditions": [a_condition("Active", "True", message=""), OTHER]}, [NEW, OTHER],
            id="it was active",
        ),
        pytest.param(
            {"conditions": [a_condition("Active", "False", reason="Stopped")]},
            [a_condition("Active", "False")],
            id="it was inactive: the time of the transition stays",
        ),
        pytest.param({"conditions": [a_condition("Active", "False")]}, None, id="written before"),
        pytest.param({"conditions": [{"status": "True"}]}, None, id="a condition without type"),
        pytest.param({"conditions": {"a": 1}}, None, id="no list"),
        pytest.param({"conditions": ["x"]}, None, id="no objects"),
        pytest.param([], [NEW], id="an empty list as status"),
        pytest.param("x", None, id="a text as status"),
    ],
)  # fmt: skip
def test_the_condition_replaces_that_of_its_type(status: Any, want: Any) -> None:
    assert conditions({"status": status}) == want


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"7", b"null", b"\xff"])
def test_what_is_no_object_gets_no_condition(raw: bytes) -> None:
    assert conditions(raw) is None


def test_a_workload_with_quota_keeps_its_condition() -> None:
    reserved = a_condition("QuotaReserved", "True")
    unreadable = a_condition("quorate.dev/Unreadable", "True", lastTransitionTime=NOW)
    assert conditions({"status": {"conditions": [reserved]}}, RESERVED) == [reserved, unreadable]
    assert conditions({"status": {"conditions": [reserved, unreadable]}}, RESERVED) is None
    pending = [a_condition("QuotaReserved", "False", message="waits")]
    assert conditions({"status": {"conditions": pending}}, RESERVED) == [
        a_condition("QuotaReserved", "False")
    ]


def test_a_long_problem_is_cut() -> None:
    (condition,) = conditions({}, problem="x" * 100_000)
    assert len(condition["message"]) == MAX_FAULT_MESSAGE

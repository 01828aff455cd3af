"""Merge patches are the difference of two values, as RFC 7396 defines their application."""

from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.kueue import Admission, EvictionCount, RequeueState, SchedulingStats, WorkloadStatus
from quorate.api.meta import Condition, ObjectMeta
from quorate.kube.patches import (
    document_merge_patch,
    json_patch,
    merge_patch,
    merged,
    status_merge_patch,
    whole_patch,
)

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 2}}, {}, id="nothing changed"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"b": None}, id="a field removed"),
        pytest.param(
            {"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}, id="only the difference"
        ),
        pytest.param({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}, id="emptied"),
        pytest.param({}, {"a": {}}, {"a": {}}, id="an empty object appears"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, {"a": [1]}, id="lists are replaced"),
        pytest.param({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="a different type"),
        pytest.param({"a": 1}, {"a": True}, {"a": True}, id="true is not 1"),
        pytest.param({"a": [1]}, {"a": [1.0]}, {"a": [1.0]}, id="1.0 is not 1, within a list"),
        pytest.param({"a": None}, {}, {}, id="null counts as absent"),
    ],
)
def test_a_merge_patch_is_the_difference(old: Json, new: Json, patch: Json) -> None:
    got = merge_patch(old, new)
    assert codec.encode(got) == codec.encode(patch)  # as JSON, because True == 1


def apply(target: Any, patch: Any) -> Any:
    """Apply a merge patch with the algorithm of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = apply(target.get(name), value)
    return target


scalars = st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x", 1.0, 0.5])
names = st.sampled_from("abc")
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(names, values, max_size=3)


@given(old=objects, new=objects)
def test_the_patch_applied_to_old_gives_new(old: Json, new: Json) -> None:
    patched = apply(old, merge_patch(old, new))
    assert merge_patch(patched, new) == {}
    assert patched == new


@given(old=objects, new=objects)
def test_merged_applies_a_patch_as_the_server_does(old: Json, new: Json) -> None:
    patch = merge_patch(old, new)
    assert merged(old, patch) == apply(old, patch)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(WorkloadStatus(conditions=(Condition(type="A", status="True"),)), id="a condition"),
        pytest.param(WorkloadStatus(requeue_state=RequeueState(count=2**40)), id="a count beyond its range"),
        pytest.param(
            WorkloadStatus(scheduling_stats=SchedulingStats(evictions=(EvictionCount(reason="A"),))),
            id="a count of 0",
        ),
        pytest.param(WorkloadStatus(), id="nothing"),
    ],
)
def test_a_whole_patch_is_the_difference_from_nothing(status: WorkloadStatus) -> None:
    assert codec.encode(whole_patch(status)) == codec.encode(merge_patch({}, status))


def test_shared_parts_are_not_compared() -> None:
    """Otherwise the time for the patch of one field grows with the object."""

    class Incomparable(dict[str, Any]):
        def items(self) -> NoReturn:
            raise AssertionError("compared")

    shared = Incomparable(name="main")
    old, new = ({"containers": shared, "suspend": suspend} for suspend in (False, True))
    assert document_merge_patch(old, new) == {"suspend": True}
    assert [step.path for step in json_patch(old, new)] == ["/suspend"]


def test_a_status_patch_carries_the_version_it_was_decided_on() -> None:
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    reserved = Condition(type="QuotaReserved", status="True", message="yes", last_transition_time=since)
    old = WorkloadStatus(requeue_state=RequeueState(count=1), admission=None)
    new = WorkloadStatus(conditions=(reserved,), admission=Admission(cluster_queue="research"))
    metadata = ObjectMeta(name="a", resource_version="12")
    assert status_merge_patch(metadata, old, new) == {
        "metadata": {"resourceVersion": "12"},
        "status": {
            "requeueState": None,
            "admission": {"clusterQueue": "research"},
            "conditions": [
                {
                    "type": "QuotaReserved",
                    "status": "True",
                    "message": "yes",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }
            ],
        },
    }
    assert status_merge_patch(metadata, new, new) == {}

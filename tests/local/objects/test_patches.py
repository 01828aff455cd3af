"""JSON, merge and strategic merge patches, by the recorded behavior of a real API server."""

from typing import Any

import pytest

from quorate.local.objects import schema_types
from quorate.local.objects.errors import StatusError
from quorate.local.objects.patch.json_patches import json_patch, merge_patch
from quorate.local.objects.patch.strategic_merge import strategic_merge


def kind_of(api_version: str, name: str) -> schema_types.MapOf:
    found = schema_types.builtin_type(api_version, name)
    assert found is not None
    return found


POD = kind_of("v1", "Pod")


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param({"k": None, "m": "x"}, {"l": "w", "m": "x"}, id="null removes, other values merge"),
        pytest.param(
            {"l": {"a": None, "b": 1}},
            {"k": "v", "l": {"b": 1}},
            id="an object replaces a scalar, without nulls",
        ),
        pytest.param({"l": [1, None]}, {"k": "v", "l": [1, None]}, id="a list replaces"),
        pytest.param({"absent": None}, {"k": "v", "l": "w"}, id="removing an absent field"),
    ],
)
def test_merge_patch(patch: Any, want: Any) -> None:
    assert merge_patch({"k": "v", "l": "w"}, patch) == want


@pytest.mark.parametrize(
    ("operations", "want"),
    [
        pytest.param(
            [{"op": "add", "path": "/data/m", "value": 1}, {"op": "remove", "path": "/data/k"}],
            {"data": {"m": 1}},
            id="operations run in order",
        ),
        pytest.param(
            [
                {"op": "test", "path": "/data/k", "value": "v"},
                {"op": "move", "from": "/data/k", "path": "/data/o"},
            ],
            {"data": {"o": "v"}},
            id="a test that holds changes nothing",
        ),
        pytest.param(
            [{"op": "replace", "path": "/data/absent", "value": "x"}],
            {"data": {"k": "v", "absent": "x"}},
            id="replace adds an absent field",
        ),
        pytest.param(
            [{"op": "add", "path": "/data/example.com~1y", "value": "s"}],
            {"data": {"k": "v", "example.com/y": "s"}},
            id="a slash in a key is escaped",
        ),
        pytest.param(
            [{"op": "copy", "from": "/data/absent", "path": "/data/x"}],
            {"data": {"k": "v", "x": None}},
            id="an absent value is copied as null",
        ),
        pytest.param(
            [{"op": "test", "path": "/data/absent"}], {"data": {"k": "v"}}, id="an absent value is null"
        ),
        pytest.param(
            [{"op": "add", "path": "/data/x"}, {"op": "replace", "path": "/data/k"}],
            {"data": {"k": None, "x": None}},
            id="a value that is not given is null",
        ),
        pytest.param(
            [{"op": "add", "path": "/l", "value": [1, 2]}, {"op": "remove", "path": "/l/-1"}],
            {"data": {"k": "v"}, "l": [1]},
            id="a negative index counts from the end",
        ),
    ],
)
def test_json_patch(operations: Any, want: Any) -> None:
    assert json_patch({"data": {"k": "v"}}, operations) == want


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        pytest.param([{"op": "test", "path": "/data/k", "value": "wrong"}], 422, id="a test that fails"),
        pytest.param([{"op": "remove", "path": "/data/absent"}], 422, id="removing an absent value"),
        pytest.param([{"op": "add", "path": "/spec/deep/er", "value": 1}], 422, id="an absent parent"),
        pytest.param([{"op": "explode", "path": "/data/k"}], 422, id="an unknown operation"),
        pytest.param([{"op": "replace", "value": 1}], 422, id="an operation without a path"),
        pytest.param({"op": "add", "path": "/data/k", "value": "x"}, 400, id="not a list"),
        pytest.param(["add"], 400, id="not an operation"),
        pytest.param([{"op": "add", "path": "/a", "value": 1}] * 10_001, 413, id="too many operations"),
    ],
)
def test_json_patch_rejects(patch: Any, code: int) -> None:
    with pytest.raises(StatusError) as refusal:
        json_patch({"data": {"k": "v"}}, patch)
    assert refusal.value.code == code


def names(pod: Any) -> str:
    """Return the containers of a pod in order: `x=i:1 y=j:1`."""
    return " ".join(f"{c['name']}={c.get('image', '')}" for c in pod["spec"].get("containers", []))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(
            {"containers": [{"name": "y", "image": "j:2"}]}, "x=i:1 y=j:2", id="items merge by name"
        ),
        pytest.param(
            {"containers": [{"name": "z", "image": "k"}]}, "z=k x=i:1 y=j:1", id="new items come first"
        ),
        pytest.param(
            {"containers": [{"name": "x", "$patch": "delete"}]}, "y=j:1", id="an item can be deleted"
        ),
        pytest.param(
            {"containers": [{"$patch": "replace"}, {"name": "z", "image": "k"}]},
            "z=k",
            id="a list can be replaced",
        ),
        pytest.param(
            {"$setElementOrder/containers": [{"name": "y"}, {"name": "x"}]},
            "y=j:1 x=i:1",
            id="order alone",
        ),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "x"}, {"name": "z"}, {"name": "y"}],
                "containers": [{"name": "z", "image": "k"}],
            },
            "x=i:1 z=k y=j:1",
            id="a new item is placed by the order",
        ),
        pytest.param({"containers": None}, "", id="null removes the list"),
    ],
)
def test_strategic_merge_of_containers(spec: Any, want: str) -> None:
    pod = {"spec": {"containers": [{"name": "x", "image": "i:1"}, {"name": "y", "image": "j:1"}]}}
    assert names(strategic_merge(pod, {"spec": spec}, POD)) == want


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param(
            {"finalizers": ["b"]}, {"labels": {"a": "1"}, "finalizers": ["b", "a"]}, id="values are added"
        ),
        pytest.param(
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"labels": {"a": "1"}, "finalizers": []},
            id="values are deleted by a directive",
        ),
        pytest.param(
            {"labels": {"$patch": "replace", "c": "d"}},
            {"labels": {"c": "d"}, "finalizers": ["a"]},
            id="map replaced",
        ),
        pytest.param({"labels": {"$patch": "delete"}}, {"finalizers": ["a"]}, id="map deleted"),
        pytest.param(
            {"$retainKeys": ["labels"], "labels": {"b": "2"}},
            {"labels": {"a": "1", "b": "2"}},
            id="retainKeys",
        ),
    ],
)
def test_strategic_merge_of_metadata(patch: Any, want: Any) -> None:
    pod = {"metadata": {"labels": {"a": "1"}, "finalizers": ["a"]}}
    assert strategic_merge(pod, {"metadata": patch}, POD) == {"metadata": want}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"metadata": {"$patch": "bogus"}}, "unknown patch type: bogus in map: map[$patch:bogus]"),
        (
            {"spec": {"containers": [{"image": "noname"}]}},
            "map: map[image:noname] does not contain declared merge key: name",
        ),
    ],
)
def test_strategic_merge_refuses_malformed_directives(patch: Any, message: str) -> None:
    with pytest.raises(StatusError, match=r"^") as refusal:
        strategic_merge({"metadata": {}, "spec": {"containers": [{"name": "x"}]}}, patch, POD)
    assert (refusal.value.code, refusal.value.message) == (500, message)


def test_lists_that_do_not_merge_are_replaced() -> None:
    kind = kind_of("v1", "LimitRange")
    old = {"spec": {"limits": [{"type": "Pod"}]}}
    assert strategic_merge(old, {"spec": {"limits": [{"type": "Container"}]}}, kind) == {
        "spec": {"limits": [{"type": "Container"}]}
    }

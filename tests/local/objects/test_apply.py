"""Server-side apply and field ownership, by the recorded behavior of a real API server."""

from typing import Any

import pytest

from quorate.api.codec import Json
from quorate.local.objects import schema_types
from quorate.local.objects.errors import StatusError
from quorate.local.objects.patch import field_set, managed_fields
from quorate.local.objects.patch.apply import Application, apply
from quorate.local.objects.patch.managed_fields import applier, track_update, updater
from quorate.local.objects.schema_types import MapOf
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.object_encoding import empty_object


def kind_of(api_version: str, name: str) -> MapOf:
    found = schema_types.builtin_type(api_version, name)
    assert found is not None
    return found


CONFIG_MAP, POD = kind_of("v1", "ConfigMap"), kind_of("v1", "Pod")
POD_KIND = Kind("", "v1", "Pod", "pods", True)
IDENTITY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


class Scenario:
    """One config map and the clients that write it; time is a counter."""

    def __init__(self) -> None:
        self.live: Json = IDENTITY
        self.ticks = 0

    def now(self) -> str:
        self.ticks += 1
        return f"t{self.ticks:02}"

    def apply(
        self, name: str, data: Json | None = None, labels: Json | None = None, force: bool = False
    ) -> None:
        config = {**IDENTITY, "metadata": {"name": "a"}}
        if labels is not None:
            config["metadata"] = {"name": "a", "labels": labels}
        if data is not None:
            config["data"] = data
        self.live = apply(self.live, Application(applier(name), "v1", config, force), CONFIG_MAP, self.now())

    def update(self, name: str, data: Json) -> None:
        new = {**self.live, "data": data}
        entries = track_update(self.live, new, CONFIG_MAP, updater(name, "v1"), self.now())
        self.live = {**new, "metadata": {**new["metadata"], "managedFields": entries}}

    def owners(self) -> str:
        """Return `b=k,m@t04` for each manager: the data keys it owns, and its last change."""
        shown = []
        for manager, ownership in managed_fields.decode_managers(
            self.live["metadata"]["managedFields"]
        ).items():
            keys = ",".join(sorted(path[-1][2:] for path in ownership.fields))
            shown.append(f"{manager.name}={keys}@{ownership.time or 'never'}")
        return " ".join(shown)


def test_omitted_fields_without_other_owners_are_removed() -> None:
    story = Scenario()
    story.apply("a", {"k": "v", "l": "w"}, labels={"x": "y"})
    assert story.owners() == "a=k,l,x@t01"
    story.apply("a", {"k": "v", "l": "w"}, labels={"x": "y"})
    assert story.owners() == "a=k,l,x@t01"  # nothing changed, including the time
    story.apply("a", {"k": "v2"})
    assert story.live["data"] == {"k": "v2"}
    assert story.live["metadata"].keys() == {"name", "managedFields"}
    assert story.owners() == "a=k@t03"


def test_a_shared_value_stays_until_both_managers_omit_it() -> None:
    story = Scenario()
    story.apply("a", {"k": "v"})
    story.apply("b", {"k": "v", "m": "1"})
    assert story.owners() == "a=k@t01 b=k,m@t02"
    story.apply("a", {})
    assert story.live["data"] == {"k": "v", "m": "1"}
    story.apply("b", {"m": "1"})
    assert story.live["data"] == {"m": "1"}


def test_another_managers_value_is_a_conflict_unless_forced() -> None:
    story = Scenario()
    story.apply("a", {"k": "v"})
    with pytest.raises(StatusError) as refusal:
        story.apply("b", {"k": "theirs"})
    assert refusal.value.code == 409
    assert refusal.value.message == 'Apply failed with 1 conflict: conflict with "a": .data.k'
    assert refusal.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "field": ".data.k", "message": 'conflict with "a"'}]
    }
    story.apply("b", {"k": "theirs"}, force=True)
    assert story.owners() == "b=k@t03"


def test_all_conflicting_managers_are_listed() -> None:
    story = Scenario()
    story.update("u", {"k": "v"})
    story.apply("a", {"l": "w"})
    with pytest.raises(StatusError) as refusal:
        story.apply("b", {"k": "x", "l": "x"})
    assert refusal.value.message == (
        'Apply failed with 2 conflicts: conflicts with "a":\n- .data.l\n'
        'conflicts with "u" using v1:\n- .data.k'
    )


def test_sharing_a_value_sets_no_time() -> None:
    story = Scenario()
    story.apply("b", {"k": "v"})
    story.apply("a", {"k": "v"})
    assert story.owners() == "a=k@never b=k@t01"


def test_an_update_owns_changed_fields_and_drops_removed_ones() -> None:
    story = Scenario()
    story.live = {**IDENTITY, "data": {}}
    story.update("one", {"k": "v"})
    story.update("two", {"k": "v", "m": "x"})
    assert story.owners() == "one=k@t01 two=m@t02"
    story.update("two", {"k": "y", "m": "x"})
    assert story.owners() == "two=k,m@t03"
    story.update("three", {"k": "y"})
    assert story.owners() == "two=k@t03"


def test_clearing_managed_fields_removes_all_owners() -> None:
    story = Scenario()
    story.apply("a", {"k": "v"})
    new = {**story.live, "metadata": {"name": "a", "managedFields": [{}]}}
    assert track_update(story.live, new, CONFIG_MAP, updater("b", "v1"), "t9") == []


def test_more_than_ten_update_managers_are_merged() -> None:
    story = Scenario()
    data: Json = {}
    for number in range(11):
        data = {**data, f"k{number:02}": "v"}
        story.update(f"m{number:02}", data)
    names = [entry["manager"] for entry in story.live["metadata"]["managedFields"]]
    assert names == ["ancient-changes", *(f"m{number:02}" for number in range(2, 11))]


def a_pod(*conditions: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "status": {"conditions": list(conditions)},
    }


def test_conditions_are_owned_one_by_one() -> None:
    a, b = {"type": "A", "status": "True"}, {"type": "B", "status": "False"}
    live = apply(a_pod(), Application(applier("a", "status"), "v1", a_pod(a)), POD, "t1")
    live = apply(live, Application(applier("b", "status"), "v1", a_pod(b)), POD, "t2")
    assert live["status"]["conditions"] == [a, b]
    assert live["metadata"]["managedFields"][0]["fieldsV1"] == {
        "f:status": {"f:conditions": {'k:{"type":"A"}': {".": {}, "f:status": {}, "f:type": {}}}}
    }
    with pytest.raises(StatusError) as refusal:
        apply(live, Application(applier("b", "status"), "v1", a_pod({**a, "status": "False"})), POD, "t3")
    assert refusal.value.message.endswith(
        'conflict with "a" with subresource "status": .status.conditions[type="A"].status'
    )
    live = apply(live, Application(applier("a", "status"), "v1", a_pod()), POD, "t4")
    assert live["status"]["conditions"] == [b]
    assert [entry["manager"] for entry in live["metadata"]["managedFields"]] == ["b"]


def test_fields_outside_a_subresource_are_neither_merged_nor_owned() -> None:
    application = Application(applier("a"), "v1", a_pod({"type": "A"}), ignored=(("f:status",),))
    live = apply(a_pod(), application, POD, "t1")
    assert live["status"] == {"conditions": []}
    assert "managedFields" not in live["metadata"]


@pytest.mark.parametrize(
    ("config", "want"),
    [
        pytest.param(
            {"data": {"k": 5}}, ".data.k: expected string, got &value.valueUnstructured{Value:5}", id="type"
        ),
        pytest.param({"bogus": 1}, ".bogus: field not declared in schema", id="unknown field"),
        pytest.param(
            {"data": []}, ".data: expected map, got &value.valueUnstructured{Value:[]}", id="not a map"
        ),
    ],
)
def test_a_configuration_must_match_the_schema(config: Json, want: str) -> None:
    with pytest.raises(StatusError) as refusal:
        apply(IDENTITY, Application(applier("a"), "v1", {**IDENTITY, **config}), CONFIG_MAP, "t1")
    prefix = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
    assert (refusal.value.code, refusal.value.message) == (500, prefix + want)


def test_a_creator_owns_only_fields_beyond_the_empty_object() -> None:
    new = {**a_pod(), "spec": {"containers": [{"name": "c", "image": "i"}]}}
    entries = track_update(empty_object(POD_KIND), new, POD, updater("u", "v1"), "t1")
    item: Json = {".": {}, "f:image": {}, "f:name": {}}
    assert entries[0]["fieldsV1"] == {
        "f:spec": {"f:containers": {'k:{"name":"c"}': item}},
        "f:status": {"f:conditions": {}},
    }


@pytest.mark.parametrize(
    "spelled",
    [
        {"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {}}},
        {"f:spec": {"f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:name": {}}}}},
        {"f:metadata": {"f:finalizers": {".": {}, 'v:"a"': {}}}},
        {},
    ],
)
def test_a_round_trip_of_fields_v1_is_the_identity(spelled: Any) -> None:
    assert field_set.encode_fields_v1(field_set.decode_fields_v1(spelled)) == spelled

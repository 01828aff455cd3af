"""Decoding of built-in kinds: unknown fields, normal forms, rejected values."""

import re

import pytest

from quorate.api.codec import Json
from quorate.local.objects import schema_types
from quorate.local.objects.decoding import UndecodableObject, decode_object


def as_kind(name: str, obj: Json) -> tuple[Json, list[str]]:
    kind = schema_types.builtin_type("v1", name)
    assert kind is not None
    return decode_object(obj, kind)


def test_unknown_fields_are_dropped_and_reported() -> None:
    container = {"name": "c", "imge": "i", "resources": {"limts": {"cpu": "1"}}}
    pod = {"metadata": {"name": "a", "x": 1}, "spec": {"containers": [container]}, "bogus": None}
    assert as_kind("Pod", pod) == (
        {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "resources": {}}]}},
        ["metadata.x", "spec.containers[0].imge", "spec.containers[0].resources.limts", "bogus"],
    )


@pytest.mark.parametrize(
    ("kind", "obj", "want"),
    [
        ("ConfigMap", {"data": None, "metadata": {"labels": None}}, {"metadata": {}}),
        (
            "LimitRange",
            {"spec": {"limits": [{"max": {"memory": "1024Mi", "cpu": 2}}]}},
            {"spec": {"limits": [{"max": {"memory": "1Gi", "cpu": "2"}}]}},
        ),
        (
            "Event",
            {"lastTimestamp": "2024-01-01T02:00:00.5+02:00"},
            {"lastTimestamp": "2024-01-01T00:00:00Z"},
        ),
        (
            "Event",
            {"eventTime": "2024-01-01T02:00:00.000000+02:00"},
            {"eventTime": "2024-01-01T00:00:00.000000Z"},
        ),
        ("Event", {"lastTimestamp": "0001-01-01T00:00:00Z"}, {"lastTimestamp": "0001-01-01T00:00:00Z"}),
        (
            "Service",
            {"spec": {"ports": [{"targetPort": "http"}, {"targetPort": 80}]}},
            {"spec": {"ports": [{"targetPort": "http"}, {"targetPort": 80}]}},
        ),
    ],
)
def test_values_are_normalized(kind: str, obj: Json, want: Json) -> None:
    assert as_kind(kind, obj) == (want, [])


@pytest.mark.parametrize(
    ("kind", "obj", "want"),
    [
        (
            "ConfigMap",
            {"data": {"k": 5}},
            "cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "ConfigMap",
            {"data": 7},
            "cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "Pod",
            {"spec": {"containers": "x"}},
            "cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            {"spec": {"priority": "high"}},
            "string into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            "Pod",
            {"spec": {"hostNetwork": 1}},
            "number into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        ("Pod", {"spec": {"priority": True}}, "cannot unmarshal bool"),
        ("Pod", {"spec": {"priority": 1.5}}, "number 1.5 into Go struct field PodSpec.spec.priority"),
        (
            "Pod",
            {"spec": {"containers": [{"ports": [{"containerPort": "x"}]}]}},
            "Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        ("Pod", {"metadata": {"labels": {"a.b/c": 1}}}, "field ObjectMeta.metadata.labels of type string"),
        ("LimitRange", {"spec": {"limits": [{"max": {"cpu": "one"}}]}}, "quantities must match"),
        ("Secret", {"data": {"p": "%%%"}}, "illegal base64 data"),
        ("ConfigMap", {"binaryData": {"p": "\u00e9"}}, "illegal base64 data"),
        ("Event", {"lastTimestamp": "yesterday"}, "cannot parse"),
        ("Event", {"lastTimestamp": "0001-01-01T00:00:00+23:59"}, "year outside of 1 to 9999"),
    ],
)
def test_values_of_the_wrong_type_are_rejected(kind: str, obj: Json, want: str) -> None:
    with pytest.raises(UndecodableObject, match=re.escape(want)):
        as_kind(kind, obj)

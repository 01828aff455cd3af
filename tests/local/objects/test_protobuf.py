"""Kubernetes' protobuf format: literal bytes, and bodies of a kube-apiserver."""

import base64

import pytest

from quorate.api.codec import Json
from quorate.local.objects.protobuf.envelope import Unwritable, open_envelope, write_body, write_watch_event
from quorate.local.objects.protobuf.table import Malformed
from tests.local.objects.protobuf_bodies import ANSWERS, body, message, without_kind


def read(data: bytes) -> Json:
    return open_envelope(data).read()


def moment(seconds: int, nanos: int = 0) -> bytes:
    return message((1, seconds), (2, nanos))


EMPTY_NODE_STATUS: Json = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(
        (
            "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion",
            "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",
        ),
        "",
    ),
}  # fmt: skip
META = message((1, "a"), (11, message((1, "app"), (2, "x"))), (8, message()))
CREATED = message((1, "a"), (8, message((1, 1_704_067_200))))


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(
            body("v1", "ConfigMap", message((1, META), (2, message((1, "k"), (2, "v"))), (4, 1))),
            {"metadata": {"name": "a", "labels": {"app": "x"}}, "data": {"k": "v"}, "immutable": True},
            id="maps, booleans, an absent time",
        ),
        pytest.param(
            body("v1", "Secret", message((1, CREATED), (2, message((1, "p"), (2, b"\xff"))))),
            {"metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}, "data": {"p": "/w=="}},
            id="bytes and times",
        ),
        pytest.param(
            body("v1", "Node", message((3, message((1, message((1, "pods"), (2, message((1, "5"))))))))),
            {"metadata": {}, "spec": {}} | {"status": {"capacity": {"pods": "5"}} | EMPTY_NODE_STATUS},
            id="quantities, and structs that are never left out",
        ),
        pytest.param(
            body(
                "v1",
                "Service",
                message((2, message((1, message((3, 80), (4, message((2, 8080))))), (1, message((3, 81)))))),
            ),
            {"metadata": {}, "status": {"loadBalancer": {}}}
            | {"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": 0}]}},
            id="lists of messages, and an integer or a string",
        ),
        pytest.param(
            body("scheduling.k8s.io/v1", "PriorityClass", message((2, -5))),
            {"metadata": {}, "value": -5},
            id="negative numbers",
        ),
        pytest.param(
            body("v1", "Pod", message((2, message((11, 0), (25, 0), (19, ""))))),
            {"metadata": {}, "spec": {"containers": None, "priority": 0}, "status": {}},
            id="a pointer to zero is set, other zeros are not",
        ),
        pytest.param(
            body("coordination.k8s.io/v1", "Lease", message((2, message((3, moment(5, 1_999)))))),
            {"metadata": {}, "spec": {"acquireTime": "1970-01-01T00:00:05.000001Z"}},
            id="a time with a fraction has whole microseconds",
        ),
        pytest.param(
            body("coordination.k8s.io/v1", "Lease", message((2, message((3, moment(5, -1_999)))))),
            {"metadata": {}, "spec": {"acquireTime": "1970-01-01T00:00:04.999999Z"}},
            id="before the second too",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, message((8, moment(5, 2**40 + 7)))))),
            {"metadata": {"creationTimestamp": "1970-01-01T00:00:05Z"}},
            id="other times have none",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, message((8, moment(-62_135_596_800)))))),
            {"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}},
            id="the first second of the year 1",
        ),
        pytest.param(
            body("scheduling.k8s.io/v1", "PriorityClass", b"\x10" + b"\xff" * 9 + b"\x7f"),
            {"metadata": {}, "value": -1},
            id="the lower 64 bits of a number",
        ),
        pytest.param(
            body("v1", "Pod", message((2, message((14, b"\x22\x02\x01\x02"))))),
            {"metadata": {}, "status": {}}
            | {"spec": {"containers": None, "securityContext": {"supplementalGroups": [1, 2]}}},
            id="a packed list of numbers",
        ),
    ],
)
def test_read(data: bytes, want: Json) -> None:
    got = read(data)
    assert {name: part for name, part in got.items() if name not in ("apiVersion", "kind")} == want


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"{}", "expected prefix [107 56 115 0]", id="wrong magic bytes"),
        pytest.param(body("v1", "Nonsense", b""), "has no protobuf format", id="an unknown kind"),
        pytest.param(
            body("v1", "ConfigMap", b"\x0a\x05ab"),
            "metadata: a field is longer than its message",
            id="truncated in a field",
        ),
        pytest.param(body("v1", "ConfigMap", b"\x80"), "the body is cut off", id="truncated in a number"),
        pytest.param(
            body("v1", "ConfigMap", message((1, b"\x38\xff"), (2, b""))),
            "metadata: a number is longer than its message",
            id="a number that goes on after its message",
        ),
        pytest.param(
            body("v1", "ConfigMap", b"\x0d\x00\x00\x00\x00"),
            "field 1 of core.ConfigMap has the wrong wire type 5",
            id="an unused wire type",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, 5))),
            "field 1 of core.ConfigMap has the wrong wire type 0",
            id="a number for a message",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((99, "new"))), "core.ConfigMap has no field 99", id="a new field"
        ),
        pytest.param(
            body("v1", "Pod", message((2, message((2, message((10, message((77, "x"))))))))),
            "spec.containers.livenessProbe: core.Probe has no field 77",
            id="a new field in a part",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((2, message((3, "x"))))),
            "data: an entry of a map has no field 3 of wire type 2",
            id="a new field in an entry",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, META), (1, META))),
            "metadata: the field occurs twice",
            id="twice",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((2, message((1, b"\xff"))))),
            "data: 'utf-8' codec can't decode",
            id="not UTF-8",
        ),
        pytest.param(
            body("apps/v1", "ControllerRevision", message((2, message((1, "{"))))),
            "data.raw: Input data was truncated",
            id="not JSON",
        ),
        *(
            pytest.param(
                body("v1", "ConfigMap", message((1, message((8, moment(seconds)))))),
                "metadata.creationTimestamp: a time that is not in the years 1 to 9999",
                id=f"{seconds} s",
            )
            for seconds in (2**63 - 1, -(2**63), 253_402_300_800, -62_135_596_801)
        ),
    ],
)
def test_an_invalid_message_is_rejected(data: bytes, problem: str) -> None:
    with pytest.raises(Malformed) as error:
        read(data)
    assert problem in str(error.value)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer['method']} {answer['path']}")
def test_bodies_are_those_of_a_kube_apiserver(answer: Json) -> None:
    want, data = answer["json"], base64.b64decode(answer["protobuf"])
    if answer["method"] == "WATCH":
        frames = (write_watch_event(event["type"], write_body(event["object"])) for event in want)
        assert b"".join(frames) == data
        return
    assert write_body(want) == data
    assert read(data) == want | _without_kinds(want)


def _without_kinds(obj: Json) -> Json:
    """Return the fields in which the format loses something: an empty list, and kinds inside of a message."""
    lost: Json = {}
    if "items" in obj:
        lost["items"] = [without_kind(item) for item in obj["items"] or ()] or None
    if obj["kind"] == "StatefulSet":
        templates = [without_kind(template) for template in obj["spec"]["volumeClaimTemplates"]]
        lost["spec"] = obj["spec"] | {"volumeClaimTemplates": templates}
    return lost


def test_a_field_without_a_number_is_an_error_that_names_it() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "imagee": "x"}]}}
    with pytest.raises(Unwritable, match=r"core\.Container has no field imagee"):
        write_body(pod)

"""Requests and responses in Kubernetes' protobuf format, as Go clients send and accept them."""

import asyncio
import json
from copy import deepcopy
from typing import Any

import pytest

from quorate.api.codec import Json
from quorate.local.objects.protobuf.envelope import open_envelope, write_body
from quorate.local.objects.protobuf.reader import read_message
from quorate.local.objects.protobuf.table import find_message, message_named
from quorate.local.server.registry.builtin import KINDS
from tests.local.api_client import ApiClient, run_with_server
from tests.local.objects import protobuf_bodies as bodies

pytestmark = pytest.mark.slow

PROTOBUF = "application/vnd.kubernetes.protobuf"
WATCH = f"{PROTOBUF};stream=watch"
JSON = "application/json"
TABLE = "as=Table;v=v1;g=meta.k8s.io"
METADATA = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/x.example.com/v1/namespaces/default/things"
UNKNOWN_FIELD = bodies.body("v1", "ConfigMap", bodies.message((1, bodies.message((1, "a"), (99, 5)))))


def recorded(path: str) -> Json:
    """Return an object of the recorded answers as a client creates it."""
    (obj,) = (deepcopy(answer["json"]) for answer in bodies.ANSWERS if answer["path"] == path)
    for name in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers"):
        obj["metadata"].pop(name, None)
    return {name: part for name, part in obj.items() if name != "status"}


async def post(client: ApiClient, path: str, obj: Json) -> tuple[int, str, Json]:
    """Create an object in protobuf; return status, media type and object of the response."""
    code, media_type, data = await client.send_bytes(
        "POST", path, write_body(obj), Content_Type=PROTOBUF, Accept=f"{PROTOBUF},{JSON}"
    )
    return code, media_type, open_envelope(data).read()


@pytest.mark.parametrize(
    "path",
    [
        "apis/apps/v1/namespaces/default/deployments/d",
        "apis/policy/v1/namespaces/default/poddisruptionbudgets/pdb",
        "apis/storage.k8s.io/v1/storageclasses/sc",
        "apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.x.example.com",
        "apis/coordination.k8s.io/v1/namespaces/default/leases/l",
    ],
)
def test_an_object_that_a_client_creates_keeps_all_fields(path: str) -> None:
    async def scenario(client: ApiClient) -> None:
        wanted = recorded(path)
        collection = f"/{path.rpartition('/')[0]}"
        code, media_type, created = await post(client, collection, wanted)
        assert (code, media_type) == (201, PROTOBUF), created
        _, got = await client.send("GET", f"/{path}")
        assert {name: got[name] for name in wanted if name != "metadata"} == {
            name: part for name, part in wanted.items() if name != "metadata"
        }
        assert created["metadata"]["uid"] == got["metadata"]["uid"]

    run_with_server(scenario)


def test_a_pod_with_many_fields_is_the_same_in_both_formats() -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "high"}, "value": -5, "preemptionPolicy": "Never"},
        )
        pod = recorded("api/v1/namespaces/default/pods/p")
        code, _, created = await post(client, PODS, pod)
        assert code == 201, created
        _, got = await client.send("GET", f"{PODS}/p")
        for name in ("affinity", "topologySpreadConstraints", "schedulingGates", "securityContext"):
            assert got["spec"][name] == pod["spec"][name]
        assert got["spec"]["containers"] == pod["spec"]["containers"]
        _, _, data = await client.send_bytes("GET", f"{PODS}/p", Accept=PROTOBUF)
        assert open_envelope(data).read() == got

    run_with_server(scenario)


def test_a_job_keeps_its_policies() -> None:
    async def scenario(client: ApiClient) -> None:
        job = recorded("apis/batch/v1/namespaces/default/jobs/j")
        code, _, created = await post(client, "/apis/batch/v1/namespaces/default/jobs", job)
        assert code == 201, created
        for name in ("podFailurePolicy", "successPolicy", "maxFailedIndexes", "podReplacementPolicy"):
            assert created["spec"][name] == job["spec"][name]

    run_with_server(scenario)


def test_deletion_options_are_read() -> None:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}

    async def scenario(client: ApiClient) -> None:
        for name in ("a", "b"):
            await client.create(CONFIG_MAPS, {"metadata": {"name": name}})
        code, _, data = await client.send_bytes(
            "DELETE", f"{CONFIG_MAPS}/a", write_body(options), Content_Type=PROTOBUF, Accept=JSON
        )
        assert code == 200, data
        assert json.loads(data)["metadata"]["finalizers"] == ["foregroundDeletion"]
        wrong_uid = options | {"apiVersion": "apps/v1", "preconditions": {"uid": "other"}}
        code, media_type, data = await client.send_bytes(
            "DELETE", f"{CONFIG_MAPS}/b", write_body(wrong_uid), Content_Type=PROTOBUF, Accept=PROTOBUF
        )
        assert (code, media_type, open_envelope(data).read()["reason"]) == (409, PROTOBUF, "Conflict")
        code, _, data = await client.send_bytes(
            "DELETE", f"{CONFIG_MAPS}/b", UNKNOWN_FIELD, Content_Type=PROTOBUF, Accept=JSON
        )
        assert (code, json.loads(data)["message"]) == (
            400,
            'no kind "ConfigMap" is registered for version "v1"',
        )

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            UNKNOWN_FIELD,
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: metadata: meta.ObjectMeta has no'
            " field 99",
            id="an unknown field",
        ),
        pytest.param(
            b'{"a":1}',
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear"
            ' to be a protobuf message, expected prefix [107 56 115 0] ({"a":1})',
            id="JSON",
        ),
        pytest.param(
            bodies.body("v1", "Nonsense", b""),
            'Nonsense in version "v1" cannot be handled as a ConfigMap: no kind "Nonsense" is registered for'
            ' version "v1" in scheme "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"',
            id="an unknown kind",
        ),
    ],
)
def test_a_body_that_cannot_be_read_is_an_error_that_names_the_part(body: bytes, message: str) -> None:
    async def scenario(client: ApiClient) -> None:
        code, media_type, data = await client.send_bytes(
            "POST", CONFIG_MAPS, body, Content_Type=PROTOBUF, Accept=PROTOBUF
        )
        status = open_envelope(data).read()
        assert (code, media_type, status["message"]) == (400, PROTOBUF, message)

    run_with_server(scenario)


def test_the_kind_of_the_path_counts_for_a_body_without_a_kind() -> None:
    async def scenario(client: ApiClient) -> None:
        body = bodies.body("", "", bodies.message((1, bodies.message((1, "a")))))
        code, _, data = await client.send_bytes("POST", CONFIG_MAPS, body, Content_Type=PROTOBUF, Accept=JSON)
        assert (code, json.loads(data)["metadata"]["name"]) == (201, "a")

    run_with_server(scenario)


def test_media_types_are_negotiated_as_by_kube_apiserver() -> None:
    """The expected answers are those of kube-apiserver 1.36.3."""
    config_map, custom = f"{CONFIG_MAPS}/a", f"{THINGS}/a"
    cases = [
        (PROTOBUF, config_map, 200, PROTOBUF),
        (PROTOBUF, custom, 406, PROTOBUF),
        (f"{PROTOBUF},{JSON}", config_map, 200, PROTOBUF),
        (f"{PROTOBUF},{JSON}", custom, 200, JSON),
        (f"{PROTOBUF},{JSON}", f"{THINGS}/none", 404, PROTOBUF),
        (f"{JSON};q=0.5,{PROTOBUF}", config_map, 200, PROTOBUF),
        (f"{JSON};q=0.5,{PROTOBUF}", custom, 200, JSON),
        (f"{PROTOBUF};{TABLE}", config_map, 406, JSON),
        (f"{PROTOBUF};{TABLE},{JSON}", config_map, 200, JSON),
        (f"{PROTOBUF};{METADATA}", config_map, 200, PROTOBUF),
        (f"{PROTOBUF};{METADATA}", custom, 200, PROTOBUF),
        (f"{PROTOBUF};{METADATA}", f"{CONFIG_MAPS}/none", 404, JSON),
        (WATCH, config_map, 200, PROTOBUF),
        (WATCH, custom, 406, PROTOBUF),
        (f"text/html,{PROTOBUF}", f"{CONFIG_MAPS}/none", 404, PROTOBUF),
        ("application/yaml", f"{CONFIG_MAPS}/none", 404, "application/yaml"),
        (PROTOBUF, f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1", 200, WATCH),
        (f"{WATCH},{JSON}", f"{THINGS}?watch=1&timeoutSeconds=1", 200, JSON),
        (WATCH, f"{THINGS}?watch=1&timeoutSeconds=1", 406, PROTOBUF),
        (f"{PROTOBUF};{METADATA}", f"{THINGS}?watch=1&timeoutSeconds=1", 200, WATCH),
    ]

    async def scenario(client: ApiClient) -> None:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
        await create_custom_kind(client)
        for accept, path, *want in cases:
            code, media_type, _ = await client.send_bytes("GET", path, Accept=accept)
            assert [code, media_type] == want, f"{path} {accept}"

    run_with_server(scenario)


async def create_custom_kind(client: ApiClient) -> None:
    await client.create(CRDS, recorded(f"{CRDS[1:]}/things.x.example.com"))
    await client.until(THINGS, lambda code, _: code == 200)
    await client.create(
        THINGS, {"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    )


def test_a_custom_resource_in_protobuf_is_refused_so_that_the_client_sends_json() -> None:
    async def scenario(client: ApiClient) -> None:
        await create_custom_kind(client)
        body = bodies.body("x.example.com/v1", "Thing", b"")
        code, _, data = await client.send_bytes("POST", THINGS, body, Content_Type=PROTOBUF, Accept=JSON)
        assert (code, json.loads(data)["reason"]) == (415, "UnsupportedMediaType")

    run_with_server(scenario)


def test_a_watch_has_frames_with_the_objects() -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        query = "watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
        query += "&fieldSelector=metadata.name%3Da"
        async with client.stream(f"{CONFIG_MAPS}?{query}", Accept=WATCH) as content:
            assert shown(await frame(content)) == ("ADDED", "ConfigMap", "a", {"k": "v"})
            event, bookmark = await frame(content)
            assert event == "BOOKMARK"
            assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await client.send("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "w"}})
            assert shown(await frame(content)) == ("MODIFIED", "ConfigMap", "a", {"k": "w"})
            await client.send("DELETE", f"{CONFIG_MAPS}/a")
            assert shown(await frame(content)) == ("DELETED", "ConfigMap", "a", {"k": "w"})

    run_with_server(scenario)


async def frame(content: asyncio.StreamReader | Any) -> tuple[str, Json]:
    """Return type and object of the next event."""
    size = int.from_bytes(await content.readexactly(4), "big")
    event = read_message(message_named("runtime.WatchEvent"), await content.readexactly(size))
    return event["type"], open_envelope(event["object"]["raw"]).read()


def shown(event: tuple[str, Json]) -> tuple[str, str, str, Json]:
    kind, obj = event
    return kind, obj["kind"], obj["metadata"]["name"], obj["data"]


def test_lists_of_all_kinds_are_the_same_in_both_formats() -> None:
    async def scenario(client: ApiClient) -> None:
        for answer in bodies.ANSWERS:
            if answer["method"] == "GET" and "default/" in answer["path"] and "?" not in answer["path"]:
                await client.send("POST", f"/{answer['path'].rpartition('/')[0]}", answer["json"])
        for kind in KINDS:
            if "list" not in kind.verbs or find_message(kind.api_version, kind.kind) is None:
                continue
            prefix = "/apis/" if kind.group else "/api/"
            path = f"{prefix}{kind.api_version}/{kind.plural}"
            _, listed = await client.send("GET", path)
            code, _, data = await client.send_bytes("GET", path, Accept=PROTOBUF)
            assert code == 200, path
            got = open_envelope(data).read()
            assert got["items"] or listed["items"] == [], path

    run_with_server(scenario)


def without_nulls(value: Any) -> Any:
    """Return a value without nulls, and without kinds inside of it, which messages do not have."""
    match value:
        case dict():
            kept = {name: without_nulls(part) for name, part in value.items() if part is not None}
            return bodies.without_kind(kept) if "metadata" in kept else kept
        case list():
            return [without_nulls(part) for part in value]
    return value


def test_every_stored_value_has_a_type_that_can_be_written() -> None:
    stateful_set = {
        "metadata": {"name": "s"},
        "spec": {
            "serviceName": "s",
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "d"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": 1}}},
                }
            ],
        },
    }
    path = "/apis/apps/v1/namespaces/default/statefulsets"

    async def scenario(client: ApiClient) -> None:
        await client.create(path, stateful_set)
        code, _, data = await client.send_bytes("GET", path, Accept=PROTOBUF)
        (item,) = open_envelope(data).read()["items"]
        (claim,) = item["spec"]["volumeClaimTemplates"]
        assert (code, claim["spec"]["resources"]) == (200, {"requests": {"storage": "1"}})

    run_with_server(scenario)


def test_every_part_of_a_schema_has_a_type_that_can_be_written() -> None:
    properties: Json = {
        "list": {"type": "array", "items": {"type": "string", "unknown": 1}},
        "map": {"type": "object", "additionalProperties": {"type": "string", "unknown": 1}},
    }

    async def scenario(client: ApiClient) -> None:
        definition = recorded(f"{CRDS[1:]}/things.x.example.com")
        (version,) = definition["spec"]["versions"]
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] |= properties
        await client.create(CRDS, definition)
        code, _, data = await client.send_bytes("GET", CRDS, Accept=PROTOBUF)
        assert code == 200
        _, listed = await client.send("GET", CRDS)
        (read,), (written,) = open_envelope(data).read()["items"], listed["items"]
        assert read["spec"] == written["spec"]
        for wrong in (5, "x", [5]):
            properties["list"]["items"] = wrong
            code, status = await client.send("PUT", f"{CRDS}/things.x.example.com", definition)
            assert (code, status["reason"]) == (400, "BadRequest"), wrong

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "u", "extra": {"k": 5}}}),
        ("apis/authentication.k8s.io/v1/tokenreviews", {"spec": 5}),
        ("api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {"audiences": "a"}}),
        ("api/v1/namespaces/default/pods/p/binding", {"target": 5}),
        ("api/v1/namespaces/default/pods/p/eviction", {"deleteOptions": {"gracePeriodSeconds": "x"}}),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(path: str, body: Json) -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        code, status = await client.send("POST", f"/{path}", body)
        assert (code, status["reason"]) == (400, "BadRequest")

    run_with_server(scenario)

"""Laws of writes: what changes nothing is not stored, and a dry run responds as the write itself."""

import copy
from typing import Any

import pytest

from tests.local.api_client import ApiClient, Json, run_with_server

APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
CONTAINER: Json = {
    "name": "c",
    "image": "i",
    "env": [{"name": "A", "value": "1"}],
    "ports": [{"containerPort": 80}],
    "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}},
    "livenessProbe": {"grpc": {"port": 80}},
}
TEMPLATE: Json = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
SELECTOR: Json = {"matchLabels": {"a": "b"}}
JOB_SPEC: Json = {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}

OBJECTS: dict[str, tuple[str, Json]] = {
    "pods": ("v1", {"kind": "Pod", "spec": {"containers": [CONTAINER]}}),
    "configmaps": ("v1", {"kind": "ConfigMap", "data": {"a": "b", "empty": ""}}),
    "secrets": ("v1", {"kind": "Secret", "stringData": {"a": "b"}}),
    "services": ("v1", {"kind": "Service", "spec": {"ports": [{"port": 80}], "sessionAffinity": "ClientIP"}}),
    "resourcequotas": ("v1", {"kind": "ResourceQuota", "spec": {"hard": {"pods": "1", "cpu": "1000m"}}}),
    "limitranges": ("v1", {"kind": "LimitRange", "spec": {"limits": [{"type": "Pod", "max": {"cpu": 1}}]}}),
    "jobs": ("batch/v1", {"kind": "Job", "spec": JOB_SPEC}),
    "cronjobs": (
        "batch/v1",
        {"kind": "CronJob", "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": JOB_SPEC}}},
    ),
    "deployments": ("apps/v1", {"kind": "Deployment", "spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    "statefulsets": (
        "apps/v1",
        {"kind": "StatefulSet", "spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "s"}},
    ),
    "daemonsets": ("apps/v1", {"kind": "DaemonSet", "spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    "poddisruptionbudgets": (
        "policy/v1",
        {"kind": "PodDisruptionBudget", "spec": {"minAvailable": "50%", "selector": SELECTOR}},
    ),
}
"""API version and body by resource."""
GENERATED = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


def collection_and_object(resource: str) -> tuple[str, Json]:
    version, body = OBJECTS[resource]
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    obj = {"apiVersion": version, "metadata": {"name": "x", "labels": {"l": "m"}}, **copy.deepcopy(body)}
    return f"{root}/namespaces/default/{resource}", obj


def without_generated(obj: Json) -> Json:
    """Return an object without what differs between two creations of it."""
    text_of_uid = obj["metadata"]["uid"]
    left = copy.deepcopy(obj)
    for name in GENERATED:
        left["metadata"].pop(name, None)
    for name in ("clusterIP", "clusterIPs"):
        (left.get("spec") or {}).pop(name, None)
    return _replaced(left, text_of_uid)


def _replaced(value: Json, uid: str) -> Json:
    match value:
        case dict():
            return {name: _replaced(part, uid) for name, part in value.items()}
        case list():
            return [_replaced(part, uid) for part in value]
        case str():
            return value.replace(uid, "UID")
    return value


@pytest.mark.parametrize("resource", OBJECTS)
def test_a_dry_run_responds_as_the_creation_after_it(resource: str) -> None:
    path, obj = collection_and_object(resource)

    async def scenario(client: ApiClient) -> None:
        code, foretold = await client.send("POST", f"{path}?dryRun=All", obj)
        assert code == 201, foretold
        assert (await client.send("GET", f"{path}/x"))[0] == 404
        created = await client.create(path, obj)
        assert without_generated(foretold) == without_generated(created)

    run_with_server(scenario)


@pytest.mark.parametrize("resource", OBJECTS)
def test_a_configuration_applied_twice_is_stored_once(resource: str) -> None:
    path, obj = collection_and_object(resource)

    async def scenario(client: ApiClient) -> None:
        apply = f"{path}/x?fieldManager=m"
        code, first = await client.send("PATCH", apply, obj, Content_Type=APPLY)
        assert code == 201, first
        code, second = await client.send("PATCH", apply, obj, Content_Type=APPLY)
        assert (code, second) == (200, first)

    run_with_server(scenario)


@pytest.mark.parametrize("resource", OBJECTS)
def test_writes_of_what_is_stored_leave_the_resource_version(resource: str) -> None:
    path, obj = collection_and_object(resource)

    async def scenario(client: ApiClient) -> None:
        created = await client.create(path, obj)
        writes: tuple[tuple[str, Any, str], ...] = (
            ("PUT", created, "application/json"),
            ("PATCH", {}, "application/merge-patch+json"),
            ("PATCH", created, "application/merge-patch+json"),
            ("PATCH", {"metadata": {"labels": {"l": "m"}}}, STRATEGIC),
            ("PATCH", [{"op": "test", "path": "/metadata/name", "value": "x"}], JSON_PATCH),
        )
        for method, body, media_type in writes:
            code, written = await client.send(method, f"{path}/x", body, Content_Type=media_type)
            assert (code, written) == (200, created), (method, media_type)

    run_with_server(scenario)


def test_an_applied_configuration_without_fields_has_no_manager() -> None:
    async def scenario(client: ApiClient) -> None:
        path, bare = "/api/v1/namespaces/default/configmaps/x?fieldManager=m", {"metadata": {"name": "x"}}
        config = {"apiVersion": "v1", "kind": "ConfigMap", **bare}
        for code in (201, 200):
            applied = await client.send("PATCH", path, config, Content_Type=APPLY)
            assert (applied[0], "managedFields" in applied[1]["metadata"]) == (code, False)

    run_with_server(scenario)


@pytest.mark.parametrize(
    "fields", [{"deletionTimestamp": "2030-01-01T00:00:00Z"}, {"deletionGracePeriodSeconds": 9}]
)
def test_only_a_deletion_marks_an_object_as_deleted(fields: Json) -> None:
    async def scenario(client: ApiClient) -> None:
        path = "/api/v1/namespaces/default/configmaps"
        held = await client.create(path, {"metadata": {"name": "x", "finalizers": ["example.com/hold"]}})
        marked = {**held, "metadata": held["metadata"] | fields}
        code, error = await client.send("PUT", f"{path}/x", marked)
        causes = [cause["field"] for cause in error["details"]["causes"]]
        assert (code, causes) == (422, [f"metadata.{name}" for name in fields] * 2)
        await client.send("DELETE", f"{path}/x")
        assert (await client.send("PUT", f"{path}/x", held | {"data": {"a": "b"}}))[0] == 409
        del held["metadata"]["resourceVersion"]
        code, kept = await client.send("PUT", f"{path}/x", held | {"data": {"a": "b"}})
        assert (code, "deletionTimestamp" in kept["metadata"]) == (200, True)

    run_with_server(scenario)


@pytest.mark.parametrize(("name", "code"), [("default", 403), ("kube-system", 403), ("kube-node-lease", 200)])
def test_the_namespaces_of_the_cluster_are_not_deleted(name: str, code: int) -> None:
    async def scenario(client: ApiClient) -> None:
        assert (await client.send("DELETE", f"/api/v1/namespaces/{name}"))[0] == code

    run_with_server(scenario)

"""No stored object stops a part of the server, or its start."""

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quorate.local.server.storage.store import Key, Store
from tests.fuzz.mutations import mutate
from tests.fuzz.schemas import schema_of
from tests.local.api_client import ApiClient, run_with_server

Json = dict[str, Any]

pytestmark = pytest.mark.slow

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ATTACKS = 150
PODS = "/api/v1/namespaces/default/pods"
READ_BY_THE_SERVER = (
    "customresourcedefinitions.apiextensions.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "limitranges",
    "resourcequotas",
    "services",
)
NAMESPACED = ("limitranges", "resourcequotas", "services", "rolebindings.rbac.authorization.k8s.io")


def a_definition(plural: str, **version: Any) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": plural, "kind": plural.title()}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema} | version],
        },
    }


async def is_established(client: ApiClient, name: str) -> None:
    def established(code: int, body: Any) -> bool:
        conditions = body.get("status", {}).get("conditions", []) if code == 200 else []
        return ("Established", "True") in [(each["type"], each["status"]) for each in conditions]

    await client.until(f"{DEFINITIONS}/{name}.example.com", established)


async def everything_works(client: ApiClient, number: int) -> None:
    """Create what needs each part of the server: pods, definitions with their kinds, and documents."""
    plural = f"good{number}"
    await client.create(DEFINITIONS, a_definition(plural))
    await is_established(client, plural)
    await client.create(f"/apis/example.com/v1/namespaces/default/{plural}", {"metadata": {"name": "a"}})
    pod = {"metadata": {"name": f"pod-{number}"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await client.create(PODS, pod)
    service = {"metadata": {"name": f"service-{number}"}, "spec": {"ports": [{"port": 1}]}}
    await client.create("/api/v1/namespaces/default/services", service)
    for path in (
        "/apis",
        "/api",
        "/openapi/v3",
        "/openapi/v3/apis/example.com/v1",
        "/openapi/v2",
        DEFINITIONS,
    ):
        code, _ = await client.send("GET", path)
        assert code == 200, path


FIELDS = (
    *(
        "spec",
        "names",
        "plural",
        "versions",
        "webhooks",
        "rules",
        "roleRef",
        "subjects",
        "kind",
        "name",
        "limits",
    ),
    *("hard", "status", "type", "min", "ports", "clusterIP", "conversion", "service", "group", "value"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "10", "*", "Webhook", "Role"]),
    lambda parts: st.lists(parts, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), parts, max_size=5),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from((*FIELDS, "globalDefault")), JSON, max_size=4)


async def store_unchecked(path: Path, objects: list[tuple[str, Json]]) -> None:
    """Write objects as an older version of the server, or another program, may have stored them."""
    store = Store(path)
    await store.start()
    for number, (resource, obj) in enumerate(objects):
        namespace = "default" if resource in NAMESPACED else ""
        key = Key(resource, namespace, f"bad-{number}")
        await store.create(key, obj | {"metadata": {"name": key.name, "uid": f"u{number}", "generation": 1}})
    await store.stop()


@settings(max_examples=25, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(objects=st.lists(st.tuples(st.sampled_from(READ_BY_THE_SERVER), OBJECTS), min_size=3, max_size=12))
def test_a_server_starts_and_works_whatever_is_stored(
    tmp_path_factory: pytest.TempPathFactory, objects: list[tuple[str, Json]]
) -> None:
    path = tmp_path_factory.mktemp("store") / "cluster.db"
    asyncio.run(store_unchecked(path, objects))
    for start in (1, 2):
        run_with_server(lambda client, start=start: everything_works(client, start), path)  # type: ignore[misc]


@pytest.mark.parametrize(
    "version",
    [
        {
            "additionalPrinterColumns": [
                {"name": "S", "type": "string", "jsonPath": ".status.conditions[-1:].type"}
            ]
        },
        {"additionalPrinterColumns": [{"name": "S", "type": "string", "jsonPath": ".a[?("}]},
        {"subresources": {"scale": {}}},
    ],
)
def test_a_definition_that_the_server_accepts_holds_up_no_other(version: Json, tmp_path: Path) -> None:
    async def scenario(client: ApiClient) -> None:
        await client.send("POST", DEFINITIONS, a_definition("hostile", **version))
        await everything_works(client, 1)

    run_with_server(scenario, tmp_path / "store")
    run_with_server(lambda client: everything_works(client, 2), tmp_path / "store")


def test_a_definition_that_cannot_be_served_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    definition = a_definition("broken", schema={"openAPIV3Schema": {"pattern": "["}})
    definition["metadata"] |= {"uid": "1", "generation": 1}
    definition["spec"]["names"] |= {"singular": "broken", "listKind": "BrokenList"}
    definition["spec"]["conversion"] = {"strategy": "None"}

    async def scenario(client: ApiClient) -> None:
        def not_established(_: int, body: Any) -> bool:
            return bool(body.get("status"))

        body = await client.until(f"{DEFINITIONS}/broken.example.com", not_established)
        established = next(each for each in body["status"]["conditions"] if each["type"] == "Established")
        assert (established["status"], established["reason"]) == ("False", "CannotBeServed")
        assert "missing ]" in established["message"], "the reason is that of the compiler"
        code, _ = await client.send("GET", "/apis/example.com/v1/namespaces/default/broken")
        assert code == 404
        await everything_works(client, 1)

    async def stored() -> None:
        store = Store(tmp_path / "store")
        await store.start()
        await store.create(
            Key("customresourcedefinitions.apiextensions.k8s.io", "", "broken.example.com"), definition
        )
        await store.stop()

    asyncio.run(stored())
    with caplog.at_level(logging.ERROR):
        run_with_server(scenario, tmp_path / "store")
    assert [record.message for record in caplog.records] == ["object cannot be used"]


COLUMNS = [{"name": "S", "type": "string", "jsonPath": ".status.conditions[-1:].type"}]
CLIENT_CONFIG = {"service": {"namespace": "default", "name": "none"}}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 2},
                "name": {"type": "string", "pattern": "^a", "maxLength": 5, "enum": ["a", "ab"]},
                "list": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
                },
            },
            "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "no"}],
        }
    },
}
SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}


def hostile(kind: str, name: str) -> tuple[str, Json]:
    """Return the path of a collection, and a valid object of a kind that the server reads."""
    match kind:
        case "CustomResourceDefinition":
            body = a_definition(
                name,
                schema={"openAPIV3Schema": SCHEMA},
                additionalPrinterColumns=COLUMNS,
                subresources={"status": {}, "scale": SCALE},
                selectableFields=[{"jsonPath": ".spec.name"}],
            )
            conversion: Json = {"clientConfig": CLIENT_CONFIG, "conversionReviewVersions": ["v1"]}
            body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": conversion}
            return DEFINITIONS, body
        case "APIService":
            spec: Json = {"group": f"{name}.example.com", "version": "v1", "insecureSkipTLSVerify": True}
            spec |= {"groupPriorityMinimum": 1, "versionPriority": 1, "service": CLIENT_CONFIG["service"]}
            return "/apis/apiregistration.k8s.io/v1/apiservices", {
                "metadata": {"name": f"v1.{name}.example.com"},
                "spec": spec,
            }
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
    webhook: Json = {
        "name": "a.example.com",
        "clientConfig": CLIENT_CONFIG,
        "rules": [rule],
        "matchConditions": [{"name": "m", "expression": "object.metadata.name == 'x'"}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
    }
    path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"
    return path, {"metadata": {"name": name}, "webhooks": [webhook]}


KINDS = {
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "APIService": "apiregistration.k8s.io/v1",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
}


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_objects_break_neither_a_request_nor_the_server(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(f"hostile {kind}")

    async def scenario(client: ApiClient) -> None:
        stored = []
        for number in range(ATTACKS):
            path, body = hostile(kind, f"z{number}")
            mutated = mutate(body, schema_of(KINDS[kind], kind), rng, rng.choice((0, 1, 1, 2, 3)))
            code, answer = await client.send("POST", path, mutated)
            assert code in (201, 400, 404, 422), (code, answer, mutated)
            if code == 201:
                stored.append(f"{path}/{answer['metadata']['name']}")
        assert len(stored) > ATTACKS // 10
        if kind.endswith("Configuration"):  # one that is valid may reject every request
            for path in stored:
                await client.send("DELETE", path)
        await everything_works(client, 1)

    with caplog.at_level(logging.ERROR):
        run_with_server(scenario, tmp_path / "store")
    assert [record.getMessage() for record in caplog.records] == []
    run_with_server(lambda client: everything_works(client, 2), tmp_path / "store")

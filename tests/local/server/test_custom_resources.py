"""CustomResourceDefinitions over HTTP: registration, conversion, deletion, restarts."""

from pathlib import Path
from typing import Any

import pytest

from tests.local.api_client import ApiClient, run_with_server

pytestmark = pytest.mark.slow

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def a_version(name: str, storage: bool, **properties: Json) -> Json:
    spec = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}, **properties}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}


def a_definition(**older: Json) -> Json:
    """Return a definition of widgets with two versions; ``older``: more fields of v1beta1."""
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                a_version("v1", True, color={"type": "string", "default": "red"}),
                a_version("v1beta1", False, **older),
            ],
        },
    }


async def define(client: ApiClient, definition: Json | None = None) -> None:
    await client.create(DEFINITIONS, definition or a_definition())
    await client.until(f"{DEFINITIONS}/widgets.example.com", lambda _, body: is_established(body))


def is_established(definition: Json) -> bool:
    conditions = definition.get("status", {}).get("conditions", [])
    return any((c["type"], c["status"]) == ("Established", "True") for c in conditions)


def test_an_established_definition_is_served() -> None:
    async def scenario(client: ApiClient) -> None:
        await define(client)
        code, created = await client.send("POST", WIDGETS, {"metadata": {"name": "a"}, "spec": {"size": 1}})
        assert (code, created["spec"]) == (201, {"size": 1, "color": "red"})
        code, error = await client.send("POST", WIDGETS, {"metadata": {"name": "b"}, "spec": {"size": 10}})
        assert (code, error["details"]["causes"][0]["field"]) == (422, "spec.size")

    run_with_server(scenario)


def test_an_object_is_read_in_every_version() -> None:
    async def scenario(client: ApiClient) -> None:
        await define(client)
        beta = WIDGETS.replace("v1", "v1beta1")
        await client.send("POST", beta, {"metadata": {"name": "a"}, "spec": {"size": 1, "color": "blue"}})
        _, old = await client.send("GET", f"{beta}/a")
        assert (old["apiVersion"], old["spec"]) == ("example.com/v1beta1", {"size": 1})
        _, new = await client.send("GET", f"{WIDGETS}/a")
        assert (new["apiVersion"], new["spec"]) == ("example.com/v1", {"size": 1, "color": "red"})

    run_with_server(scenario)


def test_a_group_can_have_a_configured_converter() -> None:
    def renamed(obj: Json, api_version: str) -> Json:
        """Rename color (v1) to paint (v1beta1)."""
        names = ("paint", "color") if api_version.endswith("v1") else ("color", "paint")
        spec = {names[1] if name == names[0] else name: part for name, part in obj["spec"].items()}
        return {**obj, "apiVersion": api_version, "spec": spec}

    async def scenario(client: ApiClient) -> None:
        await define(client, a_definition(paint={"type": "string"}))
        beta = WIDGETS.replace("v1", "v1beta1")
        await client.send("POST", beta, {"metadata": {"name": "a"}, "spec": {"paint": "blue"}})
        _, new = await client.send("GET", f"{WIDGETS}/a")
        assert new["spec"] == {"color": "blue"}
        _, old = await client.send("GET", f"{beta}/a")
        assert old["spec"] == {"paint": "blue"}
        _, listed = await client.send("GET", beta)
        assert [item["spec"] for item in listed["items"]] == [{"paint": "blue"}]

    run_with_server(scenario, converters={"example.com": renamed})


def test_a_restarted_server_serves_stored_definitions(tmp_path: Path) -> None:
    async def before(client: ApiClient) -> None:
        await define(client)
        await client.send("POST", WIDGETS, {"metadata": {"name": "a"}, "spec": {"size": 1}})

    async def after(client: ApiClient) -> None:
        code, found = await client.send("GET", f"{WIDGETS}/a")
        assert (code, found["spec"]["size"]) == (200, 1)

    run_with_server(before, tmp_path / "store")
    run_with_server(after, tmp_path / "store")


def test_deleting_a_definition_deletes_its_objects() -> None:
    async def scenario(client: ApiClient) -> None:
        await define(client)
        await client.send("POST", WIDGETS, {"metadata": {"name": "a"}, "spec": {}})
        await client.send("DELETE", f"{DEFINITIONS}/widgets.example.com")
        await client.until(WIDGETS, lambda code, _: code == 404)
        await define(client)
        assert (await client.until(WIDGETS, lambda code, _: code == 200))["items"] == []

    run_with_server(scenario)


def test_objects_stay_readable_after_the_storage_version_changes() -> None:
    def convert(obj: Json, api_version: str) -> Json:
        old, new = ("paint", "color") if api_version.endswith("/v1") else ("color", "paint")
        spec = dict(obj["spec"])
        if old in spec:
            spec[new] = spec.pop(old)
        return obj | {"apiVersion": api_version, "spec": spec}

    async def scenario(client: ApiClient) -> None:
        await define(client, a_definition(paint={"type": "string"}))
        await client.create(WIDGETS, {"metadata": {"name": "a"}, "spec": {"color": "blue"}})
        path = f"{DEFINITIONS}/widgets.example.com"
        _, definition = await client.send("GET", path)
        for version in definition["spec"]["versions"]:
            version["storage"] = not version["storage"]
        assert (await client.send("PUT", path, definition))[0] == 200
        await client.until(path, lambda _, body: body["status"]["storedVersions"] == ["v1", "v1beta1"])
        await client.create(WIDGETS, {"metadata": {"name": "b"}, "spec": {"color": "green"}})
        _, new = await client.send("GET", WIDGETS)
        assert [item["spec"]["color"] for item in new["items"]] == ["blue", "green"]
        _, old = await client.send("GET", WIDGETS.replace("v1", "v1beta1"))
        assert [item["spec"]["paint"] for item in old["items"]] == ["blue", "green"]

    run_with_server(scenario, converters={"example.com": convert})


def test_a_default_that_came_later_is_read_in_older_objects(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"

    async def until_read(client: ApiClient) -> None:
        await client.until(f"{WIDGETS}/a", lambda _, body: body.get("spec") == {"size": 1, "color": "red"})
        _, listed = await client.send("GET", WIDGETS)
        assert [each["spec"].get("color") for each in listed["items"]] == ["red"]

    async def scenario(client: ApiClient) -> None:
        definition = a_definition()
        properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        default = properties["spec"]["properties"]["color"].pop("default")
        await define(client, definition)
        created = await client.create(WIDGETS, {"metadata": {"name": "a"}, "spec": {"size": 1}})
        assert created["spec"] == {"size": 1}
        properties["spec"]["properties"]["color"]["default"] = default
        _, current = await client.send("GET", f"{DEFINITIONS}/widgets.example.com")
        code, _ = await client.send(
            "PUT", f"{DEFINITIONS}/widgets.example.com", {**current, "spec": definition["spec"]}
        )
        assert code == 200
        await until_read(client)
        _, same = await client.send("GET", f"{WIDGETS}/a")
        assert same["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]

    run_with_server(scenario, path)
    run_with_server(until_read, path)


def test_a_watch_ends_when_its_definition_changes() -> None:
    async def scenario(client: ApiClient) -> None:
        await define(client)
        path = f"{DEFINITIONS}/widgets.example.com"
        async with client.stream(f"{WIDGETS}?watch=1") as frames:
            names = {"spec": {"names": {"shortNames": ["w"]}}}
            assert (await client.send("PATCH", path, names))[0] == 200
            await client.until("/apis/example.com/v1", lambda _, body: "shortNames" in body["resources"][0])
            await client.create(WIDGETS, {"metadata": {"name": "a"}, "spec": {}})
            assert await frames.readline() == b""

    run_with_server(scenario)


@pytest.mark.parametrize("item", [True, 1.5, "text", None, []])
def test_an_item_of_a_keyed_list_that_is_no_object_is_refused(item: Any) -> None:
    async def scenario(client: ApiClient) -> None:
        definition = a_definition()
        parts = {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        }
        for version in definition["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            spec["properties"]["parts"] = parts
        await define(client, definition)
        widget = {"metadata": {"name": "a"}, "spec": {"size": 1, "parts": [item]}}
        assert (await client.send("POST", WIDGETS, widget))[0] == 422

    run_with_server(scenario)


def test_an_object_without_schema_may_have_any_spec() -> None:
    async def scenario(client: ApiClient) -> None:
        definition = a_definition()
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        for version in definition["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": anything}
        await define(client, definition)
        await client.create(WIDGETS, {"metadata": {"name": "a"}, "spec": "text"})
        assert (await client.send("DELETE", f"{WIDGETS}/a"))[0] == 200

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("widget", "problem"),
    [
        pytest.param({"spec": {"size": "x"}}, ".spec.size is not an integer", id="replicas"),
        pytest.param({"status": {"labels": ["a"]}}, "the label selector is not a string", id="selector"),
        pytest.param({"spec": "text"}, "spec in .spec.size is not an object", id="above the replicas"),
    ],
)
def test_an_object_with_values_of_other_types_is_not_scaled(
    widget: Json, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(client: ApiClient) -> None:
        definition = a_definition()
        definition["spec"]["versions"] = definition["spec"]["versions"][:1]
        definition["spec"]["versions"][0] |= {
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            "subresources": {
                "scale": {
                    "specReplicasPath": ".spec.size",
                    "statusReplicasPath": ".status.size",
                    "labelSelectorPath": ".status.labels",
                }
            },
        }
        await define(client, definition)
        await client.create(WIDGETS, {"metadata": {"name": "a"}} | widget)
        code, status = await client.send("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 1}})
        assert (code, status["message"]) == (500, problem)

    run_with_server(scenario)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []

"""Conversion of custom resources by a webhook."""

import json
from typing import Any

import pytest

from tests.local.api_client import ApiClient, run_with_server
from tests.local.server.test_custom_resources import WIDGETS, a_definition, define
from tests.local.server.test_webhooks import a_webhook, register
from tests.local.webhook_server import WebhookServer, webhook_server

pytestmark = pytest.mark.slow

Json = dict[str, Any]
BETA = WIDGETS.replace("v1", "v1beta1")


def centimetres(request: Json) -> Json:
    """Convert between size in metres (v1) and length in centimetres (v1beta1)."""
    factor = 0.01 if request["desiredAPIVersion"] == "example.com/v1" else 100
    fields = ("length", "size") if factor < 1 else ("size", "length")
    converted = []
    for obj in request["objects"]:
        length = int(obj["spec"][fields[0]] * factor)
        converted.append(obj | {"apiVersion": request["desiredAPIVersion"], "spec": {fields[1]: length}})
    return {"result": {"status": "Success"}, "convertedObjects": converted}


def refusing(_: Json) -> Json:
    return {"result": {"status": "Failure", "message": "no idea"}}


def converted_by(hook_server: WebhookServer) -> Json:
    definition = a_definition(length={"type": "integer"})
    config = {"clientConfig": hook_server.url(), "conversionReviewVersions": ["v1"]}
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": config}
    return definition


def test_a_webhook_converts_objects_of_writes_reads_and_patches() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(centimetres) as hook_server:
            await define(client, converted_by(hook_server))
            created = await client.create(BETA, {"metadata": {"name": "a"}, "spec": {"length": 300}})
            assert (created["apiVersion"], created["spec"]) == ("example.com/v1beta1", {"length": 300})
            _, new = await client.send("GET", f"{WIDGETS}/a")
            assert (new["apiVersion"], new["spec"]) == ("example.com/v1", {"size": 3, "color": "red"})
            code, old = await client.send("PATCH", f"{BETA}/a", {"spec": {"length": 700}})
            assert (code, old["spec"]) == (200, {"length": 700})
            _, new = await client.send("GET", f"{WIDGETS}/a")
            assert new["spec"]["size"] == 7
            assert new["metadata"]["uid"] == created["metadata"]["uid"]

    run_with_server(scenario)


def test_a_list_is_converted_in_one_request() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(centimetres) as hook_server:
            await define(client, converted_by(hook_server))
            for name in "abc":
                await client.create(WIDGETS, {"metadata": {"name": name}, "spec": {"size": 2}})
            assert hook_server.received == []  # the stored version needs no conversion
            _, listed = await client.send("GET", BETA)
            assert [item["spec"] for item in listed["items"]] == [{"length": 200}] * 3
            assert [len(received_request["objects"]) for received_request in hook_server.received] == [3]

    run_with_server(scenario)


def test_a_watch_converts_every_change_to_its_version() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(centimetres) as hook_server:
            await define(client, converted_by(hook_server))
            await client.create(WIDGETS, {"metadata": {"name": "a"}, "spec": {"size": 1}})
            async with client.stream(f"{BETA}?watch=1") as frames:
                assert shown(json.loads(await frames.readline())) == ("ADDED", {"length": 100})
                await client.send("PATCH", f"{WIDGETS}/a", {"spec": {"size": 2}})
                assert shown(json.loads(await frames.readline())) == ("MODIFIED", {"length": 200})
                await client.send("DELETE", f"{WIDGETS}/a")
                assert shown(json.loads(await frames.readline())) == ("DELETED", {"length": 200})

    def shown(frame: Json) -> tuple[str, Json]:
        return frame["type"], frame["object"]["spec"]

    run_with_server(scenario)


def test_a_failed_conversion_fails_the_request_and_ends_a_watch_with_an_error() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(refusing) as hook_server:
            await define(client, converted_by(hook_server))
            await client.create(WIDGETS, {"metadata": {"name": "a"}, "spec": {"size": 1}})
            code, error = await client.send("GET", f"{BETA}/a")
            reason = "conversion webhook for example.com, Kind=Widget failed: no idea"
            assert (code, error["message"]) == (500, reason)
            async with client.stream(f"{BETA}?watch=1") as frames:
                frame = json.loads(await frames.readline())
                assert (frame["type"], frame["object"]["message"]) == ("ERROR", reason)
                assert await frames.readline() == b""

    run_with_server(scenario)


def test_an_admission_webhook_gets_its_version_from_the_conversion_webhook() -> None:
    async def scenario(client: ApiClient) -> None:
        async with (
            webhook_server(centimetres) as conversion_server,
            webhook_server(lambda _: {"allowed": True}) as reviewing,
        ):
            await define(client, converted_by(conversion_server))
            await register(client, "validating", a_webhook(reviewing.url(), resource="widgets"))
            await client.create(BETA, {"metadata": {"name": "a"}, "spec": {"length": 500}})
            (received_request,) = reviewing.received
            assert received_request["object"]["spec"] == {"size": 5, "color": "red"}

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("conversion", "field"),
    [
        ({"strategy": "Magic"}, "strategy"),
        ({"strategy": "Webhook"}, "webhookClientConfig"),
        (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://h"}, "conversionReviewVersions": ["v9"]},
            },
            "conversionReviewVersions",
        ),
    ],
)
def test_an_invalid_conversion_strategy_is_rejected(conversion: Json, field: str) -> None:
    async def scenario(client: ApiClient) -> None:
        definition = a_definition()
        definition["spec"]["conversion"] = conversion
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        code, error = await client.send("POST", path, definition)
        causes = [cause["field"] for cause in error["details"]["causes"]]
        assert code == 422
        assert f"spec.conversion.{field}" in causes

    run_with_server(scenario)

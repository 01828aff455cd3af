"""Admission webhooks beyond the recorded conversations: services, versions, order, further subresources."""

from typing import Any

import pytest

from tests.local.api_client import Talk, told
from tests.local.server.test_custom_resources import WIDGETS, a_definition, define
from tests.local.webhook_server import Hook, hook, json_patch

pytestmark = pytest.mark.slow

Json = dict[str, Any]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"


def a_webhook(client: Json, name: str = "one.example.com", resource: str = "configmaps", **more: Any) -> Json:
    group = {"widgets": "example.com"}.get(resource.partition("/")[0], "")
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": client,
        "rules": [rule],
    } | more


async def register(talk: Talk, sort: str, *webhooks: Json) -> None:
    """``sort``: mutating or validating."""
    body = {"metadata": {"name": "hooks"}, "webhooks": list(webhooks)}
    await talk.create(f"{CONFIGURATIONS}/{sort}webhookconfigurations", body)


def allowed(_: Json) -> Json:
    return {"allowed": True}


def a_service(**spec: Any) -> Json:
    ports = [{"name": "https", "port": 443, "targetPort": 9443}]
    return {"metadata": {"name": "hooks"}, "spec": {"ports": ports} | spec}


def behind(end: Hook) -> dict[str, Json]:
    """By path, the two kinds of object that can say what is behind the service."""
    ports = [{"name": "metrics", "port": 1}, {"name": "https", "port": end.port}]
    return {
        SLICES: {
            "metadata": {"name": "hooks-1", "labels": {"kubernetes.io/service-name": "hooks"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
            "ports": ports,
        },
        ENDPOINTS: {
            "metadata": {"name": "hooks"},
            "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}],
        },
    }


@pytest.mark.parametrize("path", [SLICES, ENDPOINTS])
def test_a_service_is_followed_to_what_is_behind_it(path: str) -> None:
    async def story(talk: Talk) -> None:
        async with hook(allowed, "hooks.default.svc") as end:
            service = {"namespace": "default", "name": "hooks", "path": "/hook"}
            await register(talk, "validating", a_webhook({"service": service, "caBundle": end.ca_bundle}))
            code, refusal = await talk.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert (code, refusal["message"]) == (
                500,
                'Internal error occurred: failed calling webhook "one.example.com": failed to call webhook:'
                ' service "hooks" not found',
            )
            await talk.create("/api/v1/namespaces/default/services", a_service())
            _, refusal = await talk.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert refusal["message"].endswith('no endpoints available for service "hooks"')
            await talk.create(path, behind(end)[path])
            await talk.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert [asked["name"] for asked in end.asked] == ["a"]

    told(story)


def test_only_what_is_ready_is_asked_and_where_nobody_listens_the_next() -> None:
    async def story(talk: Talk) -> None:
        async with hook(allowed, "hooks.default.svc") as end:
            service = {"namespace": "default", "name": "hooks"}
            await register(talk, "validating", a_webhook({"service": service, "caBundle": end.ca_bundle}))
            await talk.create("/api/v1/namespaces/default/services", a_service())
            slice_ = behind(end)[SLICES]
            slice_["endpoints"] = [{"addresses": ["127.0.0.9"]}, {"addresses": ["127.0.0.1"]}]
            await talk.create(SLICES, slice_)
            await talk.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            for endpoint in slice_["endpoints"]:
                endpoint["conditions"] = {"ready": False}
            await talk.send("PATCH", f"{SLICES}/hooks-1", {"endpoints": slice_["endpoints"]})
            code, refusal = await talk.send("POST", CONFIG_MAPS, {"metadata": {"name": "b"}})
            assert (code, "no endpoints available" in refusal["message"]) == (500, True)

    told(story)


@pytest.mark.parametrize(("hangs_up", "code"), [(1, 201), (2, 500)])
def test_a_webhook_that_hangs_up_is_asked_once_more(hangs_up: int, code: int) -> None:
    async def story(talk: Talk) -> None:
        async with hook(allowed) as end:
            await register(talk, "validating", a_webhook(end.url()))
            end.hangs_up = hangs_up
            assert (await talk.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}))[0] == code

    told(story)


def test_a_certificate_of_another_service_is_not_trusted() -> None:
    async def story(talk: Talk) -> None:
        async with hook(allowed, "others.default.svc") as end:
            await talk.create("/api/v1/namespaces/default/services", a_service())
            await talk.create(ENDPOINTS, behind(end)[ENDPOINTS])
            service = {"namespace": "default", "name": "hooks"}
            await register(talk, "validating", a_webhook({"service": service, "caBundle": end.ca_bundle}))
            code, refusal = await talk.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert (code, end.asked) == (500, [])
            assert "Hostname mismatch" in refusal["message"]

    told(story)


def test_a_webhook_for_one_version_sees_all_of_them_in_that_version() -> None:
    async def story(talk: Talk) -> None:
        def paint(request: Json) -> Json:
            return json_patch({"op": "add", "path": "/spec/color", "value": request["kind"]["version"]})

        async with hook(paint) as end:
            await define(talk, a_definition(color={"type": "string"}))
            await register(talk, "mutating", a_webhook(end.url(), resource="widgets"))
            beta = WIDGETS.replace("v1", "v1beta1")
            made = await talk.create(beta, {"metadata": {"name": "a"}, "spec": {"size": 1}})
            assert (made["apiVersion"], made["spec"]) == ("example.com/v1beta1", {"size": 1, "color": "v1"})
            (asked,) = end.asked
            assert asked["object"]["apiVersion"] == "example.com/v1"
            assert asked["kind"]["version"] == asked["resource"]["version"] == "v1"
            assert asked["requestKind"]["version"] == asked["requestResource"]["version"] == "v1beta1"

    told(story)


def test_an_exact_webhook_leaves_other_versions_alone() -> None:
    async def story(talk: Talk) -> None:
        async with hook(allowed) as end:
            await define(talk)
            await register(talk, "validating", a_webhook(end.url(), resource="widgets", matchPolicy="Exact"))
            await talk.create(WIDGETS.replace("v1", "v1beta1"), {"metadata": {"name": "a"}, "spec": {}})
            assert end.asked == []
            await talk.create(WIDGETS, {"metadata": {"name": "b"}, "spec": {}})
            assert [asked["name"] for asked in end.asked] == ["b"]

    told(story)


@pytest.mark.parametrize(
    ("policy", "calls"),
    [
        pytest.param("Never", ["first", "second"], id="never: once each"),
        pytest.param("IfNeeded", ["first", "second", "first"], id="if needed: again after another's change"),
    ],
)
def test_a_webhook_is_asked_again_only_if_it_wants_to_be(policy: str, calls: list[str]) -> None:
    async def story(talk: Talk) -> None:
        asked: list[str] = []

        def add(name: str) -> Any:
            def answer(request: Json) -> Json:
                asked.append(name)
                if name in request["object"]["metadata"].get("labels", {}):
                    return {"allowed": True}
                if "labels" not in request["object"]["metadata"]:
                    return json_patch({"op": "add", "path": "/metadata/labels", "value": {name: ""}})
                return json_patch({"op": "add", "path": f"/metadata/labels/{name}", "value": ""})

            return answer

        async with hook(add("first")) as first, hook(add("second")) as second:
            await register(
                talk,
                "mutating",
                a_webhook(first.url(), "first.example.com", reinvocationPolicy=policy),
                a_webhook(second.url(), "second.example.com"),
            )
            made = await talk.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert made["metadata"]["labels"] == {"first": "", "second": ""}
            assert asked == calls

    told(story)


def test_webhooks_hear_of_the_deletions_of_a_collection_one_by_one() -> None:
    async def story(talk: Talk) -> None:
        async with hook(lambda request: {"allowed": request["name"] != "kept"}) as end:
            for name in ("a", "kept"):
                await talk.create(CONFIG_MAPS, {"metadata": {"name": name}})
            await register(talk, "validating", a_webhook(end.url()))
            code, refusal = await talk.send("DELETE", CONFIG_MAPS)
            assert (code, refusal["message"]) == (
                400, 'admission webhook "one.example.com" denied the request without explanation',
            )  # fmt: skip
            assert [(asked["operation"], asked["oldObject"]["metadata"]["name"]) for asked in end.asked] == [
                ("DELETE", "a"),
                ("DELETE", "kept"),
            ]
            _, left = await talk.send("GET", CONFIG_MAPS)
            assert [item["metadata"]["name"] for item in left["items"]] == ["kept"]

    told(story)


@pytest.mark.parametrize(("options", "dry_run"), [({"dryRun": []}, False), ({"dryRun": ["All"]}, True)])
def test_webhooks_hear_whether_a_deletion_is_meant(options: Json, dry_run: bool) -> None:
    async def story(talk: Talk) -> None:
        async with hook(allowed) as end:
            await talk.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            await register(talk, "validating", a_webhook(end.url()))
            assert (await talk.send("DELETE", f"{CONFIG_MAPS}/a", options))[0] == 200
            (asked,) = end.asked
            assert (asked["dryRun"], asked["options"]["dryRun"]) == (dry_run, options["dryRun"])
            assert ((await talk.send("GET", f"{CONFIG_MAPS}/a"))[0] == 200) is dry_run

    told(story)


def test_webhooks_are_not_asked_about_webhooks() -> None:
    async def story(talk: Talk) -> None:
        async with hook(lambda _: {"allowed": False}) as end:
            everything = {
                "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"],
            }  # fmt: skip
            await register(talk, "validating", a_webhook(end.url(), rules=[everything]))
            code, _ = await talk.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert code == 400
            code, _ = await talk.send("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/hooks")
            assert code == 200

    told(story)


def test_a_condition_that_cannot_be_decided_refuses_unless_failures_are_ignored() -> None:
    async def story(talk: Talk) -> None:
        async with hook(allowed) as end:
            conditions = [{"name": "odd", "expression": "object.data.missing == 'x'"}]
            path = f"{CONFIGURATIONS}/validatingwebhookconfigurations/hooks"
            webhook = a_webhook(end.url(), matchConditions=conditions)
            await register(talk, "validating", webhook)
            code, _ = await talk.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert code == 403
            await talk.send("PATCH", path, {"webhooks": [webhook | {"failurePolicy": "Ignore"}]})
            await talk.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert end.asked == []

    told(story)

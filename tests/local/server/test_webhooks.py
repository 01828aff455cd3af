"""Admission webhooks, in addition to the conformance records: services, versions, order."""

from typing import Any

import pytest

from tests.local.api_client import ApiClient, run_with_server
from tests.local.server.test_custom_resources import WIDGETS, a_definition, define
from tests.local.webhook_server import WebhookServer, json_patch, webhook_server

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


async def register(client: ApiClient, sort: str, *webhooks: Json) -> None:
    """``sort``: mutating or validating."""
    body = {"metadata": {"name": "hooks"}, "webhooks": list(webhooks)}
    await client.create(f"{CONFIGURATIONS}/{sort}webhookconfigurations", body)


def allowed(_: Json) -> Json:
    return {"allowed": True}


def a_service(**spec: Any) -> Json:
    ports = [{"name": "https", "port": 443, "targetPort": 9443}]
    return {"metadata": {"name": "hooks"}, "spec": {"ports": ports} | spec}


def behind(hook_server: WebhookServer) -> dict[str, Json]:
    """Return, by path, an EndpointSlice and an Endpoints object for the service."""
    ports = [{"name": "metrics", "port": 1}, {"name": "https", "port": hook_server.port}]
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
def test_a_service_is_resolved_to_its_endpoints(path: str) -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(allowed, "hooks.default.svc") as hook_server:
            service = {"namespace": "default", "name": "hooks", "path": "/hook"}
            await register(
                client, "validating", a_webhook({"service": service, "caBundle": hook_server.ca_bundle})
            )
            code, error = await client.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert (code, error["message"]) == (
                500,
                'Internal error occurred: failed calling webhook "one.example.com": failed to call webhook:'
                ' service "hooks" not found',
            )
            await client.create("/api/v1/namespaces/default/services", a_service())
            _, error = await client.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert error["message"].endswith('no endpoints available for service "hooks"')
            await client.create(path, behind(hook_server)[path])
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert [received_request["name"] for received_request in hook_server.received] == ["a"]

    run_with_server(scenario)


def test_only_ready_endpoints_are_called_and_unreachable_ones_are_skipped() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(allowed, "hooks.default.svc") as hook_server:
            service = {"namespace": "default", "name": "hooks"}
            await register(
                client, "validating", a_webhook({"service": service, "caBundle": hook_server.ca_bundle})
            )
            await client.create("/api/v1/namespaces/default/services", a_service())
            slice_ = behind(hook_server)[SLICES]
            slice_["endpoints"] = [{"addresses": ["127.0.0.9"]}, {"addresses": ["127.0.0.1"]}]
            await client.create(SLICES, slice_)
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            endpoints = [endpoint | {"conditions": {"ready": False}} for endpoint in slice_["endpoints"]]
            await client.send("PATCH", f"{SLICES}/hooks-1", {"endpoints": endpoints})
            code, error = await client.send("POST", CONFIG_MAPS, {"metadata": {"name": "b"}})
            assert (code, "no endpoints available" in error["message"]) == (500, True)
            # A process of this machine answers for a simulated pod, on the port of the pod.
            pod = {"addresses": ["10.64.0.1"], "nodeName": "node-1", "conditions": {"ready": True}}
            await client.send("PATCH", f"{SLICES}/hooks-1", {"endpoints": [pod]})
            await client.create(CONFIG_MAPS, {"metadata": {"name": "b"}})

    run_with_server(scenario)


@pytest.mark.parametrize(("connections_to_drop", "code"), [(1, 201), (2, 500)])
def test_a_call_is_repeated_once_after_a_closed_connection(connections_to_drop: int, code: int) -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(allowed) as hook_server:
            await register(client, "validating", a_webhook(hook_server.url()))
            hook_server.connections_to_drop = connections_to_drop
            assert (await client.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}))[0] == code

    run_with_server(scenario)


def test_a_certificate_of_another_service_is_not_trusted() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(allowed, "others.default.svc") as hook_server:
            await client.create("/api/v1/namespaces/default/services", a_service())
            await client.create(ENDPOINTS, behind(hook_server)[ENDPOINTS])
            service = {"namespace": "default", "name": "hooks"}
            await register(
                client, "validating", a_webhook({"service": service, "caBundle": hook_server.ca_bundle})
            )
            code, error = await client.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert (code, hook_server.received) == (500, [])
            assert "Hostname mismatch" in error["message"]

    run_with_server(scenario)


def test_a_webhook_for_one_version_gets_all_versions_converted() -> None:
    async def scenario(client: ApiClient) -> None:
        def paint(request: Json) -> Json:
            return json_patch({"op": "add", "path": "/spec/color", "value": request["kind"]["version"]})

        async with webhook_server(paint) as hook_server:
            await define(client, a_definition(color={"type": "string"}))
            await register(client, "mutating", a_webhook(hook_server.url(), resource="widgets"))
            beta = WIDGETS.replace("v1", "v1beta1")
            created = await client.create(beta, {"metadata": {"name": "a"}, "spec": {"size": 1}})
            assert (created["apiVersion"], created["spec"]) == (
                "example.com/v1beta1",
                {"size": 1, "color": "v1"},
            )
            (received_request,) = hook_server.received
            assert received_request["object"]["apiVersion"] == "example.com/v1"
            assert received_request["kind"]["version"] == received_request["resource"]["version"] == "v1"
            assert (
                received_request["requestKind"]["version"]
                == received_request["requestResource"]["version"]
                == "v1beta1"
            )

    run_with_server(scenario)


def test_a_webhook_with_exact_match_policy_ignores_other_versions() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(allowed) as hook_server:
            await define(client)
            await register(
                client, "validating", a_webhook(hook_server.url(), resource="widgets", matchPolicy="Exact")
            )
            await client.create(WIDGETS.replace("v1", "v1beta1"), {"metadata": {"name": "a"}, "spec": {}})
            assert hook_server.received == []
            await client.create(WIDGETS, {"metadata": {"name": "b"}, "spec": {}})
            assert [received_request["name"] for received_request in hook_server.received] == ["b"]

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("policy", "calls"),
    [
        pytest.param("Never", ["first", "second"], id="Never: each is called once"),
        pytest.param(
            "IfNeeded", ["first", "second", "first"], id="IfNeeded: called again after a later change"
        ),
    ],
)
def test_reinvocation_follows_the_reinvocation_policy(policy: str, calls: list[str]) -> None:
    async def scenario(client: ApiClient) -> None:
        received_request: list[str] = []

        def add(name: str) -> Any:
            def answer(request: Json) -> Json:
                received_request.append(name)
                if name in request["object"]["metadata"].get("labels", {}):
                    return {"allowed": True}
                if "labels" not in request["object"]["metadata"]:
                    return json_patch({"op": "add", "path": "/metadata/labels", "value": {name: ""}})
                return json_patch({"op": "add", "path": f"/metadata/labels/{name}", "value": ""})

            return answer

        async with webhook_server(add("first")) as first, webhook_server(add("second")) as second:
            await register(
                client,
                "mutating",
                a_webhook(first.url(), "first.example.com", reinvocationPolicy=policy),
                a_webhook(second.url(), "second.example.com"),
            )
            created = await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert created["metadata"]["labels"] == {"first": "", "second": ""}
            assert received_request == calls

    run_with_server(scenario)


def test_a_webhook_cannot_move_an_object_to_another_namespace() -> None:
    async def scenario(client: ApiClient) -> None:
        move = {"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}
        async with webhook_server(lambda _: json_patch(move)) as hooks:
            await register(client, "mutating", a_webhook(hooks.url()))
            code, error = await client.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
        assert (code, error["reason"]) == (400, "BadRequest")
        assert (await client.send("GET", "/api/v1/namespaces/kube-system/configmaps/a"))[0] == 404

    run_with_server(scenario)


def test_webhooks_review_each_deletion_of_a_collection() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(
            lambda request: {"allowed": request["oldObject"]["metadata"]["name"] != "kept"}
        ) as hook_server:
            for name in ("a", "kept"):
                await client.create(CONFIG_MAPS, {"metadata": {"name": name}})
            await register(client, "validating", a_webhook(hook_server.url()))
            code, error = await client.send("DELETE", CONFIG_MAPS)
            assert (code, error["message"]) == (
                400, 'admission webhook "one.example.com" denied the request without explanation',
            )  # fmt: skip
            assert [
                (received_request["operation"], received_request["oldObject"]["metadata"]["name"])
                for received_request in hook_server.received
            ] == [
                ("DELETE", "a"),
                ("DELETE", "kept"),
            ]
            _, left = await client.send("GET", CONFIG_MAPS)
            assert [item["metadata"]["name"] for item in left["items"]] == ["kept"]

    run_with_server(scenario)


@pytest.mark.parametrize(("options", "dry_run"), [({"dryRun": []}, False), ({"dryRun": ["All"]}, True)])
def test_webhooks_get_the_dry_run_option_of_a_deletion(options: Json, dry_run: bool) -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(allowed) as hook_server:
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            await register(client, "validating", a_webhook(hook_server.url()))
            assert (await client.send("DELETE", f"{CONFIG_MAPS}/a", options))[0] == 200
            (received_request,) = hook_server.received
            assert (received_request["dryRun"], received_request["options"]["dryRun"]) == (
                dry_run,
                options["dryRun"],
            )
            assert ((await client.send("GET", f"{CONFIG_MAPS}/a"))[0] == 200) is dry_run

    run_with_server(scenario)


def test_webhooks_are_not_called_for_webhook_configurations() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(lambda _: {"allowed": False}) as hook_server:
            everything = {
                "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"],
            }  # fmt: skip
            await register(client, "validating", a_webhook(hook_server.url(), rules=[everything]))
            code, _ = await client.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert code == 400
            code, _ = await client.send("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/hooks")
            assert code == 200

    run_with_server(scenario)


def test_a_failed_match_condition_follows_the_failure_policy() -> None:
    async def scenario(client: ApiClient) -> None:
        async with webhook_server(allowed) as hook_server:
            conditions = [{"name": "odd", "expression": "object.data.missing == 'x'"}]
            path = f"{CONFIGURATIONS}/validatingwebhookconfigurations/hooks"
            webhook = a_webhook(hook_server.url(), matchConditions=conditions)
            await register(client, "validating", webhook)
            code, _ = await client.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert code == 403
            await client.send("PATCH", path, {"webhooks": [webhook | {"failurePolicy": "Ignore"}]})
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
            assert hook_server.received == []

    run_with_server(scenario)


def test_a_webhook_with_certificates_that_cannot_be_read_fails() -> None:
    async def scenario(client: ApiClient) -> None:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
        hook = {
            "name": "a.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "YQ=="},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [rule],
        }
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        code, _ = await client.send("POST", path, {"metadata": {"name": "w"}, "webhooks": [hook]})
        assert code == 201
        config_map = {"metadata": {"name": "c"}}
        code, error = await client.send("POST", "/api/v1/namespaces/default/configmaps", config_map)
        assert (code, "unable to load root certificates" in error["message"]) == (500, True)

    run_with_server(scenario)

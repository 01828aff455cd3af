"""Aggregated APIs: an APIService and the server that it refers to."""

import asyncio
import base64
import json
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.certificates import new_authority, new_server_certificate
from quorate.local.controllers.metadata_cache import discover
from tests.local.api_client import ApiClient, connect, run_with_server
from tests.local.clusters import api_server
from tests.local.webhook_server import server_tls_context

pytestmark = pytest.mark.slow

Json = dict[str, Any]
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP = "metrics.example.com"
NAME = f"v1.{GROUP}"
READINGS = "/apis/metrics.example.com/v1/namespaces/default/readings"
PUBLISHED = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
LISTED = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "metrics.example.com/v1",
    "resources": [
        {
            "name": "readings",
            "singularName": "reading",
            "namespaced": True,
            "kind": "Reading",
            "verbs": ["get", "list"],
            "shortNames": ["rd"],
        },
        {"name": "readings/raw", "singularName": "", "namespaced": True, "kind": "Raw", "verbs": ["get"]},
    ],
}


class Backend:
    """An API server that trusts the X-Remote headers of the published front proxy."""

    def __init__(self) -> None:
        self.port = 0
        self.ca_bundle = ""
        self.received: list[tuple[str, str, dict[str, Any]]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        certificate = request.transport.get_extra_info("peercert") if request.transport else None
        request_facts = {
            "certified": bool(certificate),
            "user": request.headers.get("X-Remote-User"),
            "groups": request.headers.getall("X-Remote-Group", []),
            "authorization": request.headers.get("Authorization"),
            "body": (await request.read()).decode(),
        }
        if request.path == "/apis/metrics.example.com/v1":  # availability checks of the server
            return web.json_response(LISTED)
        self.received.append((request.method, request.raw_path, request_facts))
        if "watch" in request.query:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for number in (1, 2):
                await response.write(b'{"type":"ADDED","object":{"n":%d}}\n' % number)
            if request.query["watch"] == "broken" and request.transport is not None:
                request.transport.abort()
            return response
        return web.json_response({"kind": "ReadingList", "items": [], "received": request_facts}, status=203)


@asynccontextmanager
async def backend(published: Json) -> AsyncIterator[Backend]:
    now = WallClock().now()
    authority = new_authority(now)
    upstream = Backend()
    upstream.ca_bundle = base64.b64encode(authority.certificate).decode()
    tls = server_tls_context(new_server_certificate(authority, now, "metrics.default.svc"))
    tls.load_verify_locations(cadata=published["data"]["requestheader-client-ca-file"])
    tls.verify_mode = ssl.CERT_REQUIRED
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", upstream.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        upstream.port = runner.addresses[0][1]
        yield upstream
    finally:
        await runner.cleanup()


async def install(client: ApiClient, upstream: Backend) -> None:
    spec = {"ports": [{"port": 443, "targetPort": 8443}]}
    await client.create(
        "/api/v1/namespaces/default/services", {"metadata": {"name": "metrics"}, "spec": spec}
    )
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": upstream.port}]}]
    await client.create(
        "/api/v1/namespaces/default/endpoints", {"metadata": {"name": "metrics"}, "subsets": subsets}
    )


def an_api_service(**more: Any) -> Json:
    spec = {
        "group": "metrics.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": "default", "name": "metrics"},
    }
    return {"metadata": {"name": NAME}, "spec": spec | more}


def availability(_: int, body: Json) -> tuple[str, str]:
    (condition,) = body["status"].get("conditions") or [{"status": "", "reason": ""}]
    return condition["status"], condition["reason"]


def run_with_backend(scenario: Any) -> None:
    """Run a scenario with a registered and available backend."""

    async def run(client: ApiClient) -> None:
        _, published = await client.send("GET", PUBLISHED)
        async with backend(published) as upstream:
            await install(client, upstream)
            await client.create(API_SERVICES, an_api_service(caBundle=upstream.ca_bundle))
            await client.until(f"{API_SERVICES}/{NAME}", lambda *a: availability(*a) == ("True", "Passed"))
            await scenario(client, upstream)

    run_with_server(run)


def test_requests_are_forwarded_on_behalf_of_the_user() -> None:
    async def scenario(client: ApiClient, upstream: Backend) -> None:
        code, answer = await client.send("GET", f"{READINGS}?limit=5&continue=a%26b", X_Remote_User="mallory")
        assert code == 203
        assert answer["received"] == {
            "certified": True,
            "user": "admin",
            "groups": ["system:masters", "system:authenticated"],
            "authorization": None,
            "body": "",
        }
        await client.send("POST", READINGS, {"a": 1})
        assert [
            (method, path, request_facts["body"]) for method, path, request_facts in upstream.received
        ] == [
            ("GET", f"{READINGS}?limit=5&continue=a%26b", ""),
            ("POST", READINGS, '{"a": 1}'),
        ]

    run_with_backend(scenario)


def test_a_watch_is_streamed_through_the_proxy() -> None:
    async def scenario(client: ApiClient, _: Backend) -> None:
        async with client.stream(f"{READINGS}?watch=1") as frames:
            numbers = [json.loads(await frames.readline())["object"]["n"] for _ in range(2)]
        assert numbers == [1, 2]

    run_with_backend(scenario)


def test_an_aborted_upstream_response_aborts_the_client_response() -> None:
    async def scenario(client: ApiClient, _: Backend) -> None:
        async with client.stream(f"{READINGS}?watch=broken") as frames:
            with pytest.raises(aiohttp.ClientPayloadError):
                await frames.read()

    run_with_backend(scenario)


def test_a_request_is_authorized_before_it_is_forwarded() -> None:
    async def scenario(client: ApiClient, upstream: Backend) -> None:
        code, error = await client.send("GET", READINGS, Impersonate_User="bob")
        assert (code, upstream.received) == (403, [])
        assert 'cannot list resource "readings" in API group "metrics.example.com"' in error["message"]

    run_with_backend(scenario)


def test_discovery_includes_aggregated_groups() -> None:
    async def scenario(client: ApiClient, __: Backend) -> None:
        _, groups = await client.send("GET", "/apis")
        assert [g["preferredVersion"] for g in groups["groups"] if g["name"] == "metrics.example.com"] == [
            {"groupVersion": "metrics.example.com/v1", "version": "v1"}
        ]
        _, listed = await client.send("GET", "/apis/metrics.example.com/v1")
        assert listed == LISTED
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        _, document = await client.send("GET", "/apis", Accept=accept)
        (version,) = next(item["versions"] for item in document["items"] if item["metadata"]["name"] == GROUP)
        about = {"group": "metrics.example.com", "version": "v1"}
        assert version == {
            "version": "v1",
            "freshness": "Current",
            "resources": [
                {
                    "resource": "readings",
                    "scope": "Namespaced",
                    "singularResource": "reading",
                    "verbs": ["get", "list"],
                    "shortNames": ["rd"],
                    "responseKind": about | {"kind": "Reading"},
                    "subresources": [
                        {"subresource": "raw", "responseKind": about | {"kind": "Raw"}, "verbs": ["get"]}
                    ],
                }
            ],
        }

    run_with_backend(scenario)


def test_condition_and_response_report_why_an_api_is_unavailable() -> None:
    async def scenario(client: ApiClient) -> None:
        _, published = await client.send("GET", PUBLISHED)
        path = f"{API_SERVICES}/{NAME}"
        await client.create(API_SERVICES, an_api_service(insecureSkipTLSVerify=True))
        await client.until(path, lambda *a: availability(*a) == ("False", "ServiceNotFound"))
        code, error = await client.send("GET", READINGS)
        assert (code, error["reason"]) == (503, "ServiceUnavailable")
        async with backend(published) as upstream:
            await install(client, upstream)
            await client.until(path, lambda *a: availability(*a) == ("True", "Passed"))
            assert (await client.send("GET", READINGS))[0] == 203
        await client.send("PATCH", path, {"spec": {"versionPriority": 9}})  # triggers a check
        await client.until(path, lambda *a: availability(*a) == ("False", "FailedDiscoveryCheck"))
        await client.send("DELETE", path)
        await client.until("/apis/metrics.example.com/v1", lambda code, _: code == 404)

    run_with_server(scenario)


def test_an_unavailable_api_does_not_break_discovery_of_other_groups() -> None:
    async def scenario() -> None:
        async with api_server() as server, connect(server) as client:
            await client.create(API_SERVICES, an_api_service())
            await client.until(
                f"{API_SERVICES}/{NAME}", lambda *a: availability(*a) == ("False", "ServiceNotFound")
            )
            cluster = RestConfig(server.url, credentials=Token(server.token))
            async with Client(cluster, random.Random(1)) as kube_client:
                found = {kind.plural for kind in await discover(kube_client)}
            assert {"jobs", "configmaps"} <= found

    asyncio.run(scenario())


def test_a_local_api_service_is_always_available() -> None:
    async def scenario(client: ApiClient) -> None:
        name, about = "v1.batch", {"group": "batch", "version": "v1"}
        spec = about | {"groupPriorityMinimum": 1, "versionPriority": 1}
        await client.create(API_SERVICES, {"metadata": {"name": name}, "spec": spec})
        await client.until(f"{API_SERVICES}/{name}", lambda *a: availability(*a) == ("True", "Local"))
        assert (await client.send("GET", "/apis/batch/v1/jobs"))[0] == 200

    run_with_server(scenario)

"""APIs that another server answers, behind an APIService."""

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
from tests.local.api_client import Talk, talk_to, told
from tests.local.clusters import api_server
from tests.local.webhook_server import serving

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
    """Believes who it is told is asking, if the certificate is of the published authority."""

    def __init__(self) -> None:
        self.port = 0
        self.ca_bundle = ""
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        certificate = request.transport.get_extra_info("peercert") if request.transport else None
        said = {
            "certified": bool(certificate),
            "user": request.headers.get("X-Remote-User"),
            "groups": request.headers.getall("X-Remote-Group", []),
            "authorization": request.headers.get("Authorization"),
            "body": (await request.read()).decode(),
        }
        if request.path == "/apis/metrics.example.com/v1":  # the server itself asks for it, now and then
            return web.json_response(LISTED)
        self.asked.append((request.method, request.raw_path, said))
        if "watch" in request.query:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for number in (1, 2):
                await response.write(b'{"type":"ADDED","object":{"n":%d}}\n' % number)
            if request.query["watch"] == "broken" and request.transport is not None:
                request.transport.abort()
            return response
        return web.json_response({"kind": "ReadingList", "items": [], "said": said}, status=203)


@asynccontextmanager
async def backend(published: Json) -> AsyncIterator[Backend]:
    now = WallClock().now()
    authority = new_authority(now)
    end = Backend()
    end.ca_bundle = base64.b64encode(authority.certificate).decode()
    tls = serving(new_server_certificate(authority, now, "metrics.default.svc"))
    tls.load_verify_locations(cadata=published["data"]["requestheader-client-ca-file"])
    tls.verify_mode = ssl.CERT_REQUIRED
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", end.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        end.port = runner.addresses[0][1]
        yield end
    finally:
        await runner.cleanup()


async def install(talk: Talk, end: Backend) -> None:
    spec = {"ports": [{"port": 443, "targetPort": 8443}]}
    await talk.create("/api/v1/namespaces/default/services", {"metadata": {"name": "metrics"}, "spec": spec})
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": end.port}]}]
    await talk.create(
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


def of_backend(story: Any) -> None:
    """Play a story with a backend that is registered and available."""

    async def run(talk: Talk) -> None:
        _, published = await talk.send("GET", PUBLISHED)
        async with backend(published) as end:
            await install(talk, end)
            await talk.create(API_SERVICES, an_api_service(caBundle=end.ca_bundle))
            await talk.until(f"{API_SERVICES}/{NAME}", lambda *a: availability(*a) == ("True", "Passed"))
            await story(talk, end)

    told(run)


def test_requests_are_passed_on_in_the_name_of_who_asks() -> None:
    async def story(talk: Talk, end: Backend) -> None:
        code, answer = await talk.send("GET", f"{READINGS}?limit=5&continue=a%26b", X_Remote_User="mallory")
        assert code == 203
        assert answer["said"] == {
            "certified": True,
            "user": "admin",
            "groups": ["system:masters", "system:authenticated"],
            "authorization": None,
            "body": "",
        }
        await talk.send("POST", READINGS, {"a": 1})
        assert [(method, path, said["body"]) for method, path, said in end.asked] == [
            ("GET", f"{READINGS}?limit=5&continue=a%26b", ""),
            ("POST", READINGS, '{"a": 1}'),
        ]

    of_backend(story)


def test_a_watch_is_passed_on_as_it_comes() -> None:
    async def story(talk: Talk, _: Backend) -> None:
        async with talk.stream(f"{READINGS}?watch=1") as frames:
            numbers = [json.loads(await frames.readline())["object"]["n"] for _ in range(2)]
        assert numbers == [1, 2]

    of_backend(story)


def test_an_answer_that_breaks_off_does_not_look_complete() -> None:
    async def story(talk: Talk, _: Backend) -> None:
        async with talk.stream(f"{READINGS}?watch=broken") as frames:
            with pytest.raises(aiohttp.ClientPayloadError):
                await frames.read()

    of_backend(story)


def test_rights_are_checked_before_a_request_is_passed_on() -> None:
    async def story(talk: Talk, end: Backend) -> None:
        code, refusal = await talk.send("GET", READINGS, Impersonate_User="bob")
        assert (code, end.asked) == (403, [])
        assert 'cannot list resource "readings" in API group "metrics.example.com"' in refusal["message"]

    of_backend(story)


def test_discovery_lists_what_the_other_server_has() -> None:
    async def story(talk: Talk, __: Backend) -> None:
        _, groups = await talk.send("GET", "/apis")
        assert [g["preferredVersion"] for g in groups["groups"] if g["name"] == "metrics.example.com"] == [
            {"groupVersion": "metrics.example.com/v1", "version": "v1"}
        ]
        _, listed = await talk.send("GET", "/apis/metrics.example.com/v1")
        assert listed == LISTED
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        _, document = await talk.send("GET", "/apis", Accept=accept)
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

    of_backend(story)


def test_the_condition_says_why_an_api_is_not_there_and_the_request_too() -> None:
    async def story(talk: Talk) -> None:
        _, published = await talk.send("GET", PUBLISHED)
        path = f"{API_SERVICES}/{NAME}"
        await talk.create(API_SERVICES, an_api_service(insecureSkipTLSVerify=True))
        await talk.until(path, lambda *a: availability(*a) == ("False", "ServiceNotFound"))
        code, refusal = await talk.send("GET", READINGS)
        assert (code, refusal["reason"]) == (503, "ServiceUnavailable")
        async with backend(published) as end:
            await install(talk, end)
            await talk.until(path, lambda *a: availability(*a) == ("True", "Passed"))
            assert (await talk.send("GET", READINGS))[0] == 203
        await talk.send("PATCH", path, {"spec": {"versionPriority": 9}})  # a reason to look again
        await talk.until(path, lambda *a: availability(*a) == ("False", "FailedDiscoveryCheck"))
        await talk.send("DELETE", path)
        await talk.until("/apis/metrics.example.com/v1", lambda code, _: code == 404)

    told(story)


def test_an_api_that_is_not_there_keeps_nobody_elses_kinds_out_of_sight() -> None:
    async def story() -> None:
        async with api_server() as server, talk_to(server) as talk:
            await talk.create(API_SERVICES, an_api_service())
            await talk.until(
                f"{API_SERVICES}/{NAME}", lambda *a: availability(*a) == ("False", "ServiceNotFound")
            )
            cluster = RestConfig(server.url, credentials=Token(server.token))
            async with Client(cluster, random.Random(1)) as client:
                found = {kind.plural for kind in await discover(client)}
            assert {"jobs", "configmaps"} <= found

    asyncio.run(story())


def test_an_api_of_this_server_is_always_available() -> None:
    async def story(talk: Talk) -> None:
        name, about = "v1.batch", {"group": "batch", "version": "v1"}
        spec = about | {"groupPriorityMinimum": 1, "versionPriority": 1}
        await talk.create(API_SERVICES, {"metadata": {"name": name}, "spec": spec})
        await talk.until(f"{API_SERVICES}/{name}", lambda *a: availability(*a) == ("True", "Local"))
        assert (await talk.send("GET", "/apis/batch/v1/jobs"))[0] == 200

    told(story)

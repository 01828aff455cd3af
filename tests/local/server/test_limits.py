"""Requests that are too large, too deep or too slow are refused and do not stop the server."""

import asyncio
import io
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from quorate.local.objects.errors import JSON_PARSE_LIMIT, StatusError
from quorate.local.objects.nesting import MAX_DEPTH
from quorate.local.objects.patch.json_patches import MAX_OPERATIONS
from quorate.local.server.connections import BoundedServer, read_body
from quorate.local.server.requests.media_types import parse_json, parse_yaml
from tests.local.api_client import ApiClient, connect, run_with_server
from tests.local.clusters import api_server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v" * 1000}}
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
DEADLINE_S = 30.0


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        pytest.param(
            [
                {"op": "add", "path": "/data", "value": {}},
                {"op": "add", "path": "/data/a", "value": "a" * 50},
                *({"op": "copy", "from": "/data", "path": f"/data/{n}"} for n in range(24)),
            ],
            422,
            "the server rejected our request due to an error in our request",
            id="copies that double",
        ),
        pytest.param(
            [{"op": "test", "path": "/kind", "value": "ConfigMap"}] * (MAX_OPERATIONS + 1),
            413,
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
            id="operations",
        ),
    ],
)
def test_a_json_patch_is_bounded(patch: Any, code: int, message: str) -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create(CONFIG_MAPS, CONFIG_MAP)
        got, status = await client.send("PATCH", f"{CONFIG_MAPS}/a", patch, Content_Type=JSON_PATCH)
        assert (got, status["message"]) == (code, message)

    run_with_server(scenario)


def nested(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_is_bounded_in_bodies_and_in_the_results_of_patches() -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    widgets = "/apis/example.com/v1/widgets"

    async def scenario(client: ApiClient) -> None:
        await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await client.until(widgets, lambda code, _: code == 200)
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "a": {}}
        await client.create(widgets, widget)
        one_level = [
            {"op": "move", "from": "/a", "path": "/b"},
            {"op": "add", "path": "/a", "value": [0]},
            {"op": "move", "from": "/b", "path": "/a/0"},
        ]
        for levels in (MAX_DEPTH, 2000):
            code, answer = await client.send(
                "PATCH", f"{widgets}/a", one_level * levels, Content_Type=JSON_PATCH
            )
            assert (code, answer["reason"]) == (400, "BadRequest"), answer
        code, answer = await client.send("POST", widgets, widget | {"a": nested(MAX_DEPTH)})
        assert (code, answer["reason"]) == (400, "BadRequest"), answer
        assert (await client.send("DELETE", f"{widgets}/a"))[0] == 200

    run_with_server(scenario)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" * 100_000, id="open brackets"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="objects"),
        pytest.param(b'{"a":' + b"1" * 10_000 + b"}", id="a number of 10,000 digits"),
        pytest.param(b'{"a":1' + b"0" * 400 + b"}", id="a number beyond float64"),
        pytest.param(b'{"a":1e400}', id="an exponent beyond float64"),
        pytest.param(b'{"a":"\\ud800"}', id="half a surrogate pair"),
        pytest.param(b'{"a":"\xff"}', id="not UTF-8"),
        pytest.param(b"[" * 201 + b'"' + rb"\"" * 1_000_000, id="an unterminated string"),  # linear: 10 ms
    ],
)
def test_json_that_cannot_be_stored_is_refused(text: bytes) -> None:
    with pytest.raises(StatusError) as refusal:
        parse_json(text)
    assert refusal.value.code == 400


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"- " * 100_000, id="nested lists"),
        pytest.param(b"a: " + b"[" * 100_000, id="open brackets"),
        pytest.param(b"a: &a [*a]", id="a list that contains itself"),
        pytest.param(b"a: &a %s\nb: [%s]" % (b"x" * 100_000, b",".join([b"*a"] * 1000)), id="long aliases"),
        pytest.param(
            b"a: &0 [x]\n"
            + b"".join(b"b%d: &%d [%s]\n" % (n, n, b"*%d," % (n - 1) * 9) for n in range(1, 10)),
            id="aliases of aliases",
        ),
    ],
)
def test_yaml_that_grows_or_nests_is_refused(text: bytes) -> None:
    with pytest.raises(StatusError) as refusal:
        parse_yaml(text)
    assert refusal.value.code == 400


def test_integers_beyond_64_bits_become_floats_as_in_go() -> None:
    assert parse_json(b'{"a":[9223372036854775807,9223372036854775808]}').document == {
        "a": [9223372036854775807, 9223372036854775808.0]
    }


def test_duplicate_fields_are_found_in_linear_time() -> None:
    text = b"{" + b",".join([b'"b":1'] * 100_000) + b"}"
    assert parse_json(text).duplicates == ('duplicate field "b"',) * 100


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b" " * (JSON_PARSE_LIMIT + 1), "limit is 3145728", id="bytes"),
        pytest.param(b"[]," * (JSON_PARSE_LIMIT // 3), "more than 150000 values", id="values"),
    ],
)
def test_a_body_above_a_limit_is_refused(body: bytes, want: str) -> None:
    async def scenario() -> None:
        async with api_server() as server, aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
            async with session.post(
                server.url + CONFIG_MAPS, data=io.BytesIO(body), headers=headers
            ) as response:
                status = await response.json()
        assert (status["code"], status["reason"], status["message"]) == (
            413, "RequestEntityTooLarge", f"Request entity too large: {want}",
        )  # fmt: skip

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "body", "want"),
    [
        pytest.param(
            "POST", CONFIG_MAPS.replace("configmaps", "pods"),
            {"metadata": {"name": "a"}, "spec": {"priority": 1 << 31}},
            (400, "cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority"),
            id="an integer beyond 32 bits",
        ),
        pytest.param("GET", f"{CONFIG_MAPS}?limit={'9' * 20}", None, (400, "value out of range"), id="limit"),
        pytest.param(
            "GET", f"{CONFIG_MAPS}?resourceVersion={'9' * 5000}", None, (400, "value out of range"),
            id="resourceVersion of a list",
        ),
        pytest.param(
            "GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={'9' * 5000}", None, (500, "value out of range"),
            id="resourceVersion of a watch",
        ),
        pytest.param(
            "PUT", "/api/v1/namespaces/default",
            {"metadata": {"name": "default", "resourceVersion": "9" * 5000}},
            (500, "value out of range"),
            id="resourceVersion of an update",
        ),
        pytest.param(
            "POST", f"{CONFIG_MAPS}?fieldManager={'m' * 129}", CONFIG_MAP,
            (422, "fieldManager: Too long: may not be more than 128 bytes"),
            id="field manager",
        ),
        pytest.param(
            "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            {"metadata": {"name": "a"},
             "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["r" * 200_000] * 8}]},
            (500, "etcdserver: request is too large"),
            id="an object beyond the limit of etcd",
        ),
    ],
)  # fmt: skip
def test_values_beyond_a_limit_are_refused(method: str, path: str, body: Any, want: tuple[int, str]) -> None:
    async def scenario() -> None:
        async with api_server() as server, aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
            data = None if body is None else io.BytesIO(json.dumps(body).encode())
            async with session.request(method, server.url + path, data=data, headers=headers) as response:
                status = await response.json()
        code, message = want
        assert status["code"] == code
        assert message in status["message"]

    asyncio.run(scenario())


def test_a_pod_with_an_endless_grace_period_can_be_deleted() -> None:
    async def scenario(client: ApiClient) -> None:
        pods = "/api/v1/namespaces/default/pods"
        spec = {
            "nodeName": "n",
            "terminationGracePeriodSeconds": 1 << 60,
            "containers": [{"name": "a", "image": "b"}],
        }
        for name, query in (("a", ""), ("b", f"?gracePeriodSeconds={1 << 60}")):
            await client.create(pods, {"metadata": {"name": name}, "spec": spec})
            code, pod = await client.send("DELETE", f"{pods}/{name}{query}")
            assert (code, pod["metadata"]["deletionGracePeriodSeconds"]) == (200, (1 << 31) - 1)

    run_with_server(scenario)


def test_only_a_request_that_says_so_shortens_the_grace_period_of_a_terminating_pod() -> None:
    async def scenario(client: ApiClient) -> None:
        pods = "/api/v1/namespaces/default/pods"
        spec = {"nodeName": "n", "containers": [{"name": "a", "image": "b"}]}
        await client.create(pods, {"metadata": {"name": "a"}, "spec": spec})
        for query, seconds in (("", 30), ("?gracePeriodSeconds=60", 30), ("?gracePeriodSeconds=10", 10)):
            _, pod = await client.send("DELETE", f"{pods}/a{query}")
            assert pod["metadata"]["deletionGracePeriodSeconds"] == seconds
        failed = {"status": {"phase": "Failed"}}
        await client.send("PATCH", f"{pods}/a/status", failed, Content_Type="application/merge-patch+json")
        code, pod = await client.send("DELETE", f"{pods}/a")
        assert (code, pod["metadata"]["deletionGracePeriodSeconds"]) == (200, 10)
        assert (await client.send("GET", f"{pods}/a"))[0] == 200, "its node deletes it"
        await client.send("DELETE", f"{pods}/a?gracePeriodSeconds=0")
        assert (await client.send("GET", f"{pods}/a"))[0] == 404

    run_with_server(scenario)


def test_a_warning_that_is_no_header_is_left_out_as_by_kube_apiserver() -> None:
    async def scenario() -> None:
        async with api_server() as server, aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {server.token}"}
            body = CONFIG_MAP | {"a\nb": 1, "c": 2}
            async with session.post(server.url + CONFIG_MAPS, json=body, headers=headers) as response:
                assert response.status == 201
                assert response.headers.getall("Warning") == ['299 - "unknown field \\"c\\""']

    asyncio.run(scenario())


def test_a_token_that_is_not_utf_8_is_not_authenticated() -> None:
    async def scenario() -> None:
        async with api_server() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /version HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer \xff\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.0 401")
            writer.close()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def test_half_open_connections_do_not_hinder_others() -> None:
    async def scenario() -> None:
        async with api_server() as server, connect(server) as client:
            head = (
                f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\n"
                "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
            )
            half_open = []
            for number in range(500):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write((head if number % 2 else head[:60]).encode())
                half_open.append((reader, writer))
            await client.create(CONFIG_MAPS, CONFIG_MAP)
            assert [reader for reader, _ in half_open if reader.at_eof()] == []
            for _, writer in half_open:
                writer.close()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def test_a_request_must_be_sent_in_time() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        try:
            return web.Response(body=await read_body(request, timeout_s=0.05))
        except StatusError as error:
            return web.json_response(error.to_json(), status=error.code)

    async def answer_of(port: int, text: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        answer = await reader.read()
        writer.close()
        return answer

    async def scenario() -> None:
        runner = web.ServerRunner(BoundedServer(handle, 2, header_timeout_s=0.05), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        assert await answer_of(port, b"GET / HTTP/1.1\r\nHos") == b""
        head, _, body = (
            await answer_of(
                port, b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 9\r\n\r\n{"
            )
        ).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 504")
        assert json.loads(body)["message"] == "Timeout: request did not complete within the allotted timeout"
        await runner.cleanup()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def test_a_connection_too_many_closes_the_oldest_idle_one_and_never_a_busy_one() -> None:
    release, busy = asyncio.Event(), asyncio.Semaphore(0)

    async def handle(request: web.BaseRequest) -> web.Response:
        if request.path == "/slow":
            busy.release()
            await release.wait()
        return web.Response()

    async def scenario() -> None:
        runner = web.ServerRunner(BoundedServer(handle, 2), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        url = f"http://127.0.0.1:{port}"
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        async with aiohttp.ClientSession() as session:
            assert (await session.get(url)).status == 200
            assert await idle[0][0].read() == b"", "the oldest was closed"
            slow = [asyncio.create_task(session.get(f"{url}/slow")) for _ in range(2)]
            for _ in slow:
                await busy.acquire()
            with pytest.raises(aiohttp.ClientError):
                await session.get(url)
            release.set()
            assert [(await task).status for task in slow] == [200, 200]
        for _, writer in idle:
            writer.close()
        await runner.cleanup()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def test_requests_that_are_not_http_are_one_warning_without_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with api_server() as server:
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"GET / HTTP/9.9\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.0 400")
                writer.close()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))
    records = [record for record in caplog.records if record.name == "aiohttp.server"]
    assert len(records) <= 1
    assert [(record.levelname, record.exc_info) for record in records] in ([("WARNING", None)], [])

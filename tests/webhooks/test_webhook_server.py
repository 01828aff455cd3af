"""The webhook server over TLS: every request gets a response."""

import asyncio
import json
import re
import ssl
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.meta import Key
from quorate.kube.clock import WallClock
from quorate.kube.errors import Unreachable
from quorate.kube.limits import MAX_VALUES
from quorate.kube.serving.certificates import new_authority, new_client_certificate
from quorate.kube.serving.tls import load_certificate, server_context
from quorate.webhooks.admission_review import AdmissionRequest, AdmissionResponse
from quorate.webhooks.limits import MAX_CONVERSION_BYTES, MAX_REVIEW_BYTES, MAX_REVIEW_VALUES
from quorate.webhooks.process import webhooks_by_route
from quorate.webhooks.serving_certificate import ClientAuthority, NoCertificate
from quorate.webhooks.webhook_server import LoopShare, webhook_server
from tests.webhooks.admission_requests import FakeReader, a_review
from tests.webhooks.served_webhooks import Served, a_pair, served

Json = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
APP = webhooks_by_route(default_configuration(), FakeReader())
FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "spot"},
    "spec": {"nodeLabels": {"a b": "c"}, "tolerations": [{"key": "d e"}]},
}
FLAVORS = "/validate-kueue-x-k8s-io-v1beta2-resourceflavor"
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "team", "labels": {QUEUE: "q"}},
    "spec": {"suspend": False, "template": {"spec": {"containers": []}}},
}


def respond(path: str, body: bytes) -> tuple[int, Any]:
    async def scenario() -> tuple[int, bytes]:
        async with served(webhook_server(APP)) as server:
            return await server.post(path, body)

    status, response = asyncio.run(scenario())
    return status, json.loads(response) if status == 200 else response.decode()


def test_a_refusal_has_the_status_of_kueue_with_a_cause_for_each_field() -> None:
    status, response = respond(FLAVORS, a_review(FLAVOR))
    label = "spec.nodeLabels[a b]: 'a b' is not the key of a label (write name or example.com/name)"
    toleration = "spec.tolerations[0].key: 'd e' is not the key of a taint (write example.com/name)"
    assert (status, response) == (
        200,
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {
                "uid": "7",
                "allowed": False,
                "status": {
                    "status": "Failure",
                    "code": 403,
                    "reason": "Forbidden",
                    "message": f"2 fields are wrong\n  {label}\n  {toleration}",
                    "details": {
                        "name": "spot",
                        "group": "kueue.x-k8s.io",
                        "kind": "ResourceFlavor",
                        "causes": [
                            {"reason": "FieldValueInvalid", "message": message, "field": field}
                            for message, field in (
                                (label, "spec.nodeLabels[a b]"),
                                (toleration, "spec.tolerations[0].key"),
                            )
                        ],
                    },
                },
            },
        },
    )


def test_a_patch_is_base64_json_patch() -> None:
    _, response = respond("/mutate-batch-v1-job", a_review(JOB))
    assert response["response"] == {
        "uid": "7",
        "allowed": True,
        "patchType": "JSONPatch",
        # [{"op":"replace","path":"/spec/suspend","value":true}]
        "patch": "W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9zcGVjL3N1c3BlbmQiLCJ2YWx1ZSI6dHJ1ZX1d",
    }


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        pytest.param("/mutate-ray-io-v1-rayjob", {}, id="kind that is not enabled"),
        pytest.param("/validate-apps-v1-deployment", {}, id="set that is not enabled"),
        pytest.param(FLAVORS, {"operation": "DELETE"}, id="deletion"),
    ],
)
def test_requests_about_other_objects_are_allowed(path: str, request_: Json) -> None:
    _, response = respond(path, a_review(FLAVOR, **request_))
    assert response["response"] == {"uid": "7", "allowed": True}


PATHS = sorted({route.path(verb) for route in APP for verb in ("mutate", "validate")})
REVIEW = json.loads(a_review(FLAVOR))


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        pytest.param(b"", 400, "the body is not an AdmissionReview", id="empty"),
        pytest.param(b"{", 400, "the body is not an AdmissionReview", id="truncated"),
        pytest.param(b"\xff\xfe", 400, "the body is not an AdmissionReview", id="not UTF-8"),
        pytest.param(b"[]", 400, "the body is not an AdmissionReview", id="list"),
        pytest.param(
            b'{"a":' * 5000 + b"1" + b"}" * 5000, 400, "the body is not an AdmissionReview", id="nested",
        ),
        pytest.param(
            b'{"kind": "AdmissionReview"}', 400, "the body is not an AdmissionReview", id="no request"
        ),
        pytest.param(
            json.dumps({**REVIEW, "apiVersion": "admission.k8s.io/v1beta1"}).encode(), 400,
            "the body is AdmissionReview of admission.k8s.io/v1beta1, must be AdmissionReview of "
            "admission.k8s.io/v1", id="old version",
        ),
        pytest.param(
            b" " * (MAX_REVIEW_BYTES + 1), 413, "the body is too large: at most 7340032 bytes are read",
            id="too large",
        ),
    ],
)  # fmt: skip
def test_an_invalid_body_is_refused(body: bytes, status: int, message: str) -> None:
    got, text = respond(FLAVORS, body)
    assert (got, text[: len(message)]) == (status, message)


@pytest.mark.parametrize(
    ("path", "limit", "most"),
    [
        pytest.param(FLAVORS, MAX_REVIEW_BYTES, MAX_REVIEW_VALUES, id="review"),
        pytest.param("/convert", MAX_CONVERSION_BYTES, MAX_VALUES, id="conversion"),
    ],
)
def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(path: str, limit: int, most: int) -> None:
    body = (b"[]," * (limit // 3)).ljust(limit)  # no JSON: decoding would give 400
    assert respond(path, body) == (
        413,
        f"the body of {limit} bytes has more than {most} values, which are not decoded\n",
    )


@pytest.mark.parametrize("name", ["object", "oldObject"])
def test_each_object_of_a_review_has_the_values_of_one_object(name: str) -> None:
    review = json.loads(a_review(FLAVOR, FLAVOR))
    review["request"][name] = {"spec": [[]] * (MAX_VALUES // 2 + 10)}
    assert respond(FLAVORS, json.dumps(review, separators=(",", ":")).encode()) == (
        413,
        f"the body of {len(json.dumps(review['request'][name], separators=(',', ':')))} bytes has more than"
        f" {MAX_VALUES} values, which are not decoded\n",
    )


def test_a_conversion_of_a_long_text_is_answered() -> None:
    flavor = FLAVOR | {"metadata": {"name": "spot", "annotations": {"a": '1,2,[\\",{' * 30_000}}}
    body = CONVERSION.replace(b"[]}}", json.dumps([flavor]).encode() + b"}}")
    status, response = respond("/convert", body)
    annotations = response["response"]["convertedObjects"][0]["metadata"]["annotations"]
    assert (status, annotations) == (200, flavor["metadata"]["annotations"])  # type: ignore[index]


@pytest.mark.parametrize(
    ("labels_given", "first", "last"),
    [
        pytest.param(1000, "1000 fields are wrong", "  and 900 more", id="counted"),
        pytest.param(9000, "at least 2000 fields are wrong", "  and 1900 more", id="not all are looked for"),
    ],
)
def test_a_refusal_lists_a_hundred_findings(labels_given: int, first: str, last: str) -> None:
    labels = {f"{number} x": "" for number in range(labels_given)}
    _, response = respond(FLAVORS, a_review(FLAVOR | {"spec": {"nodeLabels": labels}}))
    status = response["response"]["status"]
    lines = status["message"].splitlines()
    assert (lines[0], lines[-1]) == (first, last)
    assert (len(lines), len(status["details"]["causes"])) == (102, 100)


SHAPES: tuple[Any, ...] = (
    None,
    [],
    "x",
    7,
    {},
    {"metadata": None},
    {"metadata": {"name": 7}},
    {"metadata": {}, "spec": []},
)


def test_objects_of_any_structure_get_a_response() -> None:
    async def scenario() -> dict[tuple[str, str], int]:
        statuses = {}
        async with served(webhook_server(APP)) as server, server.connected() as session:
            for path, shape, operation in product(PATHS, SHAPES, ("CREATE", "UPDATE")):
                body = json.loads(a_review(FLAVOR, operation=operation, oldObject=shape))
                body["request"]["object"] = shape
                status, _ = await server.send(session, path, json.dumps(body).encode())
                statuses[f"{operation} {path}", repr(shape)] = status
        return statuses

    statuses = asyncio.run(scenario())
    assert {request: status for request, status in statuses.items() if status != 200} == {}


def test_an_unknown_path_is_not_found() -> None:
    assert respond("/mutate-unknown", b"{}")[0] == 404


class Unable:
    """A webhook without an API server."""

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        raise Unreachable(str(Key("", request.name)), "https://gone", "connection refused")

    validate = mutate


def test_without_the_api_server_the_failure_policy_decides() -> None:
    async def scenario() -> tuple[int, bytes]:
        async with served(webhook_server(dict.fromkeys(APP, Unable()))) as server:
            return await server.post(FLAVORS, a_review(FLAVOR))

    assert asyncio.run(scenario()) == (500, b"spot: no answer from https://gone: connection refused\n")


def test_a_new_certificate_is_used_for_the_next_connection() -> None:
    async def scenario() -> None:
        async with served(webhook_server(APP)) as server:
            assert (await server.post(FLAVORS, a_review(FLAVOR)))[0] == 200
            pair, authority = a_pair()
            load_certificate(server.context, pair)
            with pytest.raises(aiohttp.ClientSSLError):
                await server.post(FLAVORS, a_review(FLAVOR))
            assert (await Served(server.url, server.context, authority).post(FLAVORS, a_review(FLAVOR)))[
                0
            ] == 200

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("rules", "theirs", "want"),
    [
        pytest.param(TlsOptions(), ssl.TLSVersion.TLSv1_2, ("TLSv1.2", None), id="TLS 1.2"),
        pytest.param(TlsOptions(minimum_version="VersionTLS13"), ssl.TLSVersion.TLSv1_2, None,
                     id="below the minimum version"),
        pytest.param(
            TlsOptions(ciphers=("ECDHE-ECDSA-CHACHA20-POLY1305",)), ssl.TLSVersion.TLSv1_2,
            ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"), id="cipher suite",
        ),
        pytest.param(TlsOptions(curve="secp384r1"), ssl.TLSVersion.TLSv1_3, ("TLSv1.3", None), id="curve"),
    ],
)  # fmt: skip
def test_the_tls_options_of_the_configuration_apply(
    rules: TlsOptions, theirs: ssl.TLSVersion, want: tuple[str, str | None] | None
) -> None:
    async def scenario() -> tuple[str, str | None] | None:
        async with served(webhook_server(APP), rules) as server:
            context = ssl.create_default_context(cadata=server.authority.decode())
            context.maximum_version = theirs
            port = int(server.url.rpartition(":")[2])
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            except (ssl.SSLError, ConnectionResetError):
                return None
            tls = writer.get_extra_info("ssl_object")
            response = (tls.version(), tls.cipher()[0] if rules.ciphers else None)
            writer.close()
            await writer.wait_closed()
            return response

    assert asyncio.run(scenario()) == want


CONVERSION = b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":' + (
    b'{"uid":"7","desiredAPIVersion":"kueue.x-k8s.io/v1beta1","objects":[]}}'
)


@pytest.mark.parametrize(
    ("certificate", "path", "want"),
    [
        pytest.param("ours", FLAVORS, 200, id="certificate of the authority"),
        pytest.param("none", FLAVORS, 403, id="no certificate"),
        pytest.param("foreign", FLAVORS, 0, id="certificate of another authority"),
        pytest.param("none", "/convert", 200, id="conversion: API servers send no certificate"),
    ],
)
def test_only_clients_with_a_certificate_of_the_configured_authority_are_answered(
    tmp_path: Path, certificate: str, path: str, want: int
) -> None:
    now = WallClock().now()
    authorities = {"ours": new_authority("clients", now), "foreign": new_authority("others", now)}
    (tmp_path / "ca.crt").write_bytes(authorities["ours"].certificate)

    async def scenario() -> int:
        async with served(webhook_server(APP, verify_clients=True)) as server:
            ClientAuthority(tmp_path / "ca.crt", server.context).load()
            trusting = ssl.create_default_context(cadata=server.authority.decode())
            if certificate in authorities:
                load_certificate(trusting, new_client_certificate(authorities[certificate], "apiserver", now))
            body = CONVERSION if path == "/convert" else a_review(FLAVOR)
            connector = aiohttp.TCPConnector(ssl=trusting)
            async with aiohttp.ClientSession(connector=connector) as session:
                try:
                    return (await server.send(session, path, body))[0]
                except aiohttp.ClientError:
                    return 0

    assert asyncio.run(scenario()) == want


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(None, "no such file or directory", id="missing"),
        pytest.param("no certificate", "(write CA certificates in PEM)", id="invalid"),
    ],
)
def test_nothing_is_served_without_the_authority_of_clients(
    tmp_path: Path, content: str | None, want: str
) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NoCertificate, match=re.escape(want)):
        ClientAuthority(path, server_context(TlsOptions())).load()


def test_large_bodies_leave_the_event_loop_to_others() -> None:
    """A turn is granted only after the pause that the previous one owes."""

    async def scenario() -> list[str]:
        turns, log = LoopShare(), []

        async def large() -> None:
            async with turns.turn(2**20):
                log.append("large")
                await asyncio.sleep(0.01)  # sleeps: work of a known duration, for which a turn owes a pause

        async def small() -> None:
            while log.count("large") == 1:
                async with turns.turn(100):
                    log.append("small")
                await asyncio.sleep(0)

        first = asyncio.create_task(large())
        await first
        await asyncio.gather(large(), small())
        return log

    assert asyncio.run(scenario()).count("small") > 1

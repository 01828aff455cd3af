"""The webhook server over TLS: what comes in is answered, whatever it is."""

import asyncio
import json
import ssl
from itertools import product
from typing import Any

import aiohttp
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.meta import Key
from quorate.kube.errors import Unreachable
from quorate.kube.serving.tls import load_certificate
from quorate.webhooks.admission_review import AdmissionRequest, AdmissionResponse
from quorate.webhooks.process import webhooks_by_route
from quorate.webhooks.webhook_server import MAX_REVIEW_BYTES, webhook_server
from tests.webhooks.admission_requests import Place, a_review
from tests.webhooks.served_webhooks import Served, a_pair, served

Json = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
APP = webhooks_by_route(default_configuration(), Place())
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


def asked(path: str, body: bytes) -> tuple[int, Any]:
    async def story() -> tuple[int, bytes]:
        async with served(webhook_server(APP)) as server:
            return await server.post(path, body)

    status, answer = asyncio.run(story())
    return status, json.loads(answer) if status == 200 else answer.decode()


def test_a_refusal_names_every_field_with_the_status_that_kueue_gives() -> None:
    status, answer = asked(FLAVORS, a_review(FLAVOR))
    label = "spec.nodeLabels[a b]: 'a b' is not the key of a label (write name or example.com/name)"
    toleration = "spec.tolerations[0].key: 'd e' is not the key of a taint (write example.com/name)"
    assert (status, answer) == (
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


def test_a_patch_travels_in_base64() -> None:
    _, answer = asked("/mutate-batch-v1-job", a_review(JOB))
    assert answer["response"] == {
        "uid": "7",
        "allowed": True,
        "patchType": "JSONPatch",
        # [{"op":"replace","path":"/spec/suspend","value":true}]
        "patch": "W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9zcGVjL3N1c3BlbmQiLCJ2YWx1ZSI6dHJ1ZX1d",
    }


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        pytest.param("/mutate-ray-io-v1-rayjob", {}, id="a kind that is not enabled"),
        pytest.param("/validate-apps-v1-deployment", {}, id="another one"),
        pytest.param(FLAVORS, {"operation": "DELETE"}, id="a deletion"),
    ],
)
def test_what_is_not_our_business_is_allowed(path: str, request_: Json) -> None:
    _, answer = asked(path, a_review(FLAVOR, **request_))
    assert answer["response"] == {"uid": "7", "allowed": True}


PATHS = sorted({route.path(verb) for route in APP for verb in ("mutate", "validate")})
REVIEW = json.loads(a_review(FLAVOR))


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        pytest.param(b"", 400, "the body is not an AdmissionReview", id="nothing"),
        pytest.param(b"{", 400, "the body is not an AdmissionReview", id="half a body"),
        pytest.param(b"\xff\xfe", 400, "the body is not an AdmissionReview", id="no text"),
        pytest.param(b"[]", 400, "the body is not an AdmissionReview", id="a list"),
        pytest.param(
            b'{"kind": "AdmissionReview"}', 400, "the body is not an AdmissionReview", id="no request"
        ),
        pytest.param(
            json.dumps({**REVIEW, "apiVersion": "admission.k8s.io/v1beta1"}).encode(), 400,
            "the body is AdmissionReview of admission.k8s.io/v1beta1, must be AdmissionReview of "
            "admission.k8s.io/v1", id="an old version",
        ),
        pytest.param(
            b" " * (MAX_REVIEW_BYTES + 1), 413, "the body is too large: at most 7340032 bytes are read",
            id="too large",
        ),
    ],
)  # fmt: skip
def test_a_body_that_is_none_is_refused(body: bytes, status: int, said: str) -> None:
    got, text = asked(FLAVORS, body)
    assert (got, text[: len(said)]) == (status, said)


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


def test_an_object_of_any_shape_is_answered() -> None:
    async def story() -> dict[tuple[str, str], int]:
        answers = {}
        async with served(webhook_server(APP)) as server, server.connected() as session:
            for path, shape, operation in product(PATHS, SHAPES, ("CREATE", "UPDATE")):
                body = json.loads(a_review(FLAVOR, operation=operation, oldObject=shape))
                body["request"]["object"] = shape
                status, _ = await server.ask(session, path, json.dumps(body).encode())
                answers[f"{operation} {path}", repr(shape)] = status
        return answers

    answers = asyncio.run(story())
    assert {asked: status for asked, status in answers.items() if status != 200} == {}


def test_a_path_nobody_knows_is_not_found() -> None:
    assert asked("/mutate-nobody", b"{}")[0] == 404


class Unable:
    """A reviewer whose API server is gone."""

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        raise Unreachable(str(Key("", request.name)), "https://gone", "nobody answers")

    validate = mutate


def test_who_cannot_know_says_so_and_leaves_it_to_the_failure_policy() -> None:
    async def story() -> tuple[int, bytes]:
        async with served(webhook_server(dict.fromkeys(APP, Unable()))) as server:
            return await server.post(FLAVORS, a_review(FLAVOR))

    assert asyncio.run(story()) == (500, b"spot: no answer from https://gone: nobody answers\n")


def test_another_certificate_is_shown_from_one_request_to_the_next() -> None:
    async def story() -> None:
        async with served(webhook_server(APP)) as server:
            assert (await server.post(FLAVORS, a_review(FLAVOR)))[0] == 200
            pair, authority = a_pair()
            load_certificate(server.context, pair)
            with pytest.raises(aiohttp.ClientSSLError):
                await server.post(FLAVORS, a_review(FLAVOR))
            assert (await Served(server.url, server.context, authority).post(FLAVORS, a_review(FLAVOR)))[
                0
            ] == 200

    asyncio.run(story())


@pytest.mark.parametrize(
    ("rules", "theirs", "want"),
    [
        pytest.param(TlsOptions(), ssl.TLSVersion.TLSv1_2, ("TLSv1.2", None), id="an older version"),
        pytest.param(TlsOptions(minimum_version="VersionTLS13"), ssl.TLSVersion.TLSv1_2, None, id="too old"),
        pytest.param(
            TlsOptions(ciphers=("ECDHE-ECDSA-CHACHA20-POLY1305",)), ssl.TLSVersion.TLSv1_2,
            ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"), id="a suite insisted on",
        ),
        pytest.param(TlsOptions(curve="secp384r1"), ssl.TLSVersion.TLSv1_3, ("TLSv1.3", None), id="a curve"),
    ],
)  # fmt: skip
def test_the_tls_of_the_configuration_is_spoken(
    rules: TlsOptions, theirs: ssl.TLSVersion, want: tuple[str, str | None] | None
) -> None:
    async def story() -> tuple[str, str | None] | None:
        async with served(webhook_server(APP), rules) as server:
            context = ssl.create_default_context(cadata=server.authority.decode())
            context.maximum_version = theirs
            port = int(server.url.rpartition(":")[2])
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            except (ssl.SSLError, ConnectionResetError):
                return None
            spoken = writer.get_extra_info("ssl_object")
            answer = (spoken.version(), spoken.cipher()[0] if rules.ciphers else None)
            writer.close()
            await writer.wait_closed()
            return answer

    assert asyncio.run(story()) == want

"""Whatever bytes a client sends, it gets an answer or a closed connection, and the log has no traceback."""

import asyncio
import logging
import random
import zlib

import pytest

from tests.local.clusters import TOKEN, RunningServer, api_server

BODY = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}'
ADMIN = b"Host: x\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
PATH = b"/api/v1/namespaces/default/configmaps"
GET = b"GET " + PATH + b" HTTP/1.1\r\n" + ADMIN
POST = b"POST " + PATH + b" HTTP/1.1\r\n" + ADMIN + b"Content-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)
UPGRADE = GET.replace(b" HTTP", b"?watch=1&timeoutSeconds=1 HTTP") + (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
)
LONG = GET.replace(b" HTTP", b"?x=" + b"a" * 200_000 + b" HTTP")
UNTYPED = BODY.replace(b'{"name":"a"}', b"[1]")
APPLY = (
    b"PATCH "
    + PATH
    + b"/a?fieldManager=m HTTP/1.1\r\n"
    + ADMIN
    + (b"Content-Type: application/apply-patch+yaml\r\nContent-Length: %d\r\n\r\n" % len(UNTYPED) + UNTYPED)
)
MUTANTS = 100
DEADLINE_S = 30.0
PATIENCE_S = 0.05  # then the client of an incomplete request disconnects


async def answer_to(server: RunningServer, request: bytes, within_s: float = DEADLINE_S) -> bytes:
    """Return the status line of the answer; empty if the connection is closed, or none comes in time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(within_s):
            writer.write(request)
            return await reader.readline()
    except ConnectionResetError:
        return b""
    except TimeoutError:
        assert within_s < DEADLINE_S, "no answer"
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(b"\x00\x01garbage\r\n\r\n", 400, id="not HTTP"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", 400, id="an unknown version"),
        pytest.param(GET + b"no colon\r\n\r\n", 400, id="a header without a name"),
        pytest.param(GET + b"X: " + b"a" * 200_000 + b"\r\n\r\n", 400, id="a huge header"),
        pytest.param(GET + b"X: a\r\n" * 50_000 + b"\r\n", 400, id="many headers"),
        pytest.param(LONG + b"\r\n", 400, id="a huge URL"),
        pytest.param(POST + b"Content-Length: -5\r\n\r\n" + BODY, 400, id="a negative length"),
        pytest.param(
            POST + b"Transfer-Encoding: chunked\r\n" + LENGTH + BODY, 400, id="both a length and chunks"
        ),
        pytest.param(
            POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + BODY, 400, id="a chunk without a size"
        ),
        pytest.param(POST + b"Content-Encoding: gzip\r\n" + LENGTH + BODY, 400, id="a body that is no gzip"),
        pytest.param(
            POST + b"Content-Encoding: deflate\r\n" + LENGTH + zlib.compress(BODY)[:20] + BODY[20:],
            400,
            id="a body that is damaged",
        ),
        pytest.param(POST.replace(b"/json", b"/xml") + LENGTH + BODY, 415, id="an unknown media type"),
        pytest.param(GET + b"Accept: text/html\r\n\r\n", 406, id="an answer that cannot be given"),
        pytest.param(UPGRADE + b"\r\n", 400, id="half a handshake"),
        pytest.param(APPLY, 500, id="applied metadata that is no object, refused as by kube-apiserver"),
    ],
)
def test_a_malformed_request_is_refused(request_: bytes, want: int, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with api_server() as server:
            assert (await answer_to(server, request_)).split()[1:2] == [b"%d" % want]
            assert await serves(server)

    asyncio.run(scenario())
    assert errors(caplog) == []


async def serves(server: RunningServer) -> bool:
    return b" 200 " in await answer_to(server, GET + b"\r\n")


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the logged errors, and other records with a traceback."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.ERROR or record.exc_info is not None
    ]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if not seed else pytest.mark.long) for seed in range(10)]
)
def test_no_damaged_request_is_an_error_of_the_server(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(seed)
    whole = (
        GET + b"\r\n",
        POST + LENGTH + BODY,
        POST + b"Content-Encoding: gzip\r\n" + LENGTH + BODY,
        POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
        GET.replace(b" HTTP", b"?watch=1&timeoutSeconds=1 HTTP")
        + UPGRADE
        + b"Sec-WebSocket-Version: 13\r\n\r\n",
    )

    async def scenario() -> None:
        async with api_server() as server:
            for _ in range(MUTANTS):
                await answer_to(server, damaged(rng, rng.choice(whole)), PATIENCE_S)
            assert await serves(server)

    asyncio.run(scenario())
    assert errors(caplog) == []


def damaged(rng: random.Random, request: bytes) -> bytes:
    """Return the request cut off, with a part left out or doubled, or with other bytes."""
    start = rng.randrange(len(request))
    end = min(len(request), start + rng.randint(1, 8))
    match rng.randrange(4):
        case 0:
            return request[:start]
        case 1:
            return request[:start] + request[end:]
        case 2:
            return request[:end] + request[start:]
    return request[:start] + rng.randbytes(end - start) + request[end:]

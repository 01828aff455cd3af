"""gRPC probes, against the bytes that servers of grpcio 1.85 sent."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.local.runtime.pods.probes import FAILED, health
from tests.local.runtime.world import Json, World, container, run_story, runs_processes, state_of

SETTINGS = (
    "000018040000000000000400400000000500400000000600004000fe0300000001"
    "000004080000000000003f00010000000401000000000000040800000000000000000500000806000000"
    "0000ee584b800d42c461"
)
HEADERS = (
    "00004e01040000000188400c636f6e74656e742d74797065106170706c69636174696f6e2f6772706340"
    "14677270632d6163636570742d656e636f64696e67176964656e746974792c206465666c6174652c20677a6970"
)
TRAILERS = "00001e010500000001400b677270632d7374617475730130000c677270632d6d65737361676500"
UNIMPLEMENTED = (
    "00005001050000000188400c636f6e74656e742d74797065106170706c69636174696f6e2f6772706340"
    "0b677270632d737461747573023132000c677270632d6d657373616765114d6574686f64206e6f7420666f756e6421"
)


def answer(message: str) -> bytes:
    return bytes.fromhex(SETTINGS + HEADERS + message + TRAILERS)


ANSWERS = {
    "SERVING": answer("00000700000000000100000000020801"),
    "NOT_SERVING": answer("00000700000000000100000000020802"),
    "UNKNOWN": answer("0000050000000000010000000000"),
}
NOT_IMPLEMENTED = bytes.fromhex(SETTINGS + UNIMPLEMENTED)


def status(*pieces: bytes) -> str:
    """Return the status that these pieces of an answer say, or the kind of the error."""

    async def ask() -> str:
        reader = asyncio.StreamReader()
        asking = asyncio.create_task(health(reader, lambda _: None, "10.0.0.1:50051", "trainer"))
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
        reader.feed_eof()
        try:
            return await asking
        except EOFError:
            return "EOF"
        except OSError as error:
            return str(error)

    return asyncio.run(ask())


@given(name=st.sampled_from(sorted(ANSWERS)), cut=st.integers(0, 300))
def test_an_answer_may_arrive_in_pieces(name: str, cut: int) -> None:
    content = ANSWERS[name]
    assert status(content[:cut], content[cut:]) == name
    assert status(content[:cut]) in (name, "EOF")


def test_a_server_without_the_health_service_is_not_healthy() -> None:
    assert status(NOT_IMPLEMENTED) == FAILED


@given(content=st.binary(max_size=200))
@example(content=bytes.fromhex("000000000800000001"))  # padded data without the size of its padding
def test_no_answer_is_an_error_of_another_kind(content: bytes) -> None:
    assert status(content) in ("EOF", FAILED, *ANSWERS, "SERVICE_UNKNOWN")


SERVER = """
import json, socketserver, sys
answers = json.loads(sys.argv[1])

class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        received = b""
        while not (names := [name for name in answers if bytes([10, len(name)]) + name.encode() in received]):
            received += self.request.recv(4096)
        assert received.startswith(b"PRI * HTTP/2.0") and b"/grpc.health.v1.Health/Check" in received
        self.request.sendall(bytes.fromhex(answers[names[0]]))

socketserver.TCPServer(("", 50051), Handler).serve_forever()
"""


def grpc_probe(service: str) -> Json:
    return {"grpc": {"port": 50051, "service": service}, "periodSeconds": 1, "failureThreshold": 1}


def is_ready(pod: Json) -> bool:
    return any(status["ready"] for status in pod["status"].get("containerStatuses", []))


@runs_processes
@pytest.mark.slow
def test_a_pod_is_ready_and_restarted_by_the_answer_of_its_grpc_server(tmp_path: Path) -> None:
    answers = {name: content.hex() for name, content in (ANSWERS | {"ABSENT": NOT_IMPLEMENTED}).items()}
    command = ("python3", "-c", SERVER, json.dumps(answers))

    async def story(world: World) -> None:
        cases: dict[str, Json] = {
            "ready": {"readinessProbe": grpc_probe("SERVING")},
            "unready": {"readinessProbe": grpc_probe("NOT_SERVING")},
            "dead": {"livenessProbe": grpc_probe("ABSENT") | {"initialDelaySeconds": 2}},
        }
        for name, probes in cases.items():
            probes["startupProbe"] = grpc_probe("SERVING") | {"failureThreshold": 60}
            spec = {"containers": [container(*command, **probes)], "terminationGracePeriodSeconds": 1}
            await world.run_pod(name, spec)
        await world.until("ready", is_ready)
        await world.until_event(
            "unready", "Unhealthy", 'Readiness probe failed: service unhealthy (responded with "NOT_SERVING")'
        )
        pod = await world.pod("unready")
        assert ("running" in state_of(pod), is_ready(pod)) == (True, False)
        await world.until_event("dead", "Unhealthy", f"Liveness probe failed: {FAILED}")
        await world.until_event("dead", "Killing", "Container main failed liveness probe, will be restarted")

    run_story(tmp_path, story)

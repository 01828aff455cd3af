"""YAML of bodies: the same as PyYAML's own, with less work, and not on the event loop."""

import asyncio
import threading
import tracemalloc
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.codec import Json
from quorate.api.limits import LARGE_BYTES
from quorate.local.server.requests.yaml_bodies import read_yaml, write_yaml
from tests.local.api_client import ApiClient, run_with_server
from tests.local.clusters import api_server

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DOCUMENTS = st.recursive(
    SCALARS, lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(), parts, max_size=4)
)


@given(document=DOCUMENTS)
def test_a_document_is_written_as_by_pyyaml(document: Any) -> None:
    text = write_yaml(document)
    assert text == yaml.dump(document, Dumper=yaml.CSafeDumper, encoding="utf-8", sort_keys=True)
    assert msgspec.json.encode(read_yaml(text)[0]) == msgspec.json.encode(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: 1\nb: 2", []),
        ("a: 1\nb: 2\na: 3", ['line 3: key "a" already set in map']),
        ("a: {b: 1, b: 2}\nc: [{a: 1}, {a: 2}]", ['line 1: key "b" already set in map']),
        ("- a\n- a", []),
        ("a: {a: 1}\nb: a", []),
        ("x: &x {a: 1}\ny:\n  <<: *x\n  <<: *x\n  a: 2", []),
    ],
)
def test_duplicate_keys_are_found_with_their_lines(text: str, want: list[str]) -> None:
    assert read_yaml(text.encode())[1] == tuple(want)


DUPLICATE = """apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data:
  a: "1"
  b: "2"
  a: "3"
"""
FOUND = 'line 7: key "a" already set in map'


@pytest.mark.slow
def test_duplicate_keys_are_warnings_or_refused() -> None:
    async def scenario() -> None:
        async with api_server() as server, aiohttp.ClientSession() as session:
            for method, name, media_type in (
                ("POST", "", "application/yaml"),
                ("PATCH", "/m", "application/apply-patch+yaml"),
            ):
                for strictness in ("Strict", "Warn", "Ignore"):
                    async with session.request(
                        method,
                        f"{server.url}/api/v1/namespaces/default/configmaps{name}",
                        data=DUPLICATE,
                        params={"fieldManager": "m", "dryRun": "All", "fieldValidation": strictness},
                        headers={"Authorization": f"Bearer {server.token}", "Content-Type": media_type},
                    ) as response:
                        status, answer = response.status, await response.json()
                        warnings = response.headers.getall("Warning", [])
                    if strictness == "Strict":
                        assert (status, FOUND in answer["message"]) == (400, True)
                    else:
                        assert (status, answer["data"]["a"]) == (201, "3")
                    escaped = FOUND.replace('"', '\\"')
                    assert warnings == ([f'299 - "{escaped}"'] if strictness == "Warn" else [])

    asyncio.run(scenario())


def large_list() -> Json:
    def containers() -> list[Json]:
        return [{"name": f"c{at}", "env": [{"name": "A", "value": "x" * 40}]} for at in range(10)]

    return {"items": [{"metadata": {"name": f"p{at}"}, "spec": containers()} for at in range(400)]}


def test_a_large_list_is_written_without_a_copy_of_it() -> None:
    """A tree of nodes has 30 times as many bytes as the text, and the garbage collector visits all of it."""
    document = large_list()
    tracemalloc.start()
    text = write_yaml(document)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(text) > LARGE_BYTES
    assert peak_bytes < 6 * len(text)


@pytest.mark.slow
def test_a_list_as_yaml_is_the_list_as_json() -> None:
    async def scenario(client: ApiClient) -> None:
        path = "/api/v1/namespaces/default/configmaps"
        for at in range(3):
            data = {"key": "v" * (LARGE_BYTES // 2), "number": "1"}
            await client.create(path, {"metadata": {"name": f"m{at}"}, "data": data})
        _, expected = await client.send("GET", path)
        _, media_type, body = await client.send_bytes("GET", path, Accept="application/yaml")
        assert media_type == "application/yaml"
        assert yaml.safe_load(body) == expected
        _, _, again = await client.send_bytes(
            "PUT",
            f"{path}/m0",
            yaml.safe_dump(expected["items"][0]).encode(),
            Content_Type="application/yaml",
        )
        assert b"m0" in again

    run_with_server(scenario)


@pytest.mark.slow
def test_a_body_of_10_kb_is_parsed_beside_the_event_loop() -> None:
    others = set(threading.enumerate())

    def is_thread_used() -> bool:
        return any(thread.name.startswith("asyncio") for thread in set(threading.enumerate()) - others)

    async def scenario(client: ApiClient) -> None:
        path = "/api/v1/namespaces/default/configmaps"
        for name, is_in_thread in (("json", False), ("yaml", True)):
            obj = {"metadata": {"name": name}, "data": {"key": "v" * 10_000}}
            media_type = f"application/{name}"
            code, _, _ = await client.send_bytes(
                "POST",
                path,
                write_yaml(obj) if is_in_thread else msgspec.json.encode(obj),
                Content_Type=media_type,
            )
            assert code == 201
            assert is_thread_used() == is_in_thread

    run_with_server(scenario)

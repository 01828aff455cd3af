"""YAML of bodies: the same as PyYAML's own, with less work, and not on the event loop."""

import threading
import tracemalloc
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.limits import LARGE_BYTES
from quorate.local.objects.schema_types import Json
from quorate.local.server.requests.yaml_bodies import read_yaml, write_yaml
from tests.local.api_client import ApiClient, run_with_server

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DOCUMENTS = st.recursive(
    SCALARS, lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(), parts, max_size=4)
)


@given(document=DOCUMENTS)
def test_a_document_is_written_as_by_pyyaml(document: Any) -> None:
    text = write_yaml(document)
    assert text == yaml.dump(document, Dumper=yaml.CSafeDumper, encoding="utf-8", sort_keys=True)
    assert msgspec.json.encode(read_yaml(text)) == msgspec.json.encode(yaml.safe_load(text))


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
    def is_thread_used() -> bool:
        return any(thread.name.startswith("asyncio") for thread in threading.enumerate())

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

"""What is sent fits the API, and large bodies are encoded beside the event loop."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from quorate.api.limits import LARGE_BYTES, MANY_VALUES
from quorate.kube.resources import CLUSTER_QUEUES, PODS
from quorate.kube.rest.encoding import encode_object, encode_patch, has_many_values


class Observed(Mapping[str, str]):
    """An empty mapping that records the threads in which it is encoded."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def __iter__(self) -> Iterator[str]:
        self.threads.add(threading.get_ident())
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: str) -> str:
        raise KeyError(key)


@pytest.mark.parametrize(
    ("value", "many"),
    [
        pytest.param({"a": [1, {"b": 2}]}, False, id="a few"),
        pytest.param(["x"] * MANY_VALUES, False, id="as many as allowed"),
        pytest.param(["x"] * (MANY_VALUES + 1), True, id="one more"),
        pytest.param({"a": [{"b": {"c": list(range(100))}}] * 60}, True, id="nested"),
        pytest.param("x" * 10 * MANY_VALUES, False, id="a text"),
    ],
)
def test_values_are_counted_at_all_levels(value: object, many: bool) -> None:
    assert has_many_values(value) is many


@pytest.mark.parametrize("encode", [encode_object, encode_patch])
@pytest.mark.parametrize(("entries", "beside_the_loop"), [(10, False), (MANY_VALUES, True)])
def test_large_bodies_are_encoded_in_a_thread(encode: Any, entries: int, beside_the_loop: bool) -> None:
    observed = Observed()
    asyncio.run(encode(PODS, {"spec": {"observed": observed, "many": list(range(entries))}}))
    assert len(observed.threads) == 1
    assert (threading.get_ident() not in observed.threads) is beside_the_loop


@pytest.mark.parametrize("padding", ["", "x" * LARGE_BYTES], ids=["a small body", "a large body"])
def test_integers_beyond_the_range_of_their_field_are_limited(padding: str) -> None:
    patch = {"metadata": {"name": padding}, "status": {"pendingWorkloads": 10**12}}
    assert b'"pendingWorkloads":2147483647' in asyncio.run(encode_patch(CLUSTER_QUEUES, patch))

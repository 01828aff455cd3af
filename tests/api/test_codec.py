from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.core import ResourceRequirements
from quorate.api.kueue import ClusterQueue
from quorate.api.quantity import parse_quantity


@pytest.mark.parametrize("text", ["1.10", "1e3", "-0.5", "7", "true", '"1.5"'])
def test_untyped_json_is_encoded_unchanged(text: str) -> None:
    document = f'{{"a":[{text}]}}'.encode()
    assert codec.encode(codec.decode(dict[str, Any], document)) == document


def test_a_fraction_without_a_type_is_a_float() -> None:
    decoded = codec.decode(dict[str, Any], b'{"a": 1.5}')
    assert decoded["a"] * 2 == 3.0
    assert type(codec.to_builtins(decoded)["a"]) is float


def test_a_quantity_written_as_a_number_is_exact() -> None:
    decoded = codec.decode(ResourceRequirements, b'{"requests": {"cpu": 0.1, "memory": 1e3}}')
    assert decoded.requests == {"cpu": parse_quantity("0.1"), "memory": parse_quantity("1e3")}


def test_an_error_does_not_repeat_a_long_value() -> None:
    document = {"metadata": {"name": "a"}, "spec": {"queueingStrategy": "x" * 500_000}}
    with pytest.raises(msgspec.ValidationError) as raised:
        codec.decode(ClusterQueue, codec.encode(document))
    text = str(raised.value)
    assert len(text) < 1100
    assert text.startswith("Invalid enum value 'xxx")
    assert text.endswith("at `$.spec.queueingStrategy`")


def test_the_quantities_of_an_object_are_bounded() -> None:
    def document(number: int) -> bytes:
        return codec.encode({"requests": {f"a.b/{each}": "1m" for each in range(number)}})

    assert len(codec.decode(ResourceRequirements, document(codec.MAX_QUANTITIES)).requests) == 8192
    with pytest.raises(msgspec.ValidationError) as raised:
        codec.decode(ResourceRequirements, document(codec.MAX_QUANTITIES + 1))
    assert str(raised.value) == "more than 8192 quantities, which are not read - at `$.requests[...]`"
    assert len(codec.decode(ResourceRequirements, document(1)).requests) == 1  # of each object


def test_each_thread_counts_the_quantities_that_it_reads() -> None:
    content = codec.encode({"requests": {f"a.b/{each}": "1m" for each in range(6000)}})
    with ThreadPoolExecutor(4) as threads:
        decoded = threads.map(lambda _: codec.decode(ResourceRequirements, content), range(40))
        assert all(len(each.requests) == 6000 for each in decoded)

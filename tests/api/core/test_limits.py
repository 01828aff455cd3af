"""Objects with more names of resources than a scheduler can consider are not decoded."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.core import MAX_RESOURCES
from quorate.api.core.scheduling import Node
from quorate.api.volcano import PodGroup


def resources(number: int) -> dict[str, str]:
    return {f"example.com/r{at}": "1" for at in range(number)}


def node(amounts: dict[str, str]) -> Node:
    return codec.convert(Node, {"metadata": {"name": "n"}, "status": {"allocatable": amounts}})


def group(kind: type[Any]) -> Callable[[dict[str, str]], Any]:
    return lambda amounts: codec.convert(kind, {"metadata": {"name": "g"}, "spec": {"minResources": amounts}})


@pytest.mark.parametrize("decode", [node, group(PodGroup)])
def test_the_number_of_resources_is_limited(decode: Callable[[dict[str, str]], Any]) -> None:
    assert decode(resources(MAX_RESOURCES)).metadata.name
    with pytest.raises(msgspec.ValidationError, match=r": 513 resources, at most 512 are considered"):
        decode(resources(MAX_RESOURCES + 1))

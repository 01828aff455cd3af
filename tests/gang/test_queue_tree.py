"""What queues are entitled to, side by side and in a tree."""

from typing import Any

import pytest

from quorate.gang.queue import Queue
from quorate.gang.queue_tree import BrokenTree, Entitlement, side_by_side, tree
from quorate.gang.reading import queue_of
from quorate.quota.amount import UNLIMITED
from tests.gang import objects
from tests.gang.asking import Json

GPU = "nvidia.com/gpu"
TOTAL = {"cpu": 10_000, GPU: 4}


def read(queues: list[Json]) -> dict[str, Queue]:
    return {queue["name"]: queue_of(objects.queue(queue)) for queue in queues}


def entitled(queues: list[Json]) -> dict[str, Entitlement]:
    found = tree(read(queues))
    assert not isinstance(found, BrokenTree), found
    return found


@pytest.mark.parametrize(
    ("queue", "others", "ceiling", "deserved"),
    [
        pytest.param(
            {}, [], {"cpu": 10_000, GPU: 4}, {}, id="who says nothing may have all and deserves nothing"
        ),
        pytest.param(
            {"deserved": {"cpu": 3}, "capability": {"cpu": 6}},
            [],
            {"cpu": 6_000, GPU: 4},
            {"cpu": 3_000},
            id="between what it deserves and its capability it borrows",
        ),
        pytest.param(
            {"deserved": {"cpu": 8}},
            [{"name": "other", "guarantee": {"cpu": 4}}],
            {"cpu": 6_000, GPU: 4},
            {"cpu": 6_000},
            id="nobody deserves what is guaranteed to others",
        ),
        pytest.param(
            {"deserved": {"cpu": 1}, "guarantee": {"cpu": 2, GPU: 1}},
            [],
            {"cpu": 10_000, GPU: 4},
            {"cpu": 2_000, GPU: 1},
            id="what is guaranteed is deserved",
        ),
        pytest.param(
            {"deserved": {"example.com/tpu": 2}},
            [],
            {"cpu": 10_000, GPU: 4},
            {"example.com/tpu": 2},
            id="what no node has can be deserved",
        ),
        pytest.param({"deserved": {"memory": "1Gi"}}, [], TOTAL, {"memory": 0}, id="but for memory and cpu"),
    ],
)
def test_side_by_side(queue: Json, others: list[Json], ceiling: Any, deserved: Any) -> None:
    got = side_by_side(TOTAL, read([{"name": "q", **queue}, *others]))["q"]
    assert (got.path, got.ceiling.named, got.ceiling.others, got.deserved) == (("q",), ceiling, 0, deserved)


def test_the_root_limits_nothing_unless_told_to() -> None:
    got = entitled([{"name": "q", "deserved": {"cpu": 1}, "guarantee": {"cpu": 2, GPU: 1}}, {"name": "r"}])
    assert got["root"].ceiling.of("cpu") == UNLIMITED
    assert got["q"].ceiling.of("cpu") == UNLIMITED
    assert (got["root"].deserved, got["root"].guarantee) == ({"cpu": 2_000, GPU: 1}, {"cpu": 2_000, GPU: 1})
    assert (got["q"].path, got["q"].is_leaf, got["root"].is_leaf) == (("root", "q"), True, False)

    got = entitled([{"name": "root", "capability": {"cpu": 6}}, {"name": "q"}])
    assert (got["q"].ceiling.of("cpu"), got["q"].ceiling.of("memory")) == (6_000, UNLIMITED)


def test_capabilities_are_inherited_down_to_where_they_are_said_anew() -> None:
    got = entitled(
        [
            {"name": "dept", "capability": {"cpu": 8, GPU: 2}},
            {"name": "team", "parent": "dept", "capability": {"cpu": 6}},
            {"name": "me", "parent": "team", "capability": {GPU: 9}},
        ]
    )
    assert got["me"].path == ("root", "dept", "team", "me")
    assert [got[name].ceiling.of("cpu") for name in ("dept", "team", "me")] == [8_000, 6_000, 6_000]
    assert [got[name].ceiling.of(GPU) for name in ("dept", "team", "me")] == [2, 2, 2], "above limits below"
    assert got["me"].ceiling.of("memory") == UNLIMITED


def test_what_is_guaranteed_to_siblings_is_out_of_reach() -> None:
    got = entitled(
        [
            {"name": "dept", "capability": {"cpu": 8}},
            {"name": "a", "parent": "dept", "guarantee": {"cpu": 3}, "deserved": {"cpu": 7}},
            {"name": "b", "parent": "dept", "guarantee": {"cpu": 1}, "capability": {"cpu": 2}},
            {"name": "c", "parent": "dept", "deserved": {"cpu": 5, "memory": "1Gi"}},
        ]
    )
    assert {name: got[name].ceiling.of("cpu") for name in "abc"} == {"a": 7_000, "b": 2_000, "c": 4_000}
    assert got["a"].deserved == {"cpu": 7_000}
    assert got["c"].deserved == {"cpu": 4_000, "memory": 1 << 30}


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        pytest.param(
            [{"name": "q", "parent": "gone"}],
            BrokenTree("q", "is below queue gone, which does not exist"),
            id="an unknown parent",
        ),
        pytest.param(
            [{"name": "q"}, {"name": "b", "parent": "a"}, {"name": "a", "parent": "b"}],
            BrokenTree("a", "is not below the root, but in a circle"),
            id="a circle",
        ),
        pytest.param(
            [{"name": "a", "parent": "a"}],
            BrokenTree("a", "is not below the root, but in a circle"),
            id="its own parent",
        ),
    ],
)
def test_what_is_no_tree(queues: list[Json], want: BrokenTree) -> None:
    assert tree(read(queues)) == want

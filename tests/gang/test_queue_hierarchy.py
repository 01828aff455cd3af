"""What queues are entitled to, without and with a hierarchy."""

from typing import Any

import pytest

from quorate.gang.cache.from_objects import queue_from_object
from quorate.gang.cache.queue import Queue
from quorate.gang.plugins.queue_hierarchy import (
    Entitlement,
    flat_entitlements,
    hierarchical_entitlements,
)
from quorate.quota.amount import UNLIMITED
from tests.gang import objects
from tests.gang.plugin_session import Json

GPU = "nvidia.com/gpu"
TOTAL = {"cpu": 10_000, GPU: 4}


def read(queues: list[Json]) -> dict[str, Queue]:
    return {queue["name"]: queue_from_object(objects.queue(queue)) for queue in queues}


def entitled(queues: list[Json]) -> dict[str, Entitlement]:
    return hierarchical_entitlements(read(queues))


@pytest.mark.parametrize(
    ("queue", "others", "ceiling", "deserved"),
    [
        pytest.param(
            {},
            [],
            {"cpu": 10_000, GPU: 4},
            {},
            id="without settings a queue may have all and deserves nothing",
        ),
        pytest.param(
            {"deserved": {"cpu": 3}, "capability": {"cpu": 6}},
            [],
            {"cpu": 6_000, GPU: 4},
            {"cpu": 3_000},
            id="it borrows between its deserved amounts and its capability",
        ),
        pytest.param(
            {"deserved": {"cpu": 8}},
            [{"name": "other", "guarantee": {"cpu": 4}}],
            {"cpu": 6_000, GPU: 4},
            {"cpu": 6_000},
            id="no queue deserves the guarantees of other queues",
        ),
        pytest.param(
            {"deserved": {"cpu": 1}, "guarantee": {"cpu": 2, GPU: 1}},
            [],
            {"cpu": 10_000, GPU: 4},
            {"cpu": 2_000, GPU: 1},
            id="guarantees are deserved",
        ),
        pytest.param(
            {"deserved": {"example.com/tpu": 2}},
            [],
            {"cpu": 10_000, GPU: 4},
            {"example.com/tpu": 2},
            id="a resource that no node has can be deserved",
        ),
        pytest.param(
            {"deserved": {"memory": "1Gi"}}, [], TOTAL, {"memory": 0}, id="except for memory and cpu"
        ),
    ],
)
def test_flat_entitlements(queue: Json, others: list[Json], ceiling: Any, deserved: Any) -> None:
    got = flat_entitlements(TOTAL, read([{"name": "q", **queue}, *others]))["q"]
    assert (got.path, got.limits.named, got.limits.default, got.deserved) == (("q",), ceiling, 0, deserved)


def test_the_root_has_only_the_limits_of_its_object() -> None:
    got = entitled([{"name": "q", "deserved": {"cpu": 1}, "guarantee": {"cpu": 2, GPU: 1}}, {"name": "r"}])
    assert got["root"].limits.of("cpu") == UNLIMITED
    assert got["q"].limits.of("cpu") == UNLIMITED
    assert (got["root"].deserved, got["root"].guarantee) == ({"cpu": 2_000, GPU: 1}, {"cpu": 2_000, GPU: 1})
    assert (got["q"].path, got["q"].invalid) == (("root", "q"), None)

    got = entitled([{"name": "root", "capability": {"cpu": 6}}, {"name": "q"}])
    assert (got["q"].limits.of("cpu"), got["q"].limits.of("memory")) == (6_000, UNLIMITED)


def test_capabilities_are_inherited_unless_a_queue_sets_its_own() -> None:
    got = entitled(
        [
            {"name": "dept", "capability": {"cpu": 8, GPU: 2}},
            {"name": "team", "parent": "dept", "capability": {"cpu": 6}},
            {"name": "me", "parent": "team", "capability": {GPU: 9}},
        ]
    )
    assert got["me"].path == ("root", "dept", "team", "me")
    assert [got[name].limits.of("cpu") for name in ("dept", "team", "me")] == [8_000, 6_000, 6_000]
    assert [got[name].limits.of(GPU) for name in ("dept", "team", "me")] == [2, 2, 2], "above limits below"
    assert got["me"].limits.of("memory") == UNLIMITED


def test_guarantees_of_siblings_are_not_available() -> None:
    got = entitled(
        [
            {"name": "dept", "capability": {"cpu": 8}},
            {"name": "a", "parent": "dept", "guarantee": {"cpu": 3}, "deserved": {"cpu": 7}},
            {"name": "b", "parent": "dept", "guarantee": {"cpu": 1}, "capability": {"cpu": 2}},
            {"name": "c", "parent": "dept", "deserved": {"cpu": 5, "memory": "1Gi"}},
        ]
    )
    assert {name: got[name].limits.of("cpu") for name in "abc"} == {"a": 7_000, "b": 2_000, "c": 4_000}
    assert got["a"].deserved == {"cpu": 7_000}
    assert got["c"].deserved == {"cpu": 4_000, "memory": 1 << 30}


CYCLE = "queue {} is not below the root, but in a cycle"
UNKNOWN = "queue {} is below queue gone, which does not exist"
INNER = "queue {} has queues below it, and only queues without any serve pod groups"


@pytest.mark.parametrize(
    ("queues", "invalid"),
    [
        pytest.param([{"name": "q"}, {"name": "r"}], {"root": INNER.format("root")}, id="leaves"),
        pytest.param([{"name": "root"}], {}, id="the root alone is a leaf"),
        pytest.param([{"name": "q", "parent": "gone"}], {"q": UNKNOWN.format("q")}, id="an unknown parent"),
        pytest.param(
            [{"name": "p", "parent": "gone"}, {"name": "q", "parent": "p"}, {"name": "ok"}],
            {"p": UNKNOWN.format("p"), "q": UNKNOWN.format("p"), "root": INNER.format("root")},
            id="below a queue with an unknown parent",
        ),
        pytest.param(
            [{"name": "q"}, {"name": "b", "parent": "a"}, {"name": "a", "parent": "b"}],
            {"a": CYCLE.format("a"), "b": CYCLE.format("b"), "root": INNER.format("root")},
            id="a cycle",
        ),
        pytest.param([{"name": "a", "parent": "a"}], {"a": CYCLE.format("a")}, id="its own parent"),
        pytest.param(
            [{"name": "a", "parent": "a"}, {"name": "b", "parent": "a"}, {"name": "c", "parent": "b"}],
            {name: CYCLE.format("a") for name in "abc"},
            id="below a cycle",
        ),
        pytest.param(
            [{"name": "dept"}, {"name": "team", "parent": "dept"}, {"name": "me", "parent": "team"}],
            {name: INNER.format(name) for name in ("root", "dept", "team")},
            id="inner queues",
        ),
    ],
)
def test_only_the_subtree_of_a_faulty_queue_is_invalid(queues: list[Json], invalid: dict[str, str]) -> None:
    got = entitled(queues)
    assert {name: str(each.invalid) for name, each in got.items() if each.invalid} == invalid


def test_a_detached_queue_keeps_what_it_deserves_and_takes_nothing_from_others() -> None:
    healthy: list[Json] = [{"name": "root", "capability": {"cpu": 8}}, {"name": "a", "deserved": {"cpu": 5}}]
    lost = {"name": "b", "parent": "gone", "guarantee": {"cpu": 6}, "deserved": {"cpu": 7}}
    got = entitled([*healthy, lost])
    assert {name: got[name] for name in ("root", "a")} == entitled(healthy)
    assert (got["b"].path, got["b"].deserved) == (("root", "b"), {"cpu": 7_000})

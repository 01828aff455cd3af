"""The numbers of ``docs/concepts/queues-of-gangs.md``, computed and run."""

from typing import Any

from quorate.gang.cache.from_objects import queue_from_object
from quorate.gang.deserved import deserved
from tests.docs.page import section
from tests.gang import objects
from tests.gang.plugin_session import PluginSession
from tests.gang.vectors import settings_of
from tests.gang.vectors_shares import claims, read
from tests.gang.world import World

PAGE = "queues-of-gangs.md"
GANGS: list[Any] = ["priority", "gang", "conformance"]
NODES: list[Any] = ["predicates", "nodeorder"]


def cpus(milli: Any) -> str:
    assert milli % 1000 == 0, milli
    return str(milli // 1000)


def test_shares_by_weight() -> None:
    rows = section(PAGE, "Proportion: shares by weight").table("queue", "weight", "requests", "deserves")
    more: dict[str, Any] = {"c": {"capability": {"cpu": 3}}, "d": {"guarantee": {"cpu": 1}}}
    queues = {
        row["queue"]: {"name": row["queue"], "weight": int(row["weight"]), **more.get(row["queue"], {})}
        for row in rows
    }
    opened = {row["queue"]: read({"cpu": row["requests"]}) for row in rows}
    total = read({"cpu": 12})
    got = deserved(
        total,
        claims(
            total, {name: queue_from_object(objects.queue(each)) for name, each in queues.items()}, opened
        ),
    )
    for row in rows:
        assert row["deserves"] == cpus(got[row["queue"]]["cpu"]), row


def test_fractional_cpu() -> None:
    queues = [{"name": name} for name in "abc"]
    groups = [{"name": name, "queue": name} for name in "abc"]
    pods = [{"name": name, "group": name, "count": 9, "cpu": 1} for name in "abc"]
    given = {"nodes": [{"name": "n1", "cpu": 10}], "queues": queues, "podGroups": groups, "pods": pods}
    world = World(
        given,
        settings_of({"actions": "allocate", "tiers": [[*GANGS, "proportion", *NODES]]}, "design"),
        restarting=False,
    )
    world.start_step()
    world.session()
    assert world.bound_for == {"a": 3, "b": 3, "c": 3}


def test_by_deserved_share() -> None:
    rows = section(PAGE, "Capacity: deserved amounts").table("when", "lab has", "field has")
    given = {
        "nodes": [{"name": "n1", "cpu": 10}],
        "queues": [
            {"name": "lab", "deserved": {"cpu": 2}, "capability": {"cpu": 6}},
            {"name": "field", "deserved": {"cpu": 8}, "guarantee": {"cpu": 3}},
        ],
        "podGroups": [{"name": "lab", "queue": "lab", "minMember": 1, "created": 1}],
        "pods": [{"name": "lab", "count": 20, "group": "lab", "cpu": 1}],
    }
    conf = {"actions": "enqueue, allocate, reclaim", "tiers": [[*GANGS, "capacity", *NODES]]}
    world = World(given, settings_of(conf, "design"), restarting=False)

    def has(queue: str) -> str:
        pods = (pod for pod in world.pods.values() if pod.metadata.name.startswith(queue))
        holds = [pod for pod in pods if pod.node_name and pod.metadata.deletion_timestamp is None]
        return str(len(holds))

    def settle() -> None:
        for _ in range(12):
            world.session()
            world.do("start", "all")
            world.do("reap", "all")

    settle()
    assert (has("lab"), has("field")) == (rows[0]["lab has"], rows[0]["field has"])
    groups = [
        {"name": f"field-{index}", "queue": "field", "minMember": 1, "created": 2 + index}
        for index in range(8)
    ]
    world.do("addPodGroups", groups[:4])
    world.do(
        "addPods",
        [{"name": each["name"], "count": 1, "group": each["name"], "cpu": 1} for each in groups[:4]],
    )
    settle()
    assert (has("lab"), has("field")) == (rows[1]["lab has"], rows[1]["field has"])
    world.do("addPodGroups", groups[4:])
    world.do(
        "addPods",
        [{"name": each["name"], "count": 1, "group": each["name"], "cpu": 1} for each in groups[4:]],
    )
    settle()
    assert (has("lab"), has("field")) == (rows[2]["lab has"], rows[2]["field has"])


def test_hierarchical_queues() -> None:
    rows = section(PAGE, "Capacity: queue hierarchy").table("group", "queue", "requests", "message")
    queues = [
        {"name": "dept", "capability": {"cpu": 6}},
        *({"name": name, "parent": "dept"} for name in ("t1", "t2")),
    ]
    groups = [
        {"name": row["group"], "queue": row["queue"], "minResources": {"cpu": int(row["requests"])}}
        for row in rows
    ]
    opened = PluginSession(
        {"queues": queues, "podGroups": groups}, [{"name": "capacity", "enableHierarchy": True}]
    )
    for row in rows:
        assert opened.admission(row["group"]) == row["message"]
        if not row["message"]:
            opened.admit(row["group"])

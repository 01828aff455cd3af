"""Queue accounts: the incremental sums equal those computed from scratch."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.gang.cache.queue_accounts import Ledger, ResourceLimits
from quorate.quota.amount import UNLIMITED
from tests.gang.objects import pod_group, pods
from tests.gang.plugin_session import Json, PluginSession

groups = st.sampled_from(["a", "b", "c"])
amounts = st.none() | st.fixed_dictionaries(
    {}, optional={"cpu": st.integers(0, 5), "nvidia.com/gpu": st.just(1)}
)
put_group = st.fixed_dictionaries(
    {
        "name": groups,
        "queue": st.sampled_from(["q1", "q2", "gone"]),
        "minMember": st.integers(0, 3),
        "phase": st.sampled_from(["", "Pending", "Inqueue", "Running", "Unknown", "Completed"]),
        "minResources": amounts,
    }
)
put_pod = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["p1", "p2", "p3", "p4"]),
        "group": groups,
        "cpu": st.integers(0, 3),
        "node": st.sampled_from(["", "n1"]),
        "phase": st.sampled_from(["Pending", "Running", "Succeeded"]),
        "gated": st.booleans(),
        "deleting": st.booleans(),
    }
)
changes = st.lists(
    st.tuples(st.just("group"), put_group)
    | st.tuples(st.just("pod"), put_pod)
    | st.tuples(st.just("delete"), groups)
    | st.tuples(st.just("try"), st.booleans()),
    max_size=12,
)


@given(changes)
def test_the_ledger_equals_one_computed_from_scratch(made: list[tuple[str, Any]]) -> None:
    world = {"nodes": [{"name": "n1", "cpu": 10}], "queues": [{"name": "q1"}, {"name": "q2"}]}
    opened = PluginSession(world, ["gang"])
    model = opened.world.model
    for kind, change in made:
        match kind:
            case "group":
                opened.world.put_group(pod_group(change))
            case "pod":
                opened.world.put_pods(pods(change, {}))
            case "delete" if any(key.name == change for key in opened.world.groups):
                opened.world.do("deletePodGroups", [change])
            case "try":
                make_and_undo_moves(opened)
        gangs = list(model.participating_gangs())
        assert model.ledger.accounts(gangs) == Ledger().accounts(gangs)


def test_a_group_created_anew_is_not_mistaken_for_the_old_one() -> None:
    world = {"nodes": [{"name": "n1", "cpu": 10}], "podGroups": [{"name": "a"}]}
    opened = PluginSession(world, ["gang"])
    opened.world.put_pods(pods({"name": "p", "group": "a", "cpu": 2, "node": "n1", "phase": "Running"}, {}))
    ledger = opened.world.model.ledger
    assert ledger.accounts([opened.gang("a")])["default"].allocated["cpu"] == 2000
    opened.world.do("deletePods", ["p"])
    opened.world.do("deletePodGroups", ["a"])
    opened.world.put_group(pod_group({"name": "a"}))
    opened.world.put_pods(pods({"name": "p", "group": "a", "cpu": 3, "node": "n1", "phase": "Running"}, {}))
    assert ledger.accounts([opened.gang("a")])["default"].allocated["cpu"] == 3000


def make_and_undo_moves(opened: PluginSession) -> None:
    with opened.session.statement() as statement:
        for gang in opened.world.model.gangs.values():
            for task in list(gang.tasks.values()):
                if task.node and task.status.value == "Running":
                    statement.evict(task)
                elif task.status.value == "Pending":
                    (statement.allocate if task.gated else statement.pipeline)(task, "n1")


def test_a_path_counts_in_each_of_its_queues() -> None:
    world: Json = {
        "nodes": [{"name": "n1", "cpu": 10}],
        "queues": [{"name": "q1"}, {"name": "q2"}, {"name": "both"}],
        "podGroups": [
            {"name": "a", "queue": "q1", "phase": "Inqueue", "minResources": {"cpu": 3}},
            {"name": "b", "queue": "q2", "minResources": {"cpu": 1}},
        ],
        "pods": [
            {"name": "a", "group": "a", "cpu": 1, "node": "n1"},
            {"name": "b", "group": "b", "count": 2, "cpu": 1, "node": "n1"},
        ],
    }
    opened = PluginSession(world, ["gang"])
    accounts = opened.session.open_accounts(lambda queue: ("both", queue))
    both = accounts.by_queue["both"]
    assert (both.gangs, both.allocated["cpu"], both.reserved["cpu"], both.elastic["cpu"]) == (
        2,
        3000,
        2000,
        1000,
    )
    accounts.reserve(opened.gang("b"))
    assert (both.reserved["cpu"], accounts.by_queue["q1"].reserved["cpu"]) == (3000, 2000)
    accounts.on_deallocate(opened.task("a"))
    assert (both.allocated, accounts.allocated("q1")) == ({"cpu": 2000, "pods": 2}, {})


def test_limits_apply_to_requested_resources() -> None:
    limits = ResourceLimits({"cpu": 4, "memory": 2})
    assert limits.allow({"cpu": 3, "memory": 9}, {"cpu": 1, "memory": 0, "pods": 5})
    assert not limits.allow({"cpu": 3}, {"cpu": 2})
    assert not limits.allow({}, {"gpu": 1})
    assert ResourceLimits({"cpu": 4}, UNLIMITED).allow({}, {"gpu": 1})

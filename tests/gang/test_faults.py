"""An object on which a session raises, or that cannot be read, is set aside; everything else is placed."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Node
from quorate.api.meta import Key, Uid
from quorate.api.quantity import Quantity
from quorate.api.scheduler_configuration import load_scheduler_configuration
from quorate.gang.actions import ACTIONS
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.reservations import reserved_for
from quorate.gang.cache.task import TaskStatus
from quorate.gang.reports import allocated_by_queue
from quorate.gang.session.session import Session
from quorate.gang.session_run import SessionFailed, run_session
from quorate.placement.framework import Capacity
from tests.gang.world import World

SETTINGS = load_scheduler_configuration(
    """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
"""
).configuration


def two_gangs(nodes: int = 1) -> World:
    given = {
        "nodes": [{"name": f"n{number}", "cpu": 4} for number in range(1, nodes + 1)],
        "podGroups": [{"name": name, "minMember": 1, "phase": "Inqueue"} for name in ("good", "odd")],
        "pods": [{"name": f"{name}-0", "group": name, "cpu": 1} for name in ("good", "odd")],
    }
    return World(given, SETTINGS, restarting=False)


def test_a_gang_on_which_a_session_raises_is_set_aside_until_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raise_on_odd(session: Session) -> None:
        for gang in session.gangs:
            if gang.key.name == "odd":
                raise LookupError("no such plugin")

    monkeypatch.setitem(ACTIONS, "backfill", raise_on_odd)
    world = two_gangs()
    model = world.model
    with pytest.raises(SessionFailed) as failed:
        run_session(model, SETTINGS, world.now)
    odd = failed.value.subject
    assert isinstance(odd, Gang)
    assert odd.key.name == "odd"
    statuses = [task.status for gang in model.gangs.values() for task in gang.tasks.values()]
    assert statuses == [TaskStatus.PENDING] * 2  # the binds that were decided before are undone
    assert not model.cluster.used.any()

    model.set_gang_aside(odd.key)
    assert [bind.task.name for bind in run_session(model, SETTINGS, world.now).binds] == ["good-0"]

    monkeypatch.undo()
    world.put_group(world.groups[odd.key])
    assert [bind.task.name for bind in run_session(model, SETTINGS, world.now).binds] == ["odd-0"]


def test_a_session_that_raises_on_a_pod_or_a_node_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_on_pods(session: Session) -> None:
        for pod in (task.pod for gang in session.gangs for task in gang.tasks.values()):
            if pod.metadata.name == "odd-0":
                raise LookupError("no such volume")

    def raise_on_nodes(session: Session) -> None:
        for node in session.model.cluster.nodes:
            if node is not None and node.metadata.name == "n2":
                raise LookupError("no such zone")

    world = two_gangs(2)
    for raising, want in ((raise_on_pods, (Pod, "odd-0")), (raise_on_nodes, (Node, "n2"))):
        monkeypatch.setitem(ACTIONS, "backfill", raising)
        with pytest.raises(SessionFailed) as failed:
            run_session(world.model, SETTINGS, world.now)
        subject = failed.value.subject
        assert isinstance(subject, Pod | Node)
        assert (type(subject), subject.metadata.name) == want


@pytest.mark.parametrize(
    ("unreadable", "bound_to"),
    [
        pytest.param({"x": "n1"}, {"n2"}, id="its node takes no pod"),
        pytest.param({"x": "n1", "y": "n1", "z": "n2"}, set(), id="several pods and nodes"),
        pytest.param({"x": ""}, {"n1", "n2"}, id="a pod without a node holds nothing"),
        pytest.param({"x": "unknown"}, {"n1", "n2"}, id="a node that does not exist"),
    ],
)
def test_a_node_with_a_pod_that_cannot_be_read_takes_no_other(
    unreadable: dict[str, str], bound_to: set[str]
) -> None:
    world = two_gangs(2)
    for name, node in unreadable.items():
        world.model.set_unreadable_pod(Key("default", name), node)
    outcome = run_session(world.model, SETTINGS, world.now)
    assert {bind.node for bind in outcome.binds} <= bound_to
    assert bool(outcome.binds) is bool(bound_to)
    if not bound_to:
        (reason, _) = map(str, outcome.pending_reasons.values())
        assert "1 node(s) had pod default/x, which cannot be read" in reason
        assert "1 node(s) had pod default/z, which cannot be read" in reason
    for name in unreadable:
        world.model.remove_unreadable_pod(Key("default", name))
    again = run_session(world.model, SETTINGS, world.now)
    assert len(outcome.binds) + len(again.binds) == 2


def test_a_pod_that_becomes_unreadable_gives_its_resources_up_for_its_whole_node() -> None:
    world = two_gangs(2)
    (first, _) = run_session(world.model, SETTINGS, world.now).binds
    world.model.set_unreadable_pod(first.task, first.node)
    assert world.model.cluster.occupants.get(Uid(first.uid)) is None
    assert _free_nodes(world) == {"n1", "n2"} - {first.node}


def encoded(**requests: str) -> EncodedRequests:
    many = {f"a.b/{number}": "1" for number in range(10_000)}
    return EncodedRequests(codec.encode({**many, **requests}))


def test_a_pod_with_thousands_of_resources_takes_what_nodes_offer_of_them() -> None:
    world = two_gangs()
    model, large = world.model, Key("default", "large")
    model.set_unreadable_pod(large, "n1", encoded(cpu="3"))
    assert len(run_session(model, SETTINGS, world.now).binds) == 1  # there is room for one of two
    assert model.cluster.total_used == {"cpu": 4000, "pods": 2}
    assert len(model.cluster.rows) < 10

    model.set_unreadable_pod(large, "n1", encoded(cpu="1"))
    assert len(run_session(model, SETTINGS, world.now).binds) == 1
    assert model.cluster.total_used == {"cpu": 3000, "pods": 3}
    model.remove_unreadable_pod(large)
    assert model.cluster.total_used == {"cpu": 2000, "pods": 2}


def test_a_resource_that_a_node_offers_later_is_counted_for_large_pods() -> None:
    world = two_gangs()
    model = world.model
    model.set_unreadable_pod(Key("default", "large"), "n1", encoded())
    assert "a.b/7" not in model.cluster.total_used
    (node,) = (each for each in model.cluster.nodes if each is not None)
    allocatable = {**node.status.allocatable, "a.b/7": Quantity.of_units(8)}
    model.set_node(replace(node, status=replace(node.status, allocatable=allocatable)))
    assert model.cluster.total_used["a.b/7"] == 1


def test_a_large_pod_that_can_be_read_again_counts_once() -> None:
    world = two_gangs()
    (first, _) = run_session(world.model, SETTINGS, world.now).binds
    key, pod = first.task, next(each for each in world.pods.values() if each.metadata.key == first.task)
    world.model.set_unreadable_pod(key, first.node, encoded(cpu="1"))
    assert world.model.cluster.total_used["cpu"] == 2000
    world.model.set_pod(replace(pod, node_name=first.node))
    world.model.remove_unreadable_pod(key)
    assert world.model.cluster.total_used["cpu"] == 2000


def _free_nodes(world: World) -> set[str]:
    shape = next(task.shape for gang in world.model.gangs.values() for task in gang.tasks.values())
    passing = world.model.constraints.filter(shape).passing(Capacity.IDLE)
    cluster = world.model.cluster
    return {cluster.name(index) for index in range(cluster.size) if cluster.nodes[index] and passing[index]}


def running_gang() -> World:
    """Return a world in which pods of two gangs of one queue hold 3 cpus."""
    given = {
        "nodes": [{"name": "n1", "cpu": 4}],
        "queues": [{"name": "default"}, {"name": "team"}],
        "podGroups": [
            {"name": name, "minMember": 1, "phase": "Running", "queue": "team"} for name in ("good", "odd")
        ],
        "pods": [
            {"name": name, "group": name.partition("-")[0], "cpu": 1, "node": "n1", "phase": "Running"}
            for name in ("good-0", "odd-0", "odd-1")
        ],
    }
    return World(given, SETTINGS, restarting=False)


ODD = Key("default", "odd")


def cpus(model: Model) -> int:
    return allocated_by_queue(model)["team"].get("cpu", 0) // 1000


def test_the_pods_of_a_gang_that_is_set_aside_count_in_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    def reserve(gang: Gang) -> Mapping[str, int]:
        if gang.key == ODD:
            raise LookupError("no such member")
        return reserved_for(gang)

    world = running_gang()
    model = world.model
    assert cpus(model) == 3
    monkeypatch.setattr("quorate.gang.cache.queue_accounts.reserved_for", reserve)
    world.put_group(world.groups[ODD])
    model.set_gang_aside(ODD)
    assert cpus(model) == 3
    world.remove_pods([Key("default", "odd-1")])
    model.set_gang_aside(ODD)
    assert cpus(model) == 2


@pytest.mark.parametrize(
    ("queue", "want"),
    [
        pytest.param("team", 3, id="its queue is read"),
        pytest.param("", 3, id="its queue is not read: the last one"),
        pytest.param("default", 1, id="it names another queue"),
    ],
)
def test_the_pods_of_a_group_that_cannot_be_read_count_in_its_queue(queue: str, want: int) -> None:
    world = running_gang()
    model = world.model
    model.set_unreadable_group(ODD, queue)
    assert run_session(model, SETTINGS, world.now).evictions == ()
    assert cpus(model) == want
    world.put_group(world.groups[ODD])
    assert cpus(model) == 3


@pytest.mark.parametrize("group_first", [True, False])
def test_a_new_scheduler_counts_the_pods_of_a_group_that_it_cannot_read(*, group_first: bool) -> None:
    world = running_gang()
    group = world.groups.pop(ODD)
    pods = [world.pods.pop(Key("default", name)) for name in ("odd-0", "odd-1")]
    model = world.fresh_model()
    if group_first:
        model.set_unreadable_group(ODD, "team")
    for pod in pods:
        model.set_pod(pod)
    if not group_first:
        model.set_unreadable_group(ODD, "team")
    assert cpus(model) == 3
    model.remove_unreadable_group(ODD)
    assert cpus(model) == 1
    model.set_group(group)
    assert cpus(model) == 3


def test_a_pod_that_becomes_unreadable_counts_in_its_queue_until_it_is_deleted() -> None:
    world = running_gang()
    model, pod = world.model, Key("default", "odd-1")
    model.set_unreadable_pod(pod, "n1")
    assert cpus(model) == 3
    model.remove_group(ODD)
    model.set_unreadable_group(ODD, "")
    assert cpus(model) == 3
    model.remove_pod(pod)
    assert cpus(model) == 2
    model.remove_pod(Key("default", "odd-0"))
    assert cpus(model) == 1

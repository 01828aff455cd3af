"""Changes of limit ranges and runtime classes: pending workloads get their new requests in slices."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core import LimitRange, RuntimeClass
from quorate.api.core.device_claims import ResourceClaimTemplate
from quorate.queueing.decisions import Reserve
from quorate.queueing.ledger import Ledger
from quorate.queueing.request_updates import update_units
from tests.queueing.notation import Json
from tests.queueing.world import World
from tests.search import examples

MANY = 40
NAMESPACES = ("default", "other")


def a_world(workloads: list[Json], cpu: int = 100, memory: int = 100, **given_: Any) -> World:
    quota = [{"default": {"cpu": cpu, "memory": memory}}]
    queues = {"cq": {"quota": quota}}
    return World({"flavors": ["default"], "clusterQueues": queues, "workloads": workloads, **given_})


def w(name: str, cpu: int = 1, **fields: Any) -> Json:
    return {"name": name, "queue": "cq", "requests": {"cpu": cpu}, **fields}


def put_limits(world: World, namespace: str = "default", **limits: dict[str, int]) -> None:
    item = {"type": "Container"} | {
        kind: {resource: str(amount) for resource, amount in amounts.items()}
        for kind, amounts in limits.items()
    }
    body = {"metadata": {"namespace": namespace, "name": "l"}, "spec": {"limits": [item]}}
    world.state.request_updates.put_limit_range(codec.convert(LimitRange, body))


def put_runtime_class(world: World, cpu: int) -> None:
    body = {"metadata": {"name": "sandbox"}, "overhead": {"podFixed": {"cpu": str(cpu)}}}
    world.state.request_updates.put_runtime_class(codec.convert(RuntimeClass, body))


def put_claim_template(world: World, name: str) -> None:
    body = {"metadata": {"namespace": "default", "name": name}}
    world.state.request_updates.put_claim_template(codec.convert(ResourceClaimTemplate, body))


def run(world: World) -> list[str]:
    """Run the cycle once; return the workloads that it admits."""
    decisions = world.admission_cycle.run(world.now).decisions
    return [decision.key.name for decision in decisions if isinstance(decision, Reserve)]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the workloads of which the requests are computed from now on."""
    names: list[str] = []
    original = Ledger.update_requests

    def count(self: Any, entry: Any) -> bool:
        names.append(entry.key.name)
        return original(self, entry)

    monkeypatch.setattr(Ledger, "update_requests", count)
    return names


def slices(world: World, computed: list[str]) -> list[int]:
    """Return how many requests are computed by the event, and in each run until none is due."""
    counts = [len(computed)]
    wake_at: float | None = world.now
    while wake_at == world.now:
        before, wake_at = len(computed), world.admission_cycle.run(world.now).wake_at
        counts.append(len(computed) - before)
    return counts


def inadmissible_world(slice_size: int, template: dict[str, Any] | None = None) -> World:
    """Return a world with ``MANY`` inadmissible workloads of two shapes, of which a slice updates some."""
    world = a_world([w(f"w{index}", 101 + index % 2, **(template or {})) for index in range(MANY)])
    while world.admission_cycle.run(world.now).decisions:
        pass
    world.state.request_updates.slice_units = slice_size * update_units(world.workloads["w0"])
    return world


def test_a_changed_limit_range_is_applied_in_slices(computed: list[str]) -> None:
    world = inadmissible_world(8)
    put_limits(world, default={"memory": 1})
    counts = slices(world, computed)
    assert counts[0] == 0, "by the event itself"
    assert max(counts) <= 8 + 2, "a slice, and the head of each shape"
    assert sorted(set(computed)) == sorted(world.workloads)
    assert len(computed) == MANY, "none twice"


def test_the_slices_of_large_templates_have_fewer_workloads(computed: list[str]) -> None:
    large = {"annotations": {}, "podSets": [{"pod": {"containers": [{"requests": {"cpu": 200}}] * 50}}]}
    world = inadmissible_world(8, large)
    small = update_units(inadmissible_world(8).workloads["w0"])
    assert update_units(world.workloads["w0"]) > 4 * small
    world.state.request_updates.slice_units = 8 * small
    put_limits(world, default={"memory": 1})
    assert max(slices(world, computed)) <= 2 + 1


def test_changes_without_end_do_not_keep_a_workload_from_its_update(computed: list[str]) -> None:
    """A pass begins anew only after it has visited all workloads."""
    world = inadmissible_world(8)
    for memory in range(1, 2 * MANY):
        put_limits(world, default={"memory": memory})
        before = len(computed)
        run(world)
        assert len(computed) - before <= 8 + 2
    assert set(computed) == world.workloads.keys()


def test_heads_that_become_inadmissible_as_they_are_updated_are_bounded(computed: list[str]) -> None:
    """All have the shape of the first one after the change, so none of them is evaluated."""
    world = a_world([w(f"w{index}", namespace="default") for index in range(MANY)])
    world.run({"update": {"clusterQueues": {"cq": {"stopPolicy": "Hold"}}}})
    run(world)
    world.run({"update": {"clusterQueues": {"cq": {"stopPolicy": "None"}}}})
    world.state.request_updates.slice_units = 8 * update_units(world.workloads["w0"])
    put_limits(world, default={"memory": 101})
    assert max(slices(world, computed)) <= 8 + 8 + 1
    assert run(world) == []


def test_a_head_does_not_wait_for_the_update_of_other_workloads() -> None:
    world = inadmissible_world(1)
    world.given["workloads"].append(w("last"))
    world.create("last")
    put_runtime_class(world, 1)
    put_limits(world, default={"memory": 1})
    assert run(world) == ["last"]


def test_what_changes_no_request_queues_no_workload_again(computed: list[str]) -> None:
    world = inadmissible_world(MANY)
    put_claim_template(world, "unused")
    put_runtime_class(world, 1)
    run(world)
    assert set(computed) == world.workloads.keys()
    pending = world.state.pending("cq")
    assert (len(pending.active), len(pending.inadmissible)) == (0, MANY)


@pytest.mark.parametrize(
    ("before", "after", "admitted"),
    [
        pytest.param(None, {"default": {"memory": 1}}, ["first", "second"], id="more, and both fit"),
        pytest.param(None, {"default": {"memory": 60}}, ["first"], id="more, and one fits"),
        pytest.param(None, {"max": {"cpu": 1}}, ["first"], id="one is above the new bound"),
        pytest.param({"max": {"cpu": 1}}, {}, ["first", "second"], id="one was above the old bound"),
        pytest.param({"default": {"memory": 200}}, {}, ["first", "second"], id="less, and both fit"),
        pytest.param(
            {"default": {"memory": 200}}, {"default": {"memory": 150}}, [], id="less, and none fits"
        ),
    ],
)
def test_decisions_are_made_with_the_new_requests(
    before: dict[str, Any] | None, after: dict[str, Any], admitted: list[str]
) -> None:
    world = a_world([w("first", created=1), w("second", 2, created=2)])
    reserved: list[str] = []
    if before is not None:
        put_limits(world, **before)
        reserved += run(world)
    world.state.request_updates.slice_units = 1
    put_limits(world, **after)
    while world.state.request_updates.are_pending:
        reserved += run(world)
    assert sorted(reserved + run(world)) == admitted


@pytest.mark.parametrize("runs", [0, 1])
def test_a_workload_of_a_suspended_round_is_evaluated_again_with_the_new_requests(runs: int) -> None:
    """With a run meanwhile, a slice updates the workload while it is in flight."""
    wait = {"waitForPodsReady": {"timeout": "60s", "blockAdmission": True}}
    world = a_world([w("a"), w("b", created=1), w("c", created=2)], config=wait)
    world.run({"cycle": 2})
    assert world.admission_cycle.suspended is not None
    assert list(world.admitted()) == ["a"]
    put_limits(world, max={"cpu": 0})
    for _ in range(runs):
        assert run(world) == []
    world.run({"podsReady": {"a": True}})
    world.run({"cycle": 2})
    assert list(world.admitted()) == ["a"]


jobs = st.fixed_dictionaries(
    {
        "requests": st.fixed_dictionaries({"cpu": st.integers(1, 3)}, optional={"memory": st.integers(1, 2)}),
        "namespace": st.sampled_from(NAMESPACES),
        "priority": st.integers(0, 1),
    }
)
amounts = st.dictionaries(st.sampled_from(("cpu", "memory")), st.integers(1, 4))
limits = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(("default", "max")), amounts)
steps = st.one_of(limits, st.integers(0, 2), st.just("runs"), st.just("finishes"))


def assert_current(world: World, decision: Reserve) -> None:
    """Assert that quota is reserved for what the pods request now."""
    shape = world.state.ledger.shapes.shape_of(world.workloads[decision.key.name])
    assigned = decision.admission.pod_set_assignments
    taken = [
        {resource: amount.nanos for resource, amount in pods.resource_usage.items()} for pods in assigned
    ]
    wanted = [
        {resource: amount.nanos for resource, amount in pods.resources.items()} for pods in shape.requests
    ]
    assert taken == wanted
    assert not world.state.ledger.shapes.limit_range_violations(world.workloads[decision.key.name])


@given(st.lists(jobs, min_size=1, max_size=6), st.lists(steps, max_size=8), st.sampled_from((1, 600)))
@examples(200)
@pytest.mark.no_cover
def test_no_workload_is_admitted_with_old_requests_nor_forgotten(
    given_: list[Json], steps_: list[Any], slice_units: int
) -> None:
    """Each of ``steps_`` changes the limits of a namespace, or what a runtime class adds, or runs a cycle."""
    workloads = [
        {
            "name": f"w{index}",
            "queue": "cq",
            "created": index,
            "namespace": each["namespace"],
            "priority": each["priority"],
            "podSets": [
                {
                    "pod": {
                        "runtimeClassName": "sandbox" if index % 2 else "",
                        "containers": [{"requests": each["requests"]}],
                    }
                }
            ],
        }
        for index, each in enumerate(given_)
    ]
    world = a_world(workloads, cpu=4, memory=4)
    world.state.request_updates.slice_units = slice_units

    def run_once() -> None:
        decisions = world.admission_cycle.run(world.now).decisions
        for decision in decisions:
            if isinstance(decision, Reserve):
                assert_current(world, decision)
        world.carry_out(decisions)
        world.settle()

    for step in steps_:
        match step:
            case (namespace, kind, given_amounts):
                put_limits(world, namespace, **{kind: given_amounts})
            case int(cpu):
                put_runtime_class(world, cpu)
            case "finishes":
                world.run({"delete": list(world.admitted())[:1]})
            case _:
                run_once()
    while world.state.request_updates.are_pending:
        run_once()
    run_once()
    ledger = world.state.ledger
    for entry in ledger.entries.values():
        assert entry.shape is ledger.shapes.shape_of(entry.workload), f"{entry.key} has old requests"
    for queue in ledger.cluster_queues.values():
        ledger.note_external_change(queue)
    assert run(world) == [], "what fits was not tried with its new requests"

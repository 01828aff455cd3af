"""The admission cycle: many admissions in one run, failed writes, and blocked admission."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api.kueue import RequeueState, Workload
from quorate.api.meta import Condition, Key
from quorate.queueing.decisions import Decision, Hold, Preempt, Reserve
from quorate.queueing.explain import why_pending
from quorate.queueing.pending.entry import Entry
from quorate.queueing.scheduling import round as round_module
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from tests.queueing.notation import Json
from tests.queueing.world import World

CPU = FlavorResource("default", "cpu")


def one_queue(*workloads: Json, cpu: Any = 4, strategy: str = "BestEffortFIFO", **config: Any) -> World:
    return World(
        {
            "config": config,
            "flavors": ["default"],
            "clusterQueues": {"cq": {"strategy": strategy, "quota": [{"default": {"cpu": cpu}}]}},
            "workloads": list(workloads),
        }
    )


def w(name: str, cpu: Any = 1, **fields: Any) -> Json:
    return {"name": name, "queue": "cq", "requests": {"cpu": cpu}, **fields}


def names(decisions: Iterable[Decision], kind: type[Decision]) -> list[str]:
    return [decision.key.name for decision in decisions if isinstance(decision, kind)]


def test_one_run_admits_everything_that_fits_and_gives_reasons_for_the_rest() -> None:
    world = one_queue(
        w("a", created=1), w("b", cpu=5, created=2), w("c", cpu=3, created=3), w("d", created=4)
    )
    cycle = world.admission_cycle.run(world.now)
    assert names(cycle.decisions, Reserve) == ["a", "c"]
    assert names(cycle.decisions, Hold) == ["b", "d"]
    assert cycle.wake_at is None
    hold = why_pending(world.state, Key("default", "d"))
    assert hold is not None
    assert hold.message.endswith("insufficient unused quota for cpu in flavor default, 1 more needed")


def test_a_second_run_on_the_same_state_decides_nothing() -> None:
    for strategy in ("BestEffortFIFO", "StrictFIFO"):
        world = one_queue(w("a"), w("b", cpu=9), strategy=strategy)
        assert world.admission_cycle.run(world.now).decisions
        assert world.admission_cycle.run(world.now).decisions == ()


@pytest.mark.parametrize("fair", [False, True])
def test_heads_of_one_second_are_tried_in_the_order_in_which_they_arrived(fair: bool) -> None:
    queue = {"cohort": "co", "quota": [{"default": {"cpu": 0}}]}
    for arrived in ("ab", "ba"):
        world = World(
            {
                "config": {"fairSharing": {}} if fair else {},
                "flavors": ["default"],
                "cohorts": {"co": {"quota": [{"default": {"cpu": 1}}]}},
                "clusterQueues": {"a": queue, "b": queue},
                "workloads": [{"name": name, "queue": name, "requests": {"cpu": 1}} for name in arrived],
            }
        )
        assert names(world.admission_cycle.run(world.now).decisions, Reserve) == [arrived[0]]


def test_an_update_of_a_queue_or_cohort_that_changes_no_spec_changes_nothing() -> None:
    """Their statuses are written often, and each write is an update."""
    world = World(
        {
            "flavors": ["default"],
            "cohorts": {"co": {"quota": [{"default": {"cpu": 1}}]}},
            "clusterQueues": {"cq": {"cohort": "co", "quota": [{"default": {"cpu": 1}}]}},
            "workloads": [w("a", cpu=3)],
        }
    )
    assert names(world.admission_cycle.run(world.now).decisions, Hold) == ["a"]
    world.put_cohort("co")
    world.put_cluster_queue("cq")
    assert world.admission_cycle.run(world.now).decisions == ()
    world.given["cohorts"]["co"]["quota"] = [{"default": {"cpu": 2}}]
    world.put_cohort("co")
    assert names(world.admission_cycle.run(world.now).decisions, Reserve) == ["a"]


def test_a_workload_is_tried_after_its_backoff_without_a_requeued_condition() -> None:
    """Another client that releases a workload may set the end of the backoff and nothing else."""
    world = one_queue(w("a", requeueState={"count": 1, "requeueAt": 1060}))
    assert world.admission_cycle.run(world.now).decisions == ()
    backing_off = world.workloads["a"]
    over = replace(backing_off.status, requeue_state=RequeueState(count=1))
    world.state.put_workload(replace(backing_off, status=over), 1060.0)
    assert names(world.admission_cycle.run(1060.0).decisions, Reserve) == ["a"]


def test_when_the_head_of_a_strict_queue_is_deleted_the_next_workload_is_tried() -> None:
    world = one_queue(w("big", cpu=9), w("small", created=1), strategy="StrictFIFO")
    assert names(world.admission_cycle.run(world.now).decisions, Reserve) == []
    world.state.remove_workload(Key("default", "big"))
    assert names(world.admission_cycle.run(world.now).decisions, Reserve) == ["small"]


def test_a_reservation_is_decided_again_after_its_write_failed() -> None:
    world = one_queue(w("a", cpu=4), w("b", cpu=4, created=1))
    assert names(world.admission_cycle.run(world.now).decisions, Reserve) == ["a"]
    world.state.forget(Key("default", "a"))
    assert tree.used(world.node("cq"), CPU) == 0
    assert names(world.admission_cycle.run(world.now).decisions, Reserve) == ["a"]


def test_a_preemptor_tells_that_an_eviction_is_refused_until_it_is_stored() -> None:
    preempting = {"quota": [{"default": {"cpu": 4}}], "preemption": {"withinClusterQueue": "LowerPriority"}}
    workloads = [w("low", cpu=4, admitted="default"), w("high", cpu=4, priority=1)]
    world = World({"flavors": ["default"], "clusterQueues": {"cq": preempting}, "workloads": workloads})

    def cycle() -> tuple[list[str], str]:
        decisions = world.admission_cycle.run(world.now).decisions
        evictions = [each for each in decisions if isinstance(each, Preempt)]
        hold = world.state.ledger.entries[Key("default", "high")].hold
        assert hold is not None
        return [each.key.name for each in evictions], hold.message.split(". ", 1)[1]

    assert cycle() == (["low"], "Pending the preemption of 1 workload(s)")
    world.state.forget(Key("default", "low"))
    assert cycle() == (["low"], "Preempting 1 workload(s) failed, will retry.")
    stored = world.workloads["low"]
    evicted = Condition(
        type="Evicted",
        status="True",
        reason="Preempted",
        last_transition_time=stored.metadata.creation_timestamp,
    )
    status = replace(stored.status, conditions=(*stored.status.conditions, evicted))
    world.state.put_workload(replace(stored, status=status), world.now)
    assert cycle() == ([], "Pending the preemption of 1 workload(s)")


def test_a_reservation_stays_assumed_while_older_objects_arrive() -> None:
    world = one_queue(w("a"))
    stale = world.workloads["a"]
    (reserve,) = world.admission_cycle.run(world.now).decisions
    world.state.put_workload(stale, world.now)
    assert Key("default", "a") in world.state.ledger.reservations
    world.carry_out([reserve])
    world.state.put_workload(stale, world.now)
    assert Key("default", "a") in world.state.ledger.reservations


def test_deleting_a_workload_releases_its_assumed_reservation() -> None:
    world = one_queue(w("a"))
    world.admission_cycle.run(world.now)
    world.state.remove_workload(Key("default", "a"))
    world.state.forget(Key("default", "a"))
    assert tree.used(world.node("cq"), CPU) == 0
    assert not world.state.ledger.unready


def test_an_assumed_workload_is_preempted_once_its_reservation_is_written() -> None:
    """``a`` borrows while two heads of ``b`` that never fit precede the third workload of ``b``."""
    queues: Json = {name: {"cohort": "all", "quota": [{"default": {"cpu": 1}}]} for name in ("a", "b")}
    queues["b"]["preemption"] = {"reclaimWithinCohort": "Any"}
    jobs = [("a1", "a", 1), ("a2", "a", 1), ("b1", "b", 8), ("b2", "b", 9), ("b3", "b", 1)]
    workloads = [
        {"name": name, "queue": queue, "requests": {"cpu": cpu}, "created": created}
        for created, (name, queue, cpu) in enumerate(jobs)
    ]
    world = World({"flavors": ["default"], "clusterQueues": queues, "workloads": workloads})
    decisions = world.admission_cycle.run(world.now).decisions
    assert names(decisions, Reserve) == ["a1", "a2"]
    assert names(decisions, Preempt) == []
    world.carry_out(decisions)
    decisions = world.admission_cycle.run(world.now).decisions
    assert names(decisions, Preempt) == ["a1"]


def test_a_suspended_round_is_resumed_only_when_all_workloads_are_ready() -> None:
    wait = {"timeout": "60s", "blockAdmission": True}
    world = one_queue(w("a"), w("b", created=1), w("c", created=2), waitForPodsReady=wait)
    cycle = world.admission_cycle.run(world.now)
    assert names(cycle.decisions, Reserve) == ["a"]
    assert names(cycle.decisions, Hold) == ["b"]
    world.carry_out(cycle.decisions)
    assert world.admission_cycle.run(world.now).decisions == ()
    world.ready.add("a")
    world.settle()
    assert list(world.admitted()) == ["a", "b"]


def test_the_head_of_a_suspended_round_may_be_deleted() -> None:
    wait = {"timeout": "60s", "blockAdmission": True}
    world = one_queue(w("a"), w("b", created=1), w("c", created=2), waitForPodsReady=wait)
    world.run("cycle")
    world.run("cycle")
    assert world.admission_cycle.suspended is not None
    world.run({"delete": ["b"]})
    world.run({"podsReady": {"a": True}})
    world.run("cycle")
    assert list(world.admitted()) == ["a", "c"]


def test_changes_of_other_queues_during_a_suspended_round_are_not_lost() -> None:
    """``x`` is deleted while ``b`` waits for ``a``: the next round must find that ``y`` fits."""
    world = World(
        {
            "config": {"waitForPodsReady": {"timeout": "60s", "blockAdmission": True}},
            "flavors": ["default"],
            "clusterQueues": {name: {"quota": [{"default": {"cpu": 1}}]} for name in ("full", "free")},
            "workloads": [
                w("x", queue="full"),
                w("y", queue="full", created=1),
                w("a", cpu="500m", queue="free", created=2, create="later"),
                w("b", cpu="500m", queue="free", created=3, create="later"),
            ],
        }
    )
    world.run("cycle")
    world.run({"podsReady": {"x": True}})
    world.run("cycle")
    world.run({"create": ["a"]})
    world.run("cycle")
    world.run({"create": ["b"]})
    full = world.state.ledger.cluster_queues["full"]
    world.state.ledger.mark_dirty(full.node)  # as an eviction does
    world.admission_cycle.run(world.now)
    assert world.admission_cycle.suspended is not None
    world.run({"delete": ["x"]})
    world.run({"podsReady": {"a": True}})
    assert list(world.admitted()) == ["a", "b"]
    world.admission_cycle.run(world.now)
    assert world.admission_cycle.suspended is not None  # y waits only for b to be ready


def test_a_workload_that_changes_during_a_suspended_round_is_nominated_again() -> None:
    wait = {"timeout": "60s", "blockAdmission": True}
    world = one_queue(w("a"), w("b", created=1), waitForPodsReady=wait)
    world.run({"cycle": 2})
    world.run({"update": {"workloads": {"b": {"requests": {"cpu": 9}}}}})
    world.run({"podsReady": {"a": True}})
    world.run("cycle")
    assert list(world.admitted()) == ["a"]


@pytest.mark.parametrize("seen_first", ["workload", "queues"])
def test_objects_may_arrive_in_any_order(seen_first: str) -> None:
    world = one_queue(w("a"))
    state = State(world.configuration)
    queue, local = (
        world.state.ledger.cluster_queues["cq"].object,
        world.state.ledger.local_queues[Key("default", "cq")].object,
    )
    assert local is not None
    puts: list[Callable[[], None]] = [
        lambda: state.put_workload(world.workloads["a"], 0.0),
        lambda: state.put_local_queue(local),
        lambda: state.put_cluster_queue(queue),
        lambda: state.put_flavor(world.state.flavors["default"]),
        lambda: state.put_namespace("default", {}),
    ]
    for put in puts if seen_first == "workload" else reversed(puts):
        put()
    assert names(AdmissionCycle(state).run(0.0).decisions, Reserve) == ["a"]


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize(
    "where",
    [
        pytest.param("nominate", id="in the nomination"),
        pytest.param("reserve", id="when it is processed"),
    ],
)
def test_a_workload_on_which_the_cycle_raises_is_kept_pending_and_others_are_admitted(
    monkeypatch: pytest.MonkeyPatch, strategy: str, where: str
) -> None:
    original = getattr(round_module, where)

    def raise_on_odd(*arguments: Any) -> Any:
        for each in arguments:
            workload = each.workload if isinstance(each, Entry) else each
            if isinstance(workload, Workload) and workload.metadata.name == "odd":
                raise LookupError("no such flavor")
        return original(*arguments)

    monkeypatch.setattr(round_module, where, raise_on_odd)
    world = one_queue(w("odd", created=1), w("b", created=2), strategy=strategy)
    result = world.admission_cycle.run(world.now)
    assert [(fault.key.name, str(fault.error)) for fault in result.faults] == [("odd", "no such flavor")]
    assert names(result.decisions, Reserve) == ["b"]
    hold = why_pending(world.state, Key("default", "odd"))
    assert hold is not None
    assert hold.message == "internal error, see the log of the controllers: LookupError: no such flavor"
    assert world.admission_cycle.run(world.now).decisions == ()

    monkeypatch.undo()
    world.update({"workloads": {"odd": {"priority": 5}}})
    assert names(world.admission_cycle.run(world.now).decisions, Reserve) == ["odd"]


@pytest.mark.parametrize("flavors", [[], ["one"]])
def test_the_retries_of_a_check_are_counted_over_all_reservations(flavors: list[str]) -> None:
    """Otherwise the limit of the retries is never reached."""
    queue = {
        "quota": [{"one": {"cpu": 4}}, {"two": {"cpu": 0}}],
        "admissionChecks": [{"name": "c", "onFlavors": flavors}],
    }
    world = World({"flavors": ["one", "two"], "clusterQueues": {"cq": queue}, "workloads": [w("a")]})
    for retries in (None, 1, 2):
        world.run("cycle")
        checks = world.workloads["a"].status.admission_checks
        assert [(each.name, each.state, each.retry_count) for each in checks] == [("c", "Pending", retries)]
        world.run({"checks": {"a": {"c": "Retry"}}})
        world.run({"evictionDone": ["a"]})

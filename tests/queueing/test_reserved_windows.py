"""Windows of Reservations keep amounts for their owners: before they begin, and until they end."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given as given_by
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.meta import Key
from quorate.api.quorate import Reservation
from quorate.queueing.conditions import has_quota_reservation
from quorate.queueing.inadmissible_reasons import ReservedWindow, Shortage
from quorate.queueing.scheduling.planned_starts import PlannedStarts
from quorate.queueing.scheduling.reserved_windows import ReservedWindows
from quorate.queueing.windows import Window
from tests.queueing.notation import Json
from tests.queueing.world import World
from tests.search import examples

EPOCH = 1_767_225_600  # of second 0 of a story: 2026


def queue(cpu: int, **others: Any) -> Json:
    return {"quota": [{"default": {"cpu": cpu}}], **others}


def job(name: str, cpu: int, maximum_s: int | None = None, queue_name: str = "q", created: int = 0) -> Json:
    return {
        "name": name,
        "queue": queue_name,
        "requests": {"cpu": cpu},
        "created": created,
        "maximumExecutionTimeSeconds": maximum_s,
    }


def a_reservation(opens: float, closes: float, cpu: int = 4, name: str = "night", **spec: Any) -> Reservation:
    """Return a reservation for the queue ``owner``; its times are those of a world."""
    return codec.convert(
        Reservation,
        {
            "metadata": {"name": name},
            "spec": {
                "start": datetime.fromtimestamp(opens, UTC).isoformat(),
                "end": datetime.fromtimestamp(closes, UTC).isoformat(),
                "amounts": [{"flavor": "default", "resources": {"cpu": str(cpu)}}],
                "owners": {"clusterQueues": ["owner"]},
                **spec,
            },
        },
    )


NOW = EPOCH + 10
OPENS, CLOSES = EPOCH + 110.0, EPOCH + 210.0
QUEUES = {"owner": queue(8, cohort="all"), "q": queue(8, cohort="all")}


def a_world(*jobs: Json, reservations: tuple[Reservation, ...] = (), **queues: Json) -> World:
    """Return the world at second 10 of which the first cycle has run."""
    world = World({
        "flavors": ["default"], "clusterQueues": queues or QUEUES, "workloads": jobs, "now": NOW,
    })  # fmt: skip
    for reservation in reservations:
        world.state.put_window(reservation)
    world.run({"cycle": 12})
    return world


def started(world: World) -> set[str]:
    return {name for name, workload in world.workloads.items() if has_quota_reservation(workload)}


def reasons(world: World, name: str) -> list[object]:
    hold = world.state.ledger.entries[Key("default", name)].hold
    return [] if hold is None else list(hold.reasons)


@pytest.mark.parametrize(
    ("other", "starts"),
    [
        pytest.param(job("other", 5, 100), True, id="it ends when the window begins"),
        pytest.param(job("other", 5, 101), False, id="it ends a second later"),
        pytest.param(job("other", 5), False, id="it has no bound"),
        pytest.param(job("other", 5, queue_name="owner"), True, id="it is an owner"),
    ],
)
def test_a_workload_that_may_run_into_a_window_does_not_start(other: Json, starts: bool) -> None:
    world = a_world(job("first", 8), other, reservations=(a_reservation(OPENS, CLOSES),))
    assert started(world) == ({"first", "other"} if starts else {"first"})
    if not starts:
        (reason,) = reasons(world, "other")
        shortage = Shortage("default", "cpu", 5000, 4000, 12000)
        assert reason == ReservedWindow("night", OPENS, CLOSES, (shortage,))


def test_within_a_window_others_use_what_it_does_not_keep() -> None:
    jobs = (job("other", 12, 1), job("small", 4, 1, created=1), job("late", 4, 1000, created=2))
    world = a_world(*jobs, reservations=(a_reservation(EPOCH, CLOSES, cpu=12),))
    assert started(world) == {"small"}


def test_what_an_owner_uses_counts_toward_the_amounts() -> None:
    jobs = (job("own", 8, queue_name="owner"), job("other", 8, created=1))
    world = a_world(*jobs, reservations=(a_reservation(EPOCH, CLOSES, cpu=8),))
    assert started(world) == {"own", "other"}


def test_a_workload_that_waited_for_a_window_starts_when_that_ends() -> None:
    world = a_world(job("other", 8), reservations=(a_reservation(OPENS, CLOSES, cpu=12),))
    assert started(world) == set()
    assert world.admission_cycle.run(world.now).wake_at == OPENS
    world.now = OPENS
    world.run({"cycle": 12})
    assert world.admission_cycle.run(world.now).wake_at == CLOSES
    world.now = CLOSES
    world.run({"cycle": 12})
    assert started(world) == {"other"}


def test_a_workload_that_waited_for_a_window_starts_when_its_reservation_is_deleted() -> None:
    world = a_world(job("other", 8), reservations=(a_reservation(OPENS, CLOSES, cpu=12),))
    world.state.remove_window("night")
    world.run({"cycle": 12})
    assert started(world) == {"other"}


def test_another_flavor_is_tried_if_a_window_keeps_the_first() -> None:
    two = {"quota": [{"default": {"cpu": 8}}, {"spare": {"cpu": 8}}]}
    world = World({
        "flavors": ["default", "spare"], "clusterQueues": {"owner": two}, "now": NOW,
        "workloads": [job("other", 8, queue_name="owner")],
    })  # fmt: skip
    world.state.put_window(a_reservation(OPENS, CLOSES, owners={}, purpose="Maintenance"))
    world.run({"cycle": 12})
    assert started(world) == {"other"}
    (assignment,) = world.workloads["other"].status.admission.pod_set_assignments  # type: ignore[union-attr]
    assert assignment.flavors == {"cpu": "spare"}


def test_maintenance_keeps_its_amounts_from_all() -> None:
    maintenance = a_reservation(OPENS, CLOSES, cpu=12, purpose="Maintenance", owners={})
    world = a_world(
        job("own", 8, queue_name="owner"), job("small", 4, created=1), reservations=(maintenance,)
    )
    assert started(world) == {"small"}


def test_a_tree_without_owners_is_not_concerned() -> None:
    reservation = a_reservation(OPENS, CLOSES, cpu=8)
    world = a_world(job("other", 8), reservations=(reservation,), owner=queue(8), q=queue(8))
    assert started(world) == {"other"}


def test_two_windows_at_once_keep_both_amounts() -> None:
    both = (
        a_reservation(OPENS, CLOSES, cpu=6),
        a_reservation(
            OPENS, CLOSES, cpu=6, name="team", owners={"namespaces": ["team"], "clusterQueues": ["owner"]}
        ),
    )
    world = a_world(job("other", 8), job("small", 4, created=1), reservations=both)
    assert started(world) == {"small"}


BOUNDS = st.one_of(st.none(), st.integers(1, 300))


@examples(150)
@given_by(
    jobs=st.lists(
        st.tuples(st.integers(1, 8), BOUNDS, st.sampled_from(("q", "owner"))), min_size=1, max_size=8
    ),
    amount=st.integers(1, 16),
    opens=st.integers(0, 200),
    lasts=st.integers(1, 100),
    strategy=st.sampled_from(("BestEffortFIFO", "StrictFIFO")),
)
def test_at_the_beginning_of_a_window_its_amounts_are_free_for_its_owners(
    jobs: list[tuple[int, int | None, str]], amount: int, opens: int, lasts: int, strategy: str
) -> None:
    """With bounds that hold, no other workload uses at any time of a window what it keeps."""
    given_jobs = [
        job(f"job-{number}", cpu, bound, name, created=number)
        for number, (cpu, bound, name) in enumerate(jobs)
    ]
    reservation = a_reservation(EPOCH + opens, EPOCH + opens + lasts, cpu=amount)
    queues = {name: {**spec, "strategy": strategy} for name, spec in QUEUES.items()}
    world = a_world(*given_jobs, reservations=(reservation,), **queues)
    bounds = {each["name"]: each["maximumExecutionTimeSeconds"] for each in given_jobs}
    begun = dict.fromkeys(started(world), world.now)
    for moment in range(int(NOW), EPOCH + 620, 10):
        world.now = float(moment)
        ended = [
            name
            for name in started(world)
            if bounds[name] is not None and begun[name] + bounds[name] <= moment
        ]
        world.run({"delete": ended})
        world.run({"cycle": 30})
        for name in started(world):
            begun.setdefault(name, world.now)
        if EPOCH + opens <= moment < EPOCH + opens + lasts:
            cpu = {each["name"]: each["requests"]["cpu"] for each in given_jobs}
            of = {each["name"]: each["queue"] for each in given_jobs}
            others = sum(cpu[name] for name in started(world) if of[name] == "q")
            assert others <= max(0, 16 - amount)
        if moment >= EPOCH + opens + lasts and (None in bounds.values() or not world.state.ledger.entries):
            break  # the window has ended, and those that must start have started
    if all(bounds.values()):
        waiting = set(world.workloads) - started(world)
        assert waiting == set(), "each workload fits the queues, and starts at last"


def test_a_window_is_read_again_only_when_it_has_changed() -> None:
    world = a_world(reservations=(a_reservation(OPENS, CLOSES),))
    version = world.state.ledger.version(world.state.ledger.cluster_queues["q"].node)
    world.state.put_window(a_reservation(OPENS, CLOSES))
    assert world.state.ledger.version(world.state.ledger.cluster_queues["q"].node) == version
    world.state.put_window(a_reservation(OPENS, CLOSES + 1))
    assert world.state.ledger.version(world.state.ledger.cluster_queues["q"].node) > version


def test_occurrences_are_computed_again_when_the_first_has_ended_or_the_clock_goes_back() -> None:
    window = Window(a_reservation(OPENS, OPENS + 10, recurrence="FREQ=DAILY;COUNT=3"))
    first = window.occurrences(NOW)
    assert len(first) == 3
    assert window.occurrences(OPENS + 9) is first
    assert window.occurrences(OPENS + 10) == first[1:]
    assert window.occurrences(NOW) == first


def test_a_workload_starts_when_one_of_another_tree_leaves_enough_of_the_pool() -> None:
    maintenance = a_reservation(EPOCH, CLOSES, cpu=12, purpose="Maintenance", owners={})
    jobs = (job("first", 4, queue_name="owner"), job("second", 4, created=1))
    world = a_world(*jobs, reservations=(maintenance,), owner=queue(8), q=queue(8))
    assert started(world) == {"first"}
    world.run({"delete": ["first"]})
    world.run({"cycle": 12})
    assert started(world) == {"second"}


def test_the_trees_of_the_owners_are_found_again_when_a_local_queue_moves() -> None:
    owners = {"localQueues": [{"namespace": "default", "name": "vip"}]}
    world = World({
        "flavors": ["default"], "now": NOW, "workloads": [job("other", 8)],
        "clusterQueues": {"owner": queue(8), "q": queue(8)}, "localQueues": {"vip": {"clusterQueue": "q"}},
    })  # fmt: skip
    world.state.put_window(a_reservation(EPOCH, CLOSES, cpu=4, owners=owners))
    world.run({"cycle": 12})
    assert started(world) == set()
    world.run({"update": {"localQueues": {"vip": {"clusterQueue": "owner"}}}})
    world.run({"cycle": 12})
    assert started(world) == {"other"}


def test_a_start_is_planned_after_a_window_into_which_the_workload_would_run() -> None:
    queues = {"owner": queue(8, cohort="all", annotations={"backfill": "EASY"}), "q": queue(0, cohort="all")}
    jobs = (job("first", 4, 50, "owner"), job("large", 8, 60, "owner", created=1))
    nightly: dict[str, Any] = {"owners": {"namespaces": ["elsewhere"]}, "purpose": "Maintenance"}
    for opens, planned_at in ((OPENS, CLOSES), (OPENS + 10, NOW + 50), (CLOSES, NOW + 50)):
        reservation = a_reservation(opens, CLOSES + 10 * (opens == CLOSES), **nightly)
        world = World({
            "flavors": ["default"], "clusterQueues": queues, "workloads": jobs, "now": NOW,
        })  # fmt: skip
        world.state.put_window(reservation)
        world.run({"cycle": 12})
        state = world.state
        (plan,) = PlannedStarts(state).of_queue(state.ledger.cluster_queues["owner"], world.now)
        assert (plan.entry.key.name, plan.at) == ("large", planned_at)


def test_a_workload_that_only_a_window_refuses_gets_a_planned_start() -> None:
    """Of those behind it only what ends before the window starts."""
    maintenance = a_reservation(OPENS, CLOSES, cpu=8, purpose="Maintenance", owners={})
    jobs = (job("large", 8, 200), job("short", 4, 50, created=1), job("long", 4, 201, created=2))
    world = a_world(*jobs, reservations=(maintenance,), q=queue(8, annotations={"backfill": "EASY"}))
    announced = world.state.ledger.announced.items()
    assert {key.name: start.planned_at for key, start in announced} == {"large": CLOSES}
    assert started(world) == {"short"}


def test_a_planned_start_follows_the_trees_that_a_window_concerns() -> None:
    """At first the window is of another tree, and then for maintenance in all of them."""
    jobs = (job("runs", 8, 50), job("large", 8, 100, created=1))
    queues = {"q": queue(8, annotations={"backfill": "EASY"}), "owner": queue(8)}
    state = a_world(*jobs, reservations=(a_reservation(OPENS, CLOSES, 16),), **queues).state
    plans, planned = PlannedStarts(state), state.ledger.cluster_queues["q"]
    assert [plan.at for plan in plans.of_queue(planned, NOW)] == [NOW + 50]
    state.put_window(a_reservation(OPENS, CLOSES, 16, purpose="Maintenance", owners={}))
    assert [plan.at for plan in plans.of_queue(planned, NOW)] == [CLOSES]


def test_a_search_for_a_start_passes_over_the_windows_that_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would run into one of 40 windows, which begin every 20 seconds."""
    evaluated = list[float]()
    refusal_at = ReservedWindows.refusal_at

    def counted(self: ReservedWindows, *args: Any) -> ReservedWindow | None:
        evaluated.append(args[3])
        return refusal_at(self, *args)

    monkeypatch.setattr(ReservedWindows, "refusal_at", counted)
    windows = [
        a_reservation(
            OPENS + 20 * number, OPENS + 20 * number + 10, 8, f"w{number}", purpose="Maintenance", owners={}
        )
        for number in range(40)
    ]
    running = [job(f"run-{number}", 1, 70 * number + 1) for number in range(8)]
    jobs = (*running, job("large", 8, 100, created=1))
    world = a_world(*jobs, reservations=tuple(windows), q=queue(8, annotations={"backfill": "EASY"}))
    (announced,) = world.state.ledger.announced.values()
    assert announced.planned_at == OPENS + 20 * 39 + 10
    assert len(evaluated) < 60, "each window refuses once, and not at each moment before it"


def test_a_reservation_stored_without_the_schema_does_not_hold_up_a_cycle() -> None:
    names = [f"queue-{number}" for number in range(100_000)]
    owners = {"clusterQueues": [*names, "owner"], "namespaces": names}
    jobs = [job(f"job-{number}", 1, created=number) for number in range(200)]
    queues = {name: queue(200, cohort="all") for name in QUEUES}
    world = World({"flavors": ["default"], "clusterQueues": queues, "workloads": jobs, "now": NOW})
    never = "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"
    world.state.put_window(a_reservation(OPENS, CLOSES, name="never", recurrence=never))
    world.state.put_window(a_reservation(OPENS, CLOSES, cpu=300, owners=owners, nodes={"names": names}))
    began = time.process_time()
    while world.admission_cycle.run(world.now).wake_at == world.now:
        pass
    assert time.process_time() - began < 0.3  # of 200 heads; 0.7 if each owner is compared
    assert len(world.state.ledger.reservations) == 100

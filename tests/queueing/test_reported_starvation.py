"""What users of batch schedulers report of starving jobs, backfilling and start times, played."""

from typing import Any, NamedTuple

import pytest

from quorate.queueing import conditions as c
from tests.queueing.notation import Json
from tests.queueing.test_planned_starts import all_planned, job, queue, run_cycle, started
from tests.queueing.world import World

NEVER = 10_000.0


class Job(NamedTuple):
    """A job of the queue ``q``; times in seconds."""

    cpu: int
    arrives: int
    runs: int
    limit: int | None = None  # its declared maximum; None: it declares none
    gpu: int = 0
    priority: int = 0
    queue: str = "q"


def played(jobs: dict[str, Job], **queues: Json) -> dict[str, float]:
    """Return when each job starts; a job that never does is left out."""
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": queues,
            "workloads": [
                {
                    "name": name,
                    "queue": each.queue,
                    "requests": {"cpu": each.cpu, **({"gpu": each.gpu} if each.gpu else {})},
                    "created": each.arrives,
                    "maximumExecutionTimeSeconds": each.limit,
                    "priority": each.priority,
                    "create": "later",
                }
                for name, each in jobs.items()
            ],
            "now": 0,
        }
    )
    starts: dict[str, float] = {}
    moments: set[float] = {each.arrives for each in jobs.values()}
    while moments and min(moments) < NEVER:
        world.now = min(moments)
        moments.remove(world.now)
        world.run({"create": [name for name, each in jobs.items() if each.arrives == world.now]})
        world.run({"finish": [name for name, at in starts.items() if at + jobs[name].runs == world.now]})
        for _ in range(3):
            wake_at = run_cycle(world).wake_at
            for name in started(world) - starts.keys():
                starts[name] = world.now
                moments.add(world.now + jobs[name].runs)
        if wake_at is not None and wake_at > world.now:
            moments.add(wake_at)
    return starts


def with_rules(cpu: int = 8, gpu: int | None = None, backfill: str = "EASY", **others: Any) -> Json:
    amounts = {"cpu": cpu} if gpu is None else {"cpu": cpu, "gpu": gpu}
    annotations = {"backfill": backfill, **others.pop("annotations", {})}
    return queue(cpu, quota=[{"default": amounts}], annotations=annotations, **others)


EASY, CONSERVATIVE = with_rules(), with_rules(backfill="Conservative")
STREAM = {f"s{number}": Job(4, 10 * number, 40, 40) for number in range(1, 20)}
DEFAULT = "default-maximum-execution-time"


@pytest.mark.parametrize(
    ("jobs", "queues", "want"),
    [
        pytest.param(
            {"a": Job(4, 0, 40, 40), "large": Job(8, 1, 60, 60), **STREAM},
            {"q": EASY},
            {"large": 40},
            id="kubernetes-sigs/kueue 534: small jobs pass a large one for as long as they arrive",
        ),
        pytest.param(
            {"a": Job(4, 0, 40, 40), "large": Job(8, 1, 60, 60, priority=5), **STREAM},
            {"q": EASY},
            {"large": 40},
            id="volcano-sh/volcano 748: a job of high priority starves behind small ones of low priority",
        ),
        pytest.param(
            {"a": Job(4, 0, 40), "large": Job(8, 1, 60), "b": Job(4, 2, 40), "c": Job(4, 3, 40)},
            {"q": EASY},
            {"large": 40, "b": 100, "c": 100},
            id="volcano-sh/volcano 13: what becomes free is kept, also if no run time is known",
        ),
        pytest.param(
            {"a": Job(4, 0, 40, 40), "large": Job(8, 1, 60, 60), "short": Job(4, 2, 20, 20)},
            {"q": EASY},
            {"short": 2, "large": 40},
            id="volcano-sh/volcano 947: room that is kept for a large job is idle meanwhile",
        ),
        pytest.param(
            {
                "a": Job(5, 0, 90, 90),
                "four": Job(4, 1, 50, 50),
                "one": Job(1, 2, 80, 80),
                "three": Job(2, 3, 300, 300),
            },
            {"q": EASY},
            {"one": 2, "three": 3, "four": 90},
            id="volcano-sh/volcano 2384: a job of one cpu is not backfilled beside one that waits for four",
        ),
        pytest.param(
            {"a": Job(4, 0, 40, 40), "large": Job(8, 1, 60, 60), "short": Job(4, 2, 20, 20)},
            {"q": with_rules(backfill="None", strategy="StrictFIFO")},
            {"large": 40, "short": 100},
            id="volcano-sh/volcano 4690: strict FIFO, without backfilling",
        ),
        pytest.param(
            {"a": Job(1, 0, 90, 90, gpu=4), "gpu": Job(1, 1, 60, 60, gpu=4), "cpu": Job(4, 2, 500)},
            {"q": with_rules(8, gpu=4)},
            {"cpu": 2, "gpu": 90},
            id="kubernetes-sigs/kueue 8309: a job that waits for GPUs holds back one that needs none",
        ),
        pytest.param(
            {
                "a": Job(1, 0, 90, 90, gpu=3),
                "b": Job(1, 1, 60, 60, gpu=4),
                "c": Job(1, 2, 60, 60, gpu=4),
                "cpu": Job(2, 3, 700),
                "one": Job(1, 4, 30, 30, gpu=1),
            },
            {"q": with_rules(8, gpu=4)},
            {"cpu": 3, "one": 4, "b": 90, "c": 150},
            id="kubernetes-sigs/kueue 2270: jobs that wait for GPUs block those behind them that would fit",
        ),
        pytest.param(
            {
                "a": Job(4, 0, 90, 90),
                "large": Job(8, 1, 60, 60),
                "lent": Job(2, 2, 50, 50, queue="other"),
                "long": Job(2, 3, 500, 500, queue="other"),
            },
            {"q": with_rules(8, cohort="all"), "other": queue(0, annotations={}, cohort="all")},
            {"lent": 2, "large": 90, "long": 150},
            id="kubernetes-sigs/kueue 4809: what waits keeps others from borrowing what it cannot use yet",
        ),
        pytest.param(
            {"a": Job(6, 0, 90, 90), "large": Job(8, 1, 60, 60), "m": Job(8, 2, 60, 60), **STREAM},
            {"q": CONSERVATIVE},
            {"large": 90, "m": 150},
            id="kai-scheduler/KAI-Scheduler 1969: reservation and backfill for several large jobs",
        ),
        pytest.param(
            {
                "a": Job(8, 0, 90, 90),
                "old": Job(8, 1, 60, 60),
                **{f"s{number}": Job(8, 10 * number, 60, 60, priority=3) for number in range(1, 12)},
            },
            {
                "q": with_rules(
                    annotations={"priority-aging": "{every: 10s, step: 1, atMost: 50}"},
                    preemption={"withinClusterQueue": "Never"},
                )
            },
            {"s1": 90, "s2": 150, "old": 210, "s3": 270},
            id="kai-scheduler/KAI-Scheduler 1970: the longer a job waits, the earlier is its turn",
        ),
        pytest.param(
            {"a": Job(8, 0, 50, 50), "large": Job(8, 1, 60, 60), "later": Job(4, 2, 60, 60)},
            {"q": EASY},
            {"large": 50, "later": 110},
            id="ROCm/spur 732: a job starves that needs more than is free now, as nothing is reserved for it",
        ),
        pytest.param(
            {"a": Job(4, 0, 40), "large": Job(8, 1, 60, 60), "short": Job(4, 2, 20, 20)},
            {"q": with_rules(annotations={DEFAULT: "50s"})},
            {"short": 2, "large": 40},
            id="flux-framework/flux-sched 224: a job without a wall time has that of its queue, not zero",
        ),
        pytest.param(
            {
                "a": Job(1, 0, 90, 90, gpu=4),
                "both": Job(8, 1, 60, 60, gpu=1),
                "less": Job(2, 2, 200, 200),
            },
            {"q": with_rules(8, gpu=4)},
            {"both": 90, "less": 150},
            id="flux-framework/flux-sched 197: a job that needs less of one resource delays an earlier one",
        ),
        pytest.param(
            {
                **{f"never{number}": Job(9, number, 10, 10) for number in range(3)},
                "fits": Job(8, 5, 50, 50),
                "large": Job(8, 6, 50, 50),
                "short": Job(4, 7, 9, 9),
            },
            {"q": with_rules(backfill="Conservative", annotations={"backfill-depth": "1"})},
            {"fits": 5, "large": 55, "short": 105},
            id="flux-framework/flux-sched 1210: jobs that never fit take the planned starts of others",
        ),
        pytest.param(
            {"a": Job(4, 0, 150), "large": Job(8, 1, 60, 60), "small": Job(4, 50, 90, 90)},
            {"q": with_rules(annotations={DEFAULT: "100s"})},
            {"small": 101, "large": 191},
            id="flux-framework/flux-sched 1424: a job that may start now waits, as an earlier one is late",
        ),
        pytest.param(
            {"a": Job(4, 0, 90, 90), "high": Job(8, 1, 60, 60, priority=1), "standby": Job(4, 2, 91, 91)},
            {"q": EASY},
            {"high": 90, "standby": 150},
            id="chaos/slurm 43: the limit of a standby job would delay a job of higher priority",
        ),
        pytest.param(
            {"a": Job(4, 0, 10, 90), "large": Job(8, 1, 60, 60), "later": Job(4, 2, 80, 80)},
            {"q": EASY},
            {"later": 2, "large": 82},
            id="cBio/cbio-cluster 260: a job starts before its estimated time, as others end early",
        ),
        pytest.param(
            {f"s{number}": Job(1, number, 100, 100) for number in range(8)}
            | {"couch": Job(8, 8, 60, 60)}
            | {f"t{number}": Job(1, 9 + number, 100, 100) for number in range(30)},
            {"q": EASY},
            {"couch": 107},
            id="ngageoint/scale 172: too much sand for the couch",
        ),
        pytest.param(
            {"a": Job(6, 0, 90, 90), "big": Job(8, 1, 60, 60), "s": Job(2, 2, 400, 400)},
            {"q": EASY},
            {"big": 90, "s": 150},
            id="microsoft/DLWorkspace 1142: small jobs start while a large one waits",
        ),
        pytest.param(
            {
                "a": Job(1, 0, 60, 60),
                "gang": Job(2, 1, 50, 50),
                "b": Job(1, 2, 58, 58),
                "c": Job(1, 3, 90, 90),
            },
            {"q": with_rules(2)},
            {"b": 2, "gang": 60, "c": 110},
            id="kubernetes-retired/kube-batch 821: half of a gang holds the other cpu, or waits for ever",
        ),
    ],
)
def test_reported_case(jobs: dict[str, Job], queues: dict[str, Json], want: dict[str, float]) -> None:
    starts = played(jobs, **queues)
    assert {name: starts.get(name) for name in want} == want


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        pytest.param("EASY", {"b": 90.0}, id="EASY plans for the next job only"),
        pytest.param("Conservative", {"b": 90.0, "c": 150.0, "d": 210.0}, id="Conservative plans for all"),
    ],
)
def test_which_jobs_have_an_estimated_start(mode: str, want: dict[str, float]) -> None:
    """flux-framework/flux-sched 1015: only the next job in the queue has one."""
    names = ("a", "b", "c", "d")
    jobs = [
        {
            "name": name,
            "queue": "q",
            "requests": {"cpu": 8},
            "created": number,
            "maximumExecutionTimeSeconds": 60,
        }
        for number, name in enumerate(names)
    ]
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"q": with_rules(backfill=mode)},
            "workloads": jobs,
            "now": 30,
        }
    )
    for _ in range(3):
        run_cycle(world)
    assert all_planned(world) == want


def test_an_estimated_start_stays_while_later_jobs_arrive_and_time_passes() -> None:
    """openpbs/openpbs 2394 and cBio/cbio-cluster 413: estimates move later from cycle to cycle."""
    later = [job(f"l{number}", 4, 20 + number, 70, create="later") for number in range(6)]
    first = [job("a", 4, 0, 90), job("large", 8, 0, 90)]
    world = World(
        {"flavors": ["default"], "clusterQueues": {"q": EASY}, "workloads": [*first, *later], "now": 10}
    )
    found = set()
    for number in range(6):
        for _ in range(2):
            run_cycle(world)
        found.add(all_planned(world)["large"])
        world.now = 20 + 10 * number
        world.run({"create": [f"l{number}"]})
    assert found == {100.0}


@pytest.mark.parametrize(
    ("kind", "restarted"),
    [("clusterQueues", "ClusterQueueRestarted"), ("localQueues", "LocalQueueRestarted")],
)
def test_a_drained_workload_keeps_its_rank_when_its_queue_runs_again(kind: str, restarted: str) -> None:
    """The lifecycle writes Requeued, on which admission does not wait: a later workload would overtake."""
    jobs = [
        {"name": name, "queue": "cq", "created": at, "requests": {"cpu": 2}} for at, name in enumerate("ab")
    ]
    given = {"clusterQueues": {"cq": {"quota": [{"default": {"cpu": 2}}]}}, "workloads": jobs}
    world = World({"flavors": ["default"], **given})
    queue = "cq" if kind == "clusterQueues" else next(iter(world.state.ledger.local_queues)).name
    for step in (
        "cycle",
        {"update": {kind: {queue: {"stopPolicy": "HoldAndDrain"}}}},
        {"evictionDone": ["a"]},
    ):
        world.run(step)
    assert not world.admitted()
    world.settle = lambda: None  # type: ignore[method-assign]
    world.run({"update": {kind: {queue: {"stopPolicy": "None"}}}})
    world.run("cycle")
    assert list(world.admitted()) == ["a"]
    requeued = world.condition("a", c.REQUEUED)
    assert requeued is not None
    assert (requeued.status, requeued.reason) == ("True", restarted)

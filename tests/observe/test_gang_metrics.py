"""What ``/metrics`` of the gang scheduler tells after sessions over a cluster in memory."""

from typing import Any

import msgspec

from quorate.api.meta import Key, Uid
from quorate.gang.outcome import Bind
from quorate.observe.gang_metrics import GangMetrics
from quorate.scheduler.observer import Bound, SessionTimer
from quorate.scheduler.scheduler import SchedulerStatus
from tests.gang.vectors import settings_of
from tests.gang.waiting import group, rq, world
from tests.gang.world import World
from tests.kube.virtual_clock import VirtualClock


class Ticking(VirtualClock):
    """A second passes with every look at it."""

    def now(self) -> float:
        self._now += 1
        return self._now


class Watched:
    """``world`` as its metrics tell of it."""

    def __init__(self, world: World) -> None:
        self.world, self.seen, self.clock = (
            world,
            SchedulerStatus(settings=world.settings),
            VirtualClock(world.now),
        )
        self.metrics = GangMetrics(self.seen, self.clock)

    def session(self) -> None:
        timer = SessionTimer(Ticking())
        outcome = self.world.session(timer)
        self.seen.model = self.world.model
        self.metrics.session_ended(outcome, timer.times())

    def value(self, name: str, **labels: str) -> float | None:
        self.metrics.forget_what_is_gone()
        return self.metrics.registry.get_sample_value(f"volcano_{name}", labels)

    def of_group(self, name: str, group: str, namespace: str = "default") -> float | None:
        return self.value(
            f"e2e_job_scheduling_{name}", job_name=group, queue="default", job_namespace=namespace
        )


def placing(plugins: list[Any], **given: Any) -> Watched:
    conf = {"actions": "allocate, preempt", "tiers": [plugins]}
    return Watched(World({"now": 1000, **given}, settings_of(conf, "design"), restarting=False))


def test_who_is_let_in_waits_and_goes_back_is_counted() -> None:
    groups = [group("a", "4", created=400), group("b", "4", created=500)]
    told = Watched(world({"podGroups": groups, "quotas": [rq({"cpu": 9})]}))
    told.session()
    assert told.value("enqueue_admitted_total", queue="default") == 1
    assert told.value("inqueue_wait_seconds_sum") == 600
    assert told.value("enqueue_rejected_total", queue="default", reason="NotEnoughResources") == 1
    assert told.value("queue_pod_group_inqueue_count", queue_name="default") == 1
    assert told.value("queue_pod_group_pending_count", queue_name="default") == 1
    assert told.value("queue_pod_group_running_count", queue_name="default") == 0
    assert told.value("quota_reserved", namespace="default", resource="cpu") == 4000

    told.session()
    assert told.value("enqueue_rejected_total", queue="default", reason="NotEnoughResources") == 1

    told.world.do("removeNodes", ["n1"])
    told.session()
    assert told.value("inqueue_rollback_total", queue="default", reason="NotEnoughResources") == 1
    assert told.value("quota_reserved", namespace="default", resource="cpu") is None


def test_the_oldest_that_came_to_nothing_yet_is_told() -> None:
    told = Watched(world({"podGroups": [group("a", "1"), group("b", "1")]}))
    told.session()
    told.seen.model = told.world.model
    assert told.value("inqueue_age_seconds", queue="default") == 0


def test_a_queue_that_is_gone_has_no_series() -> None:
    told = Watched(world({"podGroups": [group("a", "9")]}))
    told.session()
    assert told.value("enqueue_rejected_total", queue="default", reason="NotEnoughResources") == 1
    told.world.model.remove_queue("default")
    assert told.value("enqueue_rejected_total", queue="default", reason="NotEnoughResources") is None
    assert told.value("queue_pod_group_pending_count", queue_name="default") is None


def test_a_replica_that_stands_by_tells_nothing_of_queues_and_groups() -> None:
    told = Watched(world({"podGroups": [group("a", "9")]}))
    refused = {"queue": "default", "reason": "NotEnoughResources"}
    assert told.value("queue_pod_group_pending_count", queue_name="default") is None
    told.session()
    assert told.value("enqueue_rejected_total", **refused) == 1
    told.seen.model = None
    assert told.value("enqueue_rejected_total", **refused) is None
    assert told.value("job_retry_counts", job_id="a") is None


def test_where_the_time_of_a_session_goes() -> None:
    """Eight looks at the clock: as the timer is made, at each part below, and when it ends."""
    told = placing(["gang", "drf"])
    told.session()
    assert told.value("e2e_scheduling_latency_milliseconds_sum") == 8_000
    assert told.value("open_session_duration_milliseconds_sum") == 5_000
    plugin = "plugin_scheduling_latency_milliseconds_sum"
    for name in ("gang", "drf"):
        assert told.value(plugin, plugin=name, OnSession="OnSessionOpen") == 1_000
    for name in ("allocate", "preempt"):
        assert told.value("action_scheduling_latency_milliseconds_sum", action=name) == 1_000


TWO = {
    "nodes": [{"name": "n1", "cpu": 4}],
    "podGroups": [
        {"name": "fits", "minMember": 2, "phase": "Inqueue", "created": 900},
        {"name": "waits", "minMember": 3, "phase": "Inqueue", "created": 990},
    ],
    "pods": [
        {"name": "fits", "group": "fits", "count": 2, "cpu": 1, "created": 950},
        {"name": "waits", "group": "waits", "count": 3, "cpu": 1, "created": 995},
    ],
}


def test_what_becomes_of_groups_and_their_pods() -> None:
    told = placing(["gang", "drf", "predicates"], **TWO)
    told.session()
    assert told.value("task_scheduling_latency_milliseconds_sum", stage="Assumed") == 2 * 50_000
    assert told.value("schedule_attempts_total", result="unschedulable") == 3
    assert told.value("e2e_job_scheduling_latency_milliseconds_sum") == 100_000
    assert told.of_group("start_time", "fits") == 900
    assert told.of_group("last_time", "fits") == 1000
    assert told.of_group("duration", "fits") == 100_000
    assert told.value("unschedule_task_count", job_id="fits") == 0
    assert told.value("job_share", job_ns="default", job_id="fits") == 0.5

    assert told.of_group("start_time", "waits") == 990
    assert told.of_group("last_time", "waits") is None
    assert told.value("unschedule_task_count", job_id="waits") == 3
    assert told.value("unschedule_job_count") == 1
    assert told.value("job_share", job_ns="default", job_id="waits") is None
    assert told.value("job_retry_counts", job_id="waits") == 1
    told.session()
    assert told.value("job_retry_counts", job_id="waits") == 2
    assert told.value("job_retry_counts", job_id="fits") is None


def test_where_groups_do_not_go_by_it_no_share_is_told() -> None:
    told = placing(["gang", "predicates"], **TWO)
    told.session()
    assert told.value("job_share", job_ns="default", job_id="fits") is None


def test_groups_of_one_name_are_told_together_where_the_label_is_their_name_alone() -> None:
    groups = [{"name": "a", "minMember": 2, "phase": "Inqueue", "namespace": each} for each in ("x", "y")]
    pods = [{"name": "a-0", "group": "a", "cpu": 9, "namespace": each} for each in ("x", "y")]
    told = placing(["gang", "predicates"], nodes=TWO["nodes"], podGroups=groups, pods=pods)
    told.session()
    assert told.value("unschedule_task_count", job_id="a") == 4
    assert told.of_group("start_time", "a", "x") is not None


def test_a_group_that_is_gone_has_no_series() -> None:
    told = placing(["gang", "drf", "predicates"], **TWO)
    told.session()
    told.world.do("deletePodGroups", ["fits", "waits"])
    for name in ("start_time", "last_time", "duration"):
        assert told.of_group(name, "fits") is None
    assert told.value("job_share", job_ns="default", job_id="fits") is None
    assert told.value("unschedule_task_count", job_id="waits") is None
    assert told.value("unschedule_job_count") == 0
    assert told.value("job_retry_counts", job_id="waits") is None


def test_a_group_made_again_under_a_name_begins_anew() -> None:
    told = placing(["gang", "predicates"], **TWO)
    told.session()
    before = told.world.groups[Key("default", "waits")]
    metadata = msgspec.structs.replace(before.metadata, uid=Uid("another"))
    told.world.put_group(msgspec.structs.replace(before, metadata=metadata))
    told.session()
    assert told.value("job_retry_counts", job_id="waits") == 1


def test_groups_that_are_gone_are_forgotten_even_if_nobody_asks() -> None:
    told = placing(["gang", "predicates"], nodes=TWO["nodes"])
    for number in range(20):
        told.world.do("addPodGroups", [{"name": f"g{number}", "minMember": 1, "phase": "Inqueue"}])
        told.world.do("addPods", [{"name": f"p{number}", "group": f"g{number}", "cpu": 9}])
        told.session()
        told.world.do("deletePods", [f"p{number}"])
        told.world.do("deletePodGroups", [f"g{number}"])
    told.session()
    assert told.metrics.records == {}


def test_evictions_are_attempts_and_victims() -> None:
    groups = [
        {"name": "lo", "minMember": 1, "phase": "Running", "priorityClassName": "low"},
        {"name": "hi", "minMember": 2, "phase": "Inqueue", "priorityClassName": "high"},
    ]
    pods = [
        {"name": "lo", "group": "lo", "count": 3, "cpu": 1, "node": "n1", "phase": "Running"},
        {"name": "hi", "group": "hi", "count": 2, "cpu": 1},
    ]
    told = placing(
        ["priority", "gang", "conformance", "predicates"],
        nodes=[{"name": "n1", "cpu": 3}], priorityClasses={"high": 9, "low": 1}, podGroups=groups, pods=pods,
    )  # fmt: skip
    assert told.value("total_preemption_attempts") == 0
    told.session()
    assert told.value("pod_preemption_victims") == 2
    assert told.value("total_preemption_attempts") == 1


def test_a_bind_as_it_went() -> None:
    told = placing(["gang"])
    bind = Bind(Key("default", "p"), Uid("u"), Key("default", "g"), "n1", created=990)
    told.metrics.bound(Bound(bind, pre_bind_s=0.25, bind_s=2))
    told.metrics.bind_failed(Key("default", "q"))
    assert told.value("task_scheduling_latency_milliseconds_sum", stage="Bound") == 10_000
    assert told.value("task_scheduling_latency_milliseconds_sum", stage="PreBound") == 8_000
    assert told.value("scheduling_stage_duration_milliseconds_sum", stage="PreBind") == 250
    assert told.value("scheduling_stage_duration_milliseconds_sum", stage="Bind") == 2_000
    assert told.value("schedule_attempts_total", result="scheduled") == 1
    assert told.value("schedule_attempts_total", result="error") == 1

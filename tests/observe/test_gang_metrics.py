"""Series of the gang scheduler after sessions on a cluster in memory."""

from typing import Any

import msgspec

from quorate.api.meta import Key, Uid
from quorate.gang.outcome import Bind
from quorate.observe.gang_metrics import GangMetrics
from quorate.scheduler.observer import Bound, SchedulerStatus, SessionTimer
from tests.gang.enqueue_worlds import group, rq, world
from tests.gang.vectors import settings_of
from tests.gang.world import World
from tests.kube.virtual_clock import VirtualClock


class TickingClock(VirtualClock):
    """Advances by one second with every reading."""

    def now(self) -> float:
        self._now += 1
        return self._now


class Measured:
    """A world and the metrics of its sessions."""

    def __init__(self, world: World) -> None:
        self.world, self.status, self.clock = (
            world,
            SchedulerStatus(settings=world.settings),
            VirtualClock(world.now),
        )
        self.recorder = GangMetrics(self.status, self.clock)

    def session(self) -> None:
        timer = SessionTimer(TickingClock())
        outcome = self.world.session(timer)
        self.status.model = self.world.model
        self.recorder.session_ended(outcome, timer.times())

    def value(self, name: str, **labels: str) -> float | None:
        self.recorder.remove_stale_series()
        return self.recorder.registry.get_sample_value(f"volcano_{name}", labels)

    def of_group(self, name: str, group: str, namespace: str = "default") -> float | None:
        return self.value(
            f"e2e_job_scheduling_{name}", job_name=group, queue="default", job_namespace=namespace
        )


def placing(plugins: list[Any], **given: Any) -> Measured:
    conf = {"actions": "allocate, preempt", "tiers": [plugins]}
    return Measured(World({"now": 1000, **given}, settings_of(conf, "design"), restarting=False))


def test_admissions_refusals_and_rollbacks_are_counted() -> None:
    groups = [group("a", "4", created=400), group("b", "4", created=500)]
    metrics = Measured(world({"podGroups": groups, "quotas": [rq({"cpu": 9})]}))
    metrics.session()
    assert metrics.value("enqueue_admitted_total", queue="default") == 1
    assert metrics.value("inqueue_wait_seconds_sum") == 600
    assert metrics.value("enqueue_rejected_total", queue="default", reason="NotEnoughResources") == 1
    assert metrics.value("queue_pod_group_inqueue_count", queue_name="default") == 1
    assert metrics.value("queue_pod_group_pending_count", queue_name="default") == 1
    assert metrics.value("queue_pod_group_running_count", queue_name="default") == 0
    assert metrics.value("quota_reserved", namespace="default", resource="cpu") == 4000

    metrics.session()
    assert metrics.value("enqueue_rejected_total", queue="default", reason="NotEnoughResources") == 1

    metrics.world.do("removeNodes", ["n1"])
    metrics.session()
    assert metrics.value("inqueue_rollback_total", queue="default", reason="NotEnoughResources") == 1
    assert metrics.value("quota_reserved", namespace="default", resource="cpu") is None


def test_the_age_of_the_oldest_admission_without_a_start_is_reported() -> None:
    metrics = Measured(world({"podGroups": [group("a", "1"), group("b", "1")]}))
    metrics.session()
    metrics.status.model = metrics.world.model
    assert metrics.value("inqueue_age_seconds", queue="default") == 0


def test_a_deleted_queue_has_no_series() -> None:
    metrics = Measured(world({"podGroups": [group("a", "9")]}))
    metrics.session()
    assert metrics.value("enqueue_rejected_total", queue="default", reason="NotEnoughResources") == 1
    metrics.world.model.remove_queue("default")
    assert metrics.value("enqueue_rejected_total", queue="default", reason="NotEnoughResources") is None
    assert metrics.value("queue_pod_group_pending_count", queue_name="default") is None


def test_a_follower_has_no_series_of_queues_and_groups() -> None:
    metrics = Measured(world({"podGroups": [group("a", "9")]}))
    refused = {"queue": "default", "reason": "NotEnoughResources"}
    assert metrics.value("queue_pod_group_pending_count", queue_name="default") is None
    metrics.session()
    assert metrics.value("enqueue_rejected_total", **refused) == 1
    metrics.status.model = None
    assert metrics.value("enqueue_rejected_total", **refused) is None
    assert metrics.value("job_retry_counts", job_id="a") is None


def test_the_durations_of_a_session_are_measured_by_part() -> None:
    """The clock is read eight times: at creation of the timer, at each part below, and at the end."""
    metrics = placing(["gang", "drf"])
    metrics.session()
    assert metrics.value("e2e_scheduling_latency_milliseconds_sum") == 8_000
    assert metrics.value("open_session_duration_milliseconds_sum") == 5_000
    plugin = "plugin_scheduling_latency_milliseconds_sum"
    for name in ("gang", "drf"):
        assert metrics.value(plugin, plugin=name, OnSession="OnSessionOpen") == 1_000
    for name in ("allocate", "preempt"):
        assert metrics.value("action_scheduling_latency_milliseconds_sum", action=name) == 1_000


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


def test_placed_and_waiting_groups_have_their_series() -> None:
    metrics = placing(["gang", "drf", "predicates"], **TWO)
    metrics.session()
    assert metrics.value("task_scheduling_latency_milliseconds_sum", stage="Assumed") == 2 * 50_000
    assert metrics.value("schedule_attempts_total", result="unschedulable") == 3
    assert metrics.value("e2e_job_scheduling_latency_milliseconds_sum") == 100_000
    assert metrics.of_group("start_time", "fits") == 900
    assert metrics.of_group("last_time", "fits") == 1000
    assert metrics.of_group("duration", "fits") == 100_000
    assert metrics.value("unschedule_task_count", job_id="fits") == 0
    assert metrics.value("job_share", job_ns="default", job_id="fits") == 0.5

    assert metrics.of_group("start_time", "waits") == 990
    assert metrics.of_group("last_time", "waits") is None
    assert metrics.value("unschedule_task_count", job_id="waits") == 3
    assert metrics.value("unschedule_job_count") == 1
    assert metrics.value("job_share", job_ns="default", job_id="waits") is None
    assert metrics.value("job_retry_counts", job_id="waits") == 1
    metrics.session()
    assert metrics.value("job_retry_counts", job_id="waits") == 2
    assert metrics.value("job_retry_counts", job_id="fits") is None


def test_there_is_no_share_without_the_drf_plugin() -> None:
    metrics = placing(["gang", "predicates"], **TWO)
    metrics.session()
    assert metrics.value("job_share", job_ns="default", job_id="fits") is None


def test_groups_with_the_same_name_are_summed_where_the_name_is_the_only_label() -> None:
    groups = [{"name": "a", "minMember": 2, "phase": "Inqueue", "namespace": each} for each in ("x", "y")]
    pods = [{"name": "a-0", "group": "a", "cpu": 9, "namespace": each} for each in ("x", "y")]
    metrics = placing(["gang", "predicates"], nodes=TWO["nodes"], podGroups=groups, pods=pods)
    metrics.session()
    assert metrics.value("unschedule_task_count", job_id="a") == 4
    assert metrics.of_group("start_time", "a", "x") is not None


def test_a_deleted_group_has_no_series() -> None:
    metrics = placing(["gang", "drf", "predicates"], **TWO)
    metrics.session()
    metrics.world.do("deletePodGroups", ["fits", "waits"])
    for name in ("start_time", "last_time", "duration"):
        assert metrics.of_group(name, "fits") is None
    assert metrics.value("job_share", job_ns="default", job_id="fits") is None
    assert metrics.value("unschedule_task_count", job_id="waits") is None
    assert metrics.value("unschedule_job_count") == 0
    assert metrics.value("job_retry_counts", job_id="waits") is None


def test_a_group_that_is_created_again_restarts_its_series() -> None:
    metrics = placing(["gang", "predicates"], **TWO)
    metrics.session()
    before = metrics.world.groups[Key("default", "waits")]
    metadata = msgspec.structs.replace(before.metadata, uid=Uid("another"))
    metrics.world.put_group(msgspec.structs.replace(before, metadata=metadata))
    metrics.session()
    assert metrics.value("job_retry_counts", job_id="waits") == 1


def test_records_of_deleted_groups_are_dropped_without_a_scrape() -> None:
    metrics = placing(["gang", "predicates"], nodes=TWO["nodes"])
    for number in range(20):
        metrics.world.do("addPodGroups", [{"name": f"g{number}", "minMember": 1, "phase": "Inqueue"}])
        metrics.world.do("addPods", [{"name": f"p{number}", "group": f"g{number}", "cpu": 9}])
        metrics.session()
        metrics.world.do("deletePods", [f"p{number}"])
        metrics.world.do("deletePodGroups", [f"g{number}"])
    metrics.session()
    assert metrics.recorder.records == {}


def test_evictions_count_as_attempts_and_victims() -> None:
    groups = [
        {"name": "lo", "minMember": 1, "phase": "Running", "priorityClassName": "low"},
        {"name": "hi", "minMember": 2, "phase": "Inqueue", "priorityClassName": "high"},
    ]
    pods = [
        {"name": "lo", "group": "lo", "count": 3, "cpu": 1, "node": "n1", "phase": "Running"},
        {"name": "hi", "group": "hi", "count": 2, "cpu": 1},
    ]
    metrics = placing(
        ["priority", "gang", "conformance", "predicates"],
        nodes=[{"name": "n1", "cpu": 3}], priorityClasses={"high": 9, "low": 1}, podGroups=groups, pods=pods,
    )  # fmt: skip
    assert metrics.value("total_preemption_attempts") == 0
    metrics.session()
    assert metrics.value("pod_preemption_victims") == 2
    assert metrics.value("total_preemption_attempts") == 1


def test_the_durations_of_a_bind_are_measured() -> None:
    metrics = placing(["gang"])
    bind = Bind(Key("default", "p"), Uid("u"), Key("default", "g"), "n1", created=990)
    metrics.recorder.bound(Bound(bind, pre_bind_s=0.25, bind_s=2))
    metrics.recorder.bind_failed(Key("default", "q"))
    assert metrics.value("task_scheduling_latency_milliseconds_sum", stage="Bound") == 10_000
    assert metrics.value("task_scheduling_latency_milliseconds_sum", stage="PreBound") == 8_000
    assert metrics.value("scheduling_stage_duration_milliseconds_sum", stage="PreBind") == 250
    assert metrics.value("scheduling_stage_duration_milliseconds_sum", stage="Bind") == 2_000
    assert metrics.value("schedule_attempts_total", result="scheduled") == 1
    assert metrics.value("schedule_attempts_total", result="error") == 1


def test_a_refused_write_is_counted_by_resource_and_code() -> None:
    metrics = placing(["gang"])
    binding = "/api/v1/namespaces/default/pods/p/binding"
    for verb, code in (("POST", 403), ("POST", 201), ("POST", 409), ("GET", 403)):
        metrics.recorder.request_answered(verb, binding, code, 0.1)
    assert metrics.value("refused_writes_total", resource="pods/binding", code="403") == 1
    assert metrics.value("refused_writes_total", resource="pods/binding", code="409") is None

"""What ``/metrics`` of the gang scheduler tells after sessions over a cluster in memory."""

from quorate.observe.gang_metrics import GangMetrics
from quorate.scheduler.scheduler import Seen
from tests.gang.waiting import group, rq, world
from tests.gang.world import World
from tests.kube.virtual import VirtualClock


class Watched:
    """``world`` as its metrics tell of it."""

    def __init__(self, world: World) -> None:
        self.world, self.seen, self.clock = world, Seen(), VirtualClock(world.now)
        self.metrics = GangMetrics(self.seen, self.clock)

    def session(self) -> None:
        outcome = self.world.session()
        self.seen.model = self.world.model
        for listener in self.seen.on_session:
            listener(outcome, 0.004)

    def value(self, name: str, **labels: str) -> float | None:
        self.metrics.forget_queues_that_are_gone()
        return self.metrics.registry.get_sample_value(f"volcano_{name}", labels)


def test_who_is_let_in_waits_and_goes_back_is_counted() -> None:
    groups = [group("a", "4", created=400), group("b", "4", created=500)]
    told = Watched(world({"podGroups": groups, "quotas": [rq({"cpu": 9})]}))
    told.session()
    assert told.value("enqueue_admitted_total", queue="default") == 1
    assert told.value("inqueue_wait_seconds_sum") == 600
    assert told.value("enqueue_rejected_total", queue="default", reason="NotEnoughResources") == 1
    assert told.value("e2e_scheduling_latency_milliseconds_bucket", le="5.0") == 1
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


def test_a_replica_that_stands_by_tells_nothing_of_queues() -> None:
    told = Watched(world({"podGroups": [group("a", "9")]}))
    assert told.value("queue_pod_group_pending_count", queue_name="default") is None

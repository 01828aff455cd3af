"""waitForPodsReady over HTTP: timeouts, backoff, deactivation, reactivation and blockAdmission."""

import msgspec
import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import Gates
from quorate.api.configuration.integrations import Integrations
from quorate.api.configuration.pods_ready import RequeuingStrategy, RequeuingTimestamp, WaitForPodsReady
from quorate.api.kueue import Workload
from quorate.api.kueue.wait_for_pods_ready import WAIT_FOR_PODS_READY
from quorate.api.meta import Key, epoch, find_condition, is_true
from quorate.api.names.kueue import PRIORITY_CLASS
from quorate.controllers.pods.constants import FAST_ADMISSION
from quorate.controllers.pods.queued_pod import is_gated
from quorate.kube.resources import JOBS, PODS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from quorate.local.nodes import NodePool
from quorate.queueing.pods_ready import SCHEDULING_TIMEOUT_ANNOTATION, TIMEOUT_ANNOTATION
from tests.e2e import bare_workloads
from tests.e2e.test_pods import has, pod, until_pod, until_workload
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

NODES = NodePool(2, cpu="8")
ALL_WAIT = "waiting for all admitted workloads to be in PodsReady condition"


def waiting(
    timeout_s: float,
    block: bool = False,
    limit: int | None = None,
    scheduling_s: float | None = None,
    timestamp: RequeuingTimestamp = "Eviction",
    backoff_s: float = 1.0,
) -> Configuration:
    return Configuration(
        wait_for_pods_ready=WaitForPodsReady(
            timeout_s=timeout_s,
            recovery_timeout_s=timeout_s,
            scheduling_timeout_s=scheduling_s,
            block_admission="AllQueues" if block else None,
            requeuing_strategy=RequeuingStrategy(
                timestamp=timestamp,
                backoff_limit_count=limit,
                backoff_base_s=backoff_s,
                backoff_max_s=2 * backoff_s,
            ),
        )
    )


def seconds(workload: Workload, type_: str) -> float:
    found = find_condition(workload.status.conditions, type_)
    assert found is not None
    assert found.last_transition_time is not None
    return epoch(found.last_transition_time)


def test_pods_ready_is_set_when_all_pods_are_ready() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("train", pods=2, starts="500ms", runs="1s")
        await world.until_condition(
            "train", "PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded"
        )
        await world.until_condition(
            "train", "PodsReady", "True", "Started", "All pods reached readiness and the workload is running"
        )
        await world.until_finished("train")

    run_story(story, waiting(timeout_s=60), NODES)


def test_a_workload_without_a_job_has_no_condition_of_its_pods() -> None:
    """Kueue writes PodsReady where it reconciles jobs; the timeout counts from the admission all the same."""

    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await bare_workloads.submit(world, "alone", requests={"cpu": "1"})
        await bare_workloads.until_admitted(world, "alone")
        stored = await bare_workloads.read(world, "alone")
        assert [each.type for each in stored.status.conditions] == ["QuotaReserved", "Admitted"]
        await bare_workloads.until_workload_condition(world, "alone", "Evicted", reason="PodsReadyTimeout")

    run_story(story, waiting(timeout_s=2), NODES)


def test_a_workload_without_ready_pods_is_evicted_backs_off_and_is_deactivated() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("stuck", pods=2, starts="1h")
        evicted = await world.until_condition(
            "stuck",
            "Evicted",
            "True",
            "PodsReadyTimeout",
            "Exceeded the PodsReady timeout "
            f"default/{(await world.until_condition('stuck', 'Admitted')).metadata.name}",
        )
        state = evicted.status.requeue_state
        assert state is not None
        assert state.requeue_at is not None
        assert state.count == 1
        assert epoch(state.requeue_at) >= seconds(evicted, "Evicted") + 1
        await world.until_condition("stuck", "Requeued", "False", "PodsReadyTimeout")
        assert (await world.get_job("stuck")).spec.suspend
        again = await world.until_condition("stuck", "Requeued", "True", "BackoffFinished")
        assert seconds(again, "Requeued") >= epoch(state.requeue_at)
        await world.until_admitted("stuck")

        given_up = await world.until_condition(
            "stuck",
            "Evicted",
            "True",
            "DeactivatedDueToRequeuingLimitExceeded",
            "The workload is deactivated due to exceeding the maximum number of re-queuing retries",
        )
        assert not given_up.spec.active
        assert given_up.status.requeue_state is None
        await world.until_condition("stuck", "QuotaReserved", "False")
        await world.client.patch(WORKLOADS, given_up.metadata.key, {"spec": {"active": True}})
        await world.until_condition("stuck", "Requeued", "True", "Reactivated")
        await world.until_admitted("stuck")

    run_story(story, waiting(timeout_s=3, limit=1), NODES)


def test_during_a_backoff_the_conditions_keep_the_reason_of_the_eviction() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("stuck", pods=2, starts="1h")
        name = (await world.until_condition("stuck", "Admitted")).metadata.name
        await world.until_condition("stuck", "Requeued", "False", "PodsReadyTimeout")
        seen: set[str] = set()

        async def is_requeued() -> bool:
            workload = await world.workload("stuck")
            assert workload is not None
            requeued = find_condition(workload.status.conditions, "Requeued")
            if requeued is not None and requeued.status == "True":
                return True
            reserved = find_condition(workload.status.conditions, "QuotaReserved")
            assert reserved is not None
            seen.add(reserved.message)
            return False

        await world.until("the backoff ends", is_requeued)
        assert seen == {f"Exceeded the PodsReady timeout default/{name}"}

    run_story(story, waiting(timeout_s=1, backoff_s=4.0), NODES)


def test_an_incomplete_group_with_fast_admission_is_readmitted_with_one_replacement() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        fast = {FAST_ADMISSION: "true"}
        await pod(world, "first", group="train", total=2, runs="1h", annotations=fast)
        await until_workload(world, "train", "is admitted", has("Admitted"))
        waiting_for = "WaitingForReplacementPods"
        await until_workload(world, "train", "waits", has(waiting_for, reason="PodsReadyTimeout"))
        await until_workload(world, "train", "is requeued", has("Requeued", reason="BackoffFinished"))
        still = await until_workload(world, "train", "waits for a pod", has(waiting_for))
        assert not is_true(still.status.conditions, "QuotaReserved")
        await pod(world, "second", group="train", total=2, runs="1h", annotations=fast)
        await until_workload(world, "train", "is admitted again", has("Admitted"))
        await until_pod(world, "second", "is ungated", lambda each: not is_gated(each))

    configuration = msgspec.structs.replace(
        waiting(timeout_s=1), integrations=Integrations(frameworks=("batch/job", "pod"))
    )
    run_story(story, configuration, NODES)


@pytest.mark.parametrize("timestamp", ["Creation", "Eviction"])
def test_a_preempted_workload_is_not_admitted_again_before_its_preemptor(
    timestamp: RequeuingTimestamp,
) -> None:
    """KEP-1282 requires a test of flapping with ``timestamp: Creation``: the older workload comes first."""

    async def story(world: World) -> None:
        await world.create(WORKLOAD_PRIORITY_CLASSES, "high", value=10)
        await world.queues(cpu="2", preemption={"withinClusterQueue": "LowerPriority"})
        await world.job("low", pods=2, runs="forever")
        await world.until_admitted("low")
        await world.job("high", pods=2, runs="1s", labels={PRIORITY_CLASS: "high"})
        await world.until_finished("high")
        low = await world.until_condition("low", "Admitted")
        assert low.status.scheduling_stats is not None
        evictions = low.status.scheduling_stats.evictions
        assert [(each.reason, each.count) for each in evictions] == [("Preempted", 1)]

    run_story(story, waiting(timeout_s=60, timestamp=timestamp), NODES)


def test_block_admission_starts_one_workload_at_a_time() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="8")
        await world.job("first", pods=2, starts="8s", runs="forever")
        await world.until_admitted("first")
        await world.job("second", pods=2, starts="50ms", runs="forever")
        await world.until_condition("second", "QuotaReserved", "False", "WaitingForPodsReady", ALL_WAIT)
        assert await world.admitted() == {"first"}
        second = await world.until_condition("second", "Admitted")
        first = await world.until_condition("first", "PodsReady")
        assert seconds(second, "Admitted") >= seconds(first, "PodsReady")

    run_story(story, waiting(timeout_s=60, block=True), NODES)


def test_a_blocked_queue_continues_when_the_blocking_workload_is_evicted() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="8")
        await world.job("stuck", starts="1h")
        stuck = await world.until_condition("stuck", "Admitted")
        await world.job("next", runs="200ms")
        await world.until_condition("next", "QuotaReserved", "False", "WaitingForPodsReady", ALL_WAIT)
        hurry = {"metadata": {"annotations": {TIMEOUT_ANNOTATION: "1s"}}}
        await world.client.patch(WORKLOADS, stuck.metadata.key, hurry)
        await world.until_condition("stuck", "Evicted")
        await world.until_finished("next")

    run_story(story, waiting(timeout_s=60, block=True), NODES)


def test_unscheduled_pods_have_a_separate_timeout() -> None:
    """The pods of ``slow`` have nodes and never start; no node fits the second pod of ``lost``."""

    async def story(world: World) -> None:
        async def has_nodes() -> bool:
            pods = (await world.client.list(PODS)).items
            return len(pods) == 2 and all(pod.spec.node_name for pod in pods)

        await world.queues(cpu="100")
        await world.job("slow", pods=2, starts="1h", suspend=True)
        slow = await world.until_condition("slow", "Admitted")
        await world.until("the pods of slow have nodes", has_nodes)
        second = {SCHEDULING_TIMEOUT_ANNOTATION: "1s"}
        await world.client.patch(WORKLOADS, slow.metadata.key, {"metadata": {"annotations": second}})
        await world.job("lost", pods=2, cpu="8", annotations=second, suspend=True)
        evicted = await world.until_condition("lost", "Evicted", "True", "PodsReadyTimeout")
        stats = evicted.status.scheduling_stats
        assert stats is not None
        assert [each.underlying_cause for each in stats.evictions] == ["WaitForScheduling"]
        # The second is over for slow too, as its pods are older.
        await world.until_condition("slow", "PodsReady", "False", "WaitForStart")
        assert "slow" in await world.admitted(), await world.describe()
        still_slow = await world.workload("slow")
        assert still_slow is not None
        assert find_condition(still_slow.status.conditions, "Evicted") is None

    run_story(story, waiting(timeout_s=3600, scheduling_s=3600), NODES)


def test_a_workload_sets_shorter_timeouts() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="8")
        await world.job("hasty", starts="1h", annotations={TIMEOUT_ANNOTATION: "1s"})
        await world.job("patient", starts="1h")
        await world.until_condition("hasty", "Evicted", "True", "PodsReadyTimeout")
        assert "patient" in await world.admitted()

    run_story(story, waiting(timeout_s=60), NODES)


def test_a_workload_sets_its_timeouts_as_in_kueue_and_follows_its_job() -> None:
    def of(timeout_s: int) -> dict[str, str]:
        return {WAIT_FOR_PODS_READY: f'{{"timeoutSeconds": {timeout_s}}}'}

    async def story(world: World) -> None:
        await world.queues(cpu="8")
        await world.job("hasty", starts="1h", annotations=of(1))
        await world.job("patient", starts="1h", annotations=of(3600))
        patient = await world.until_condition("patient", "Admitted")
        await world.until_condition("hasty", "Evicted", "True", "PodsReadyTimeout")
        assert "patient" in await world.admitted()
        await world.client.patch(JOBS, Key(NAMESPACE, "patient"), {"metadata": {"annotations": of(1)}})
        evicted = await world.until_condition("patient", "Evicted", "True", "PodsReadyTimeout")
        assert evicted.metadata.uid == patient.metadata.uid

    gates = Gates(workload_level_wait_for_pods_ready=True)
    run_story(story, msgspec.structs.replace(waiting(timeout_s=60), gates=gates), NODES)


def test_the_reason_of_unready_pods_says_whether_they_have_nodes() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="100")
        await world.job("lost", pods=2, cpu="12", suspend=True)
        lost = await world.until_condition("lost", "PodsReady", "False", "WaitForScheduling")
        assert seconds(lost, "PodsReady") >= seconds(lost, "Admitted")
        await world.job("slow", pods=2, starts="2s", suspend=True)
        await world.until_condition("slow", "PodsReady", "False", "WaitForStart")
        await world.until_condition("slow", "PodsReady", "True", "Started")

    run_story(story, waiting(timeout_s=3600, scheduling_s=3600), NODES)

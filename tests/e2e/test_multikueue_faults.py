"""A manager and its workers through cut connections, restarts, wrong credentials and other clocks."""

from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from quorate.api.meta import Key
from quorate.api.names.multikueue import INCREMENTAL
from quorate.kube.clock import WallClock
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, MULTIKUEUE_CLUSTERS, WORKLOADS
from tests.e2e import shared_clusters
from tests.e2e.clusters import PROMPT, Clusters, run_clusters_story, running_clusters
from tests.e2e.test_multikueue import ENDLESS, fill
from tests.e2e.worker_clusters import kubeconfig, until_active
from tests.e2e.world import NAMESPACE
from tests.faults.cluster_promises import ClusterPromises
from tests.faults.history import recorded

pytestmark = pytest.mark.slow

PATIENT = replace(PROMPT, multikueue=replace(PROMPT.multikueue, worker_lost_timeout_s=900.0))


class ShiftedClock(WallClock):
    """A wall clock that is wrong by ``by_s``."""

    def __init__(self, by_s: float = 0.0) -> None:
        self.by_s = by_s

    def now(self) -> float:
        return super().now() + self.by_s


def test_a_job_of_a_lost_worker_runs_elsewhere_after_the_timeout_and_is_removed_there() -> None:
    async def story(clusters: Clusters) -> None:
        await clusters.submit("train", runs=ENDLESS)
        lost = await clusters.until_running("train")
        clusters.links[lost].cut()
        await until_active(clusters.manager, MULTIKUEUE_CLUSTERS, lost, "False", "ClientConnectionFailed")

        async def elsewhere() -> bool:
            workload = await clusters.manager.workload("train")
            return workload is not None and workload.status.cluster_name not in (None, "", lost)

        await clusters.until("another worker has the job", elsewhere)
        clusters.links[lost].repair()
        assert await clusters.until_running("train") != lost

    run_clusters_story(story)


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_job_stays_in_a_worker_that_is_lost_for_less_than_the_timeout(fault: str) -> None:
    async def story(clusters: Clusters) -> None:
        await clusters.submit("train", runs="8s")
        chosen = await clusters.until_running("train")
        getattr(clusters.links[chosen], fault)()
        await clusters.submit("other", runs="100ms")
        await clusters.manager.until_finished("other")
        assert (await clusters.pods("train")).keys() <= {chosen}
        clusters.links[chosen].repair()
        await clusters.manager.until_finished("train")
        await clusters.until_removed("train")

    run_clusters_story(story, configuration=PATIENT)


def test_a_job_moves_once_its_pods_have_ended() -> None:
    """The copy of its workload is deleted; the pods take two seconds to end."""

    async def run() -> None:
        async with running_clusters(configuration=PATIENT) as clusters, AsyncExitStack() as stack:
            histories = {
                name: await stack.enter_async_context(recorded(worker.client))
                for name, worker in clusters.workers.items()
            }
            await clusters.submit("train", pods=2, runs=ENDLESS, stops="2s")
            former = await clusters.until_running("train")
            world, (copy,) = clusters.workers[former], (await clusters.copies("train")).values()
            await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": {"stopPolicy": "Hold"}})
            await world.client.patch(WORKLOADS, copy.metadata.key, {"metadata": {"finalizers": None}})
            await world.client.delete(WORKLOADS, copy.metadata.key)

            async def moved() -> bool:
                return former not in await clusters.pods("train") and bool(await clusters.pods("train"))

            await clusters.until("the job runs in the other worker", moved)
            promises = ClusterPromises(lambda *_: False)
            steps = [(step.at, name, step) for name, history in histories.items() for step in history.steps]
            for _, name, step in sorted(steps, key=lambda each: each[0]):
                assert not [*promises.step(name, step)]

    shared_clusters.run(run())


def test_new_processes_of_all_clusters_continue() -> None:
    async def story(clusters: Clusters) -> None:
        await fill(clusters.workers["worker1"])
        await clusters.submit("running", pods=2, runs="4s")
        await clusters.submit("waiting", pods=4)
        await clusters.until_running("running")
        worlds = (clusters.manager, *clusters.workers.values())
        for world in worlds:
            await world.stop_queueing()
        for world in worlds:
            await world.start_queueing(PATIENT, seed=2)
        await clusters.manager.until_finished("running", "waiting")
        for name in ("running", "waiting"):
            await clusters.until_removed(name)

    run_clusters_story(story, configuration=PATIENT)


def test_what_a_manager_left_while_it_was_down_is_collected() -> None:
    async def story(clusters: Clusters) -> None:
        await clusters.submit("deleted", runs=ENDLESS)
        await clusters.submit("kept", runs=ENDLESS)
        for name in ("deleted", "kept"):
            await clusters.until_running(name)
        await clusters.manager.stop_queueing()
        await clusters.manager.client.delete(JOBS, Key(NAMESPACE, "deleted"), propagation="Background")
        workload = await clusters.manager.workload("deleted")
        assert workload is not None
        await clusters.manager.start_queueing(PROMPT, seed=2)
        await clusters.until_removed("deleted")
        await clusters.until_running("kept")

    run_clusters_story(story)


def test_an_expired_kubeconfig_is_replaced() -> None:
    async def story(clusters: Clusters) -> None:
        url = clusters.links["worker1"].url
        await clusters.replace_kubeconfig("worker1", kubeconfig(url, {"token": "expired"}))
        await until_active(
            clusters.manager, MULTIKUEUE_CLUSTERS, "worker1", "False", "ClientConnectionFailed"
        )
        await fill(clusters.workers["worker2"])
        await clusters.submit("train")
        await clusters.replace_kubeconfig("worker1", kubeconfig(url))
        await clusters.until_connected("worker1")
        await clusters.manager.until_finished("train")

    run_clusters_story(story)


def test_clocks_of_other_clusters_do_not_matter() -> None:
    async def run() -> None:
        clocks = {"worker1": ShiftedClock(-3600.0), "worker2": ShiftedClock(3600.0)}
        async with running_clusters(configuration=PATIENT, clocks=clocks) as clusters:
            for number in range(4):
                await clusters.submit(f"train{number}", pods=3, runs="300ms")
            for number in range(4):
                await clusters.manager.until_finished(f"train{number}")
                await clusters.until_removed(f"train{number}")

    shared_clusters.run(run())


def test_the_incremental_dispatcher_adds_clusters_round_by_round() -> None:
    async def run() -> None:
        multikueue = replace(PATIENT.multikueue, dispatcher=INCREMENTAL, step_size=1)
        clock = ShiftedClock()
        async with running_clusters(
            3, replace(PATIENT, multikueue=multikueue), {"manager": clock}
        ) as clusters:
            for worker in clusters.workers.values():
                await fill(worker)
            await clusters.submit("train", pods=2)
            for nominated in (["worker1"], ["worker1", "worker2"], ["worker1", "worker2", "worker3"]):

                async def found(nominated: list[str] = nominated) -> bool:
                    return [*await clusters.copies("train")] == nominated

                await clusters.until(f"copies in {nominated}", found)
                workload = await clusters.manager.workload("train")
                assert workload is not None
                assert [*workload.status.nominated_cluster_names] == nominated
                clock.by_s += 301.0
                # A new process reads the begin of the round from the workload.
                await clusters.manager.stop_queueing()
                await clusters.manager.start_queueing(replace(PATIENT, multikueue=multikueue), clock=clock)

    shared_clusters.run(run())

"""``/metrics`` in the Prometheus format while jobs run."""

import math
from collections import defaultdict

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorate.api.configuration import Configuration, load_configuration
from quorate.api.configuration.metric_labels import CustomLabel
from quorate.api.configuration.process import Metrics
from quorate.api.meta import Key, find_condition
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from quorate.local.nodes import NodePool
from quorate.observe.custom_labels import UNTRACKED
from quorate.observe.families import BY_NAME, FAMILIES, ROLE
from quorate.observe.queueing_metrics import metrics
from tests.e2e.bare_workloads import (
    gauges,
    get_condition,
    submit,
    until_admitted,
    until_gauges,
    until_waiting,
)
from tests.e2e.world import NAMESPACE, World, run_story
from tests.observe.listening import listening

pytestmark = pytest.mark.slow

Scrape = dict[str, dict[tuple[str, ...], float]]  # by name, then by labels without the role


async def scrape(url: str) -> Scrape:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        assert answer.status == 200
        text = await answer.text()
    result: Scrape = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        assert family.samples, f"{family.name} has no series"
        kind = "_total" if family.type == "counter" else ""
        names = BY_NAME[family.name + kind].labels
        for sample in family.samples:
            assert sorted(sample.labels.keys() - {"le"}) == sorted(names)
            assert sample.labels.get(ROLE, "standalone") == "standalone"
            labels = tuple(sample.labels[name] for name in names if name != ROLE)
            result[sample.name][labels] = sample.value
    return result


def test_metrics_count_pending_admitted_and_finished_workloads() -> None:
    async def story(world: World) -> None:
        async with listening("metrics.bindAddress", metrics(world.replica)) as url:
            await world.queues(cpu="3", cohortName="lab")
            await world.job("long", cpu="2", runs="forever")
            await world.until_admitted("long")
            await world.job("short", cpu="1", runs="100ms")
            await world.until_finished("short")
            assert (await scrape(url))["kueue_cluster_queue_resource_pending"] == {("research", "cpu"): 0}
            await world.job("wide", pods=2, cpu="2", suspend=True)
            await world.until_condition("wide", "QuotaReserved", "False")
            got = await world.until("all workloads are counted", lambda: counted(url))
            queue, local = ("research",), ("queue", NAMESPACE)
            assert got["kueue_reserving_active_workloads"] == {queue: 1}
            assert got["kueue_admitted_active_workloads"] == {queue: 1}
            assert got["kueue_finished_workloads"] == {queue: 1}
            assert got["kueue_pending_workloads"] == {
                ("research", "active"): 0,
                ("research", "inadmissible"): 1,
            }
            assert got["kueue_local_queue_pending_workloads"] == {
                (*local, "active"): 0,
                (*local, "inadmissible"): 1,
            }
            assert got["kueue_quota_reserved_workloads_total"] == {("research", ""): 2}
            assert got["kueue_admitted_workloads_total"] == {("research", ""): 2}
            assert got["kueue_local_queue_admitted_workloads_total"] == {(*local, ""): 2}
            assert got["kueue_cohort_subtree_admitted_workloads_total"] == {("lab", ""): 2}
            assert got["kueue_admission_wait_time_seconds_count"] == {("research", ""): 2}
            assert got["kueue_finished_workloads_total"] == {("research", ""): 1}
            assert got["kueue_workload_creation_latency_seconds_count"] == {("Job",): 1}
            assert got["kueue_admission_attempts_total"]["success",] >= 1
            assert got["kueue_cluster_queue_status"]["research", "active"] == 1
            assert got["kueue_local_queue_status"][*local, "True"] == 1
            quota = ("lab", "research", "default", "cpu")
            assert got["kueue_cluster_queue_nominal_quota"] == {quota: 3}
            assert got["kueue_cluster_queue_resource_usage"] == {quota: 2}
            assert got["kueue_cluster_queue_resource_pending"]["research", "cpu"] == 4
            assert got["kueue_cluster_queue_borrowing_limit"] == {quota: math.inf}
            assert got["kueue_cohort_subtree_quota"] == {("lab", "default", "cpu"): 3}
            why = ("NoReservation", "ExceedsMaxQuota")
            assert got["kueue_unadmitted_workloads"] == {("research", *why): 1}
            assert got["kueue_local_queue_unadmitted_workloads"] == {(*local, "research", *why): 1}
            assert got["kueue_admission_cycle_preemption_skips"] == {("research",): 0}
            assert got["kueue_cluster_queue_info"] == {("research", "lab", "lab"): 1}

            for job in ("long", "short", "wide"):
                await world.client.delete(JOBS, Key(NAMESPACE, job), propagation="Foreground")
            await world.client.delete(CLUSTER_QUEUES, Key("", "research"))
            await world.until("the series of the queue are removed", lambda: series_are_removed(url))
            got = await scrape(url)
            assert {
                name for name in got if name.startswith("kueue_local_queue_") and "active_workloads" in name
            } == set()
            await world.until("the local queue is counted as stopped", lambda: is_stopped(url, local))
            await world.client.delete(LOCAL_QUEUES, Key(NAMESPACE, "queue"))
            await world.until(
                "no series of the local queue is left", lambda: series_are_removed(url, "queue")
            )

    configuration = Configuration(metrics=Metrics(cluster_queue_resources=True))
    run_story(story, configuration, NodePool(1, cpu="8"))


def test_preemptions_count_for_the_preemptor_queue_and_evictions_for_the_victim_queue() -> None:
    async def story(world: World) -> None:
        async with listening("metrics.bindAddress", metrics(world.replica)) as url:
            await world.queues(cpu="1", preemption={"withinClusterQueue": "LowerPriority"})
            await world.create(WORKLOAD_PRIORITY_CLASSES, "high", value=100)
            await world.job("low", runs="forever")
            await world.until_admitted("low")
            await world.job("urgent", runs="forever", labels={"kueue.x-k8s.io/priority-class": "high"})
            await world.until_admitted("urgent")

            async def released() -> Scrape | None:
                got = await scrape(url)
                latency = got["kueue_workload_eviction_latency_seconds_count"]
                return got if latency == {("research", "Preempted"): 1} else None

            got = await world.until("the eviction is counted", released)
            assert got["kueue_preempted_workloads_total"] == {("research", "InClusterQueue"): 1}
            evicted = ("research", "Preempted", "", "")
            assert got["kueue_evicted_workloads_total"] == {evicted: 1}
            assert got["kueue_evicted_workloads_once_total"] == {evicted: 1}
            assert got["kueue_admitted_workloads_total"] == {("research", ""): 1, ("research", "high"): 1}

    run_story(story, Configuration(), NodePool(1, cpu="8"))


ESTIMATES = (
    "quorate_estimates_timestamp_seconds",
    "quorate_estimates_processor_seconds",
)
RESERVATIONS = tuple(f"quorate_reservation_{name}" for name in ("condition", "amount", "used", "backfilled"))


async def counted(url: str) -> Scrape | None:
    got = await scrape(url)
    missing = [family.name for family in FAMILIES if family.kind == "gauge" and not got[family.name]]
    assert missing == [
        "kueue_local_queue_admission_fair_sharing_usage",  # not configured
        "multikueue_cluster_status",  # there are no worker clusters
        "quorate_pending_start_seconds",  # nothing waits for long
        *RESERVATIONS,  # there are none
        *ESTIMATES,
    ]
    done = (
        got["kueue_finished_workloads_total"] and got["kueue_pending_workloads"]["research", "inadmissible"]
    )
    return got if done else None


async def is_stopped(url: str, local_queue: tuple[str, str]) -> bool:
    return (await scrape(url))["kueue_local_queue_status"][*local_queue, "False"] == 1


async def series_are_removed(url: str, queue: str = "research") -> bool:
    got = await scrape(url)
    left = {name for name, samples in got.items() if any(queue in labels for labels in samples)}
    return not left


def test_a_held_queue_has_no_active_pending_workloads() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1", stopPolicy="Hold")
        await submit(world, "first", requests={"cpu": "1"}, priority=1)
        await submit(world, "second", requests={"cpu": "1"})
        await until_waiting(world, "research", active=0, inadmissible=2)
        local = ("queue", NAMESPACE)
        await until_gauges(
            world,
            "local_queue_pending_workloads",
            {(*local, "active"): 0, (*local, "inadmissible"): 2},
        )

        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": {"stopPolicy": None}})
        await until_admitted(world, "first")
        await until_waiting(world, "research", active=0, inadmissible=1)
        await world.client.patch(LOCAL_QUEUES, Key(*reversed(local)), {"spec": {"stopPolicy": "Hold"}})
        await until_waiting(world, "research", active=0, inadmissible=0)
        assert gauges(world, "local_queue_pending_workloads") == {}

    run_story(story, Configuration())


def test_series_have_the_configured_custom_labels() -> None:
    labels = (
        CustomLabel(name="team", key="team"),
        CustomLabel(name="site", key="site", source="LocalQueue"),
        CustomLabel(name="tier", key="tier", source="Workload", tracked_values=("gold",)),
    )

    async def story(world: World) -> None:
        async with listening("metrics.bindAddress", metrics(world.replica)) as url:
            await world.queues(cpu="3", cohortName="lab")
            await world.client.patch(
                CLUSTER_QUEUES, Key("", "research"), {"metadata": {"labels": {"team": "a"}}}
            )
            await world.client.patch(
                LOCAL_QUEUES, Key(NAMESPACE, "queue"), {"metadata": {"labels": {"site": "x"}}}
            )
            for name, tier in (("first", "gold"), ("second", "tin")):
                await world.job(name, runs="forever", labels={"tier": tier})
            await world.until_admitted("first", "second")
            await submit(world, "third", requests={"cpu": "4"}, metadata={"labels": {"tier": "gold"}})

            async def labelled() -> bool:
                text = await page(url)
                return all(line in text for line in (*CUSTOM_LABELS, pending("gold")))

            await world.until("all labels are set", labelled)
            await world.client.patch(
                WORKLOADS, Key(NAMESPACE, "third"), {"metadata": {"labels": {"tier": "tin"}}}
            )

            async def moved() -> bool:
                text = await page(url)
                return pending(UNTRACKED) in text and text.count("kueue_pending_workloads{") == 1

            await world.until("the label of the pending workload has changed", moved)

    configuration = load_configuration(
        "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, "
        "integrations: {frameworks: [batch/job]}}"
    ).configuration
    rules = msgspec.structs.replace(configuration.metrics, custom_labels=labels)
    run_story(story, msgspec.structs.replace(configuration, metrics=rules), NodePool(1, cpu="8"))


def pending(tier: str) -> str:
    return (
        f'kueue_pending_workloads{{cluster_queue="research",custom_team="a",custom_tier="{tier}",'
        'replica_role="standalone",status="inadmissible"} 1.0'
    )


CUSTOM_LABELS = (
    'kueue_admitted_active_workloads{cluster_queue="research",custom_team="a",custom_tier="gold",'
    'replica_role="standalone"} 1.0',
    'kueue_admitted_active_workloads{cluster_queue="research",custom_team="a",'
    f'custom_tier="{UNTRACKED}",replica_role="standalone"}} 1.0',
    'kueue_cohort_subtree_admitted_active_workloads{cohort="lab",custom_team="a",'
    'replica_role="standalone"} 2.0',
    'kueue_admitted_workloads_total{cluster_queue="research",custom_team="a",priority_class="",'
    'replica_role="standalone"} 2.0',
    *(
        f'kueue_local_queue_{name}{{custom_site="x",custom_tier="{tier}",name="queue",namespace="default",'
        f'{more}replica_role="standalone"}} 1.0'
        for tier in ("gold", UNTRACKED)
        for name, more in (
            ("admitted_active_workloads", ""),
            ("admitted_workloads_total", 'priority_class="",'),
            ("admission_wait_time_seconds_count", 'priority_class="",'),
        )
    ),
)


async def page(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        return await answer.text()


def test_gauges_of_a_cohort_end_with_its_object_until_a_queue_changes() -> None:
    async def story(world: World) -> None:
        await world.create(COHORTS, "lab", spec={"parentName": "site"})
        await world.queues(cpu="3", cohortName="lab")

        async def is_active() -> bool:
            queue = await world.client.get(CLUSTER_QUEUES, Key("", "research"))
            active = find_condition(queue.status.conditions, "Active")
            return active is not None and active.status == "True"

        # A new process writes no status: that would be a change of the queue after the end of the cohort.
        await world.until("the status of the queue is complete", is_active)
        await world.stop_queueing()
        await world.start_queueing(Configuration())
        async with listening("metrics.bindAddress", metrics(world.replica)) as url:

            async def until_shown(*cohorts: str) -> None:
                async def shown() -> bool:
                    got = await scrape(url)
                    quota = {(cohort, "default", "cpu"): 3 for cohort in cohorts}
                    shares = {labels[0] for labels in got["kueue_cohort_weighted_share"]}
                    return got["kueue_cohort_subtree_quota"] == quota and shares == set(cohorts)

                await world.until(f"the gauges are those of {cohorts}", shown)

            await until_shown("lab", "site")
            await world.client.delete(COHORTS, Key("", "lab"))
            await until_shown()  # "site" has no member left
            body = {"spec": {"stopPolicy": "Hold"}}
            await world.client.patch(CLUSTER_QUEUES, Key("", "research"), body)
            await until_shown("lab")

    run_story(story, Configuration())


@pytest.mark.parametrize("edited", ["cluster queue", "cohort"])
def test_quota_edits_in_quick_succession_cost_few_attempts(edited: str) -> None:
    def groups(cpu: int) -> list[dict[str, object]]:
        quotas = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}
        return [{"coveredResources": ["cpu"], "flavors": [quotas]}]

    async def story(world: World) -> None:
        async with listening("metrics.bindAddress", metrics(world.replica)) as url:
            await world.create(COHORTS, "lab", spec={"resourceGroups": groups(0)})
            await world.queues(cpu="0", cohortName="lab")
            await submit(world, "w", requests={"cpu": "100"})

            async def until_maximum(cpu: int) -> None:
                async def find() -> bool:
                    reserved = await get_condition(world, "w", "QuotaReserved")
                    return reserved is not None and f"maximum capacity ({cpu})" in reserved.message

                await world.until(f"the workload waits for more than {cpu} cpus", find)

            async def attempts() -> float:
                return sum((await scrape(url))["kueue_admission_attempts_total"].values())

            await until_maximum(0)
            before = await attempts()
            for cpu in range(1, 11):
                body = {"spec": {"resourceGroups": groups(cpu)}}
                if edited == "cohort":
                    await world.client.patch(COHORTS, Key("", "lab"), body)
                else:
                    await world.client.patch(CLUSTER_QUEUES, Key("", "research"), body)
            await until_maximum(10)
            assert 1 <= await attempts() - before <= 5

    run_story(story, Configuration())

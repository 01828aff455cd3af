"""Evictions for gangs of Volcano Jobs, with controllers, gang scheduler and nodes."""

from typing import Any

import pytest

from quorate.api.quantity import parse_quantity
from quorate.api.scheduler_configuration import DEFAULT_FILE
from quorate.kube.resources import POD_GROUPS, PRIORITY_CLASSES, QUEUES, RESOURCE_QUOTAS
from tests.e2e.test_gang_lives import EVICTING, FOR_EVER, Life, a_task, run_life
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

Json = dict[str, Any]
RECLAIM_FIRST = DEFAULT_FILE.replace(
    '"enqueue, allocate, backfill"', '"enqueue, reclaim, allocate, backfill, preempt"'
)


async def two_queues(life: Life) -> None:
    for name in ("one", "two"):
        await life.client.create(QUEUES, {"metadata": {"name": name}, "spec": {"weight": 1}})


@pytest.mark.parametrize(("profile", "cpu", "left"), [("design", "4", 2), ("compat", "5", 3)])
def test_a_gang_starts_on_what_reclaim_frees_before_allocate(profile: str, cpu: str, left: int) -> None:
    async def story(life: Life) -> None:
        await two_queues(life)
        await life.job("wide", a_task("w", 4, cpu="1"), minAvailable=1, queue="one")
        await life.gangs.until_job("wide", "Running", running=4)
        await life.job("pair", a_task("w", 2, cpu="1"), minAvailable=2, queue="two")
        await life.gangs.until_job("pair", "Running", running=2)
        await life.gangs.until_job("wide", "Running", running=left)

    run_life(story, nodes=1, cpu=cpu, file=RECLAIM_FIRST, profile=profile)


def test_a_gang_that_fits_starts_at_once_with_reclaim_before_allocate() -> None:
    async def story(life: Life) -> None:
        await two_queues(life)
        for job, queue in (("first", "one"), ("second", "two")):
            await life.job(job, a_task("w", cpu="1"), minAvailable=1, queue=queue)
            await life.gangs.until_job(job, "Running", running=1)

    run_life(story, nodes=1, cpu="8", file=RECLAIM_FIRST)


def test_a_pod_preempts_for_a_host_port_and_for_anti_affinity_at_the_cost_of_one_pod() -> None:
    async def story(life: Life) -> None:
        await life.client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        await life.job("lowport", with_host_port(a_task("w", 2, cpu="1")), minAvailable=1)
        await life.gangs.until_job("lowport", "Running", running=2)
        port = with_host_port(a_task("w", cpu="1", priority="urgent"))
        await life.job("urgent", port, minAvailable=1, priorityClassName="urgent")
        apart = a_task("w", cpu="1", priority="urgent")
        selector = {"matchLabels": {"volcano.sh/job-name": "lowport"}}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        anti_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        apart["template"]["spec"]["affinity"] = {"podAntiAffinity": anti_affinity}
        await life.job("anti", apart, minAvailable=1, priorityClassName="urgent")
        await life.gangs.until_job("urgent", "Running", running=1)
        await life.gangs.until_job("anti", "Running", running=1)
        await life.gangs.until_job("lowport", "Running", running=1)

    run_life(story, nodes=2, cpu="8", file=EVICTING)


def with_host_port(task: Json) -> Json:
    task["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return task


def test_gangs_under_a_quota_for_one_of_them_run_one_after_the_other() -> None:
    async def story(life: Life) -> None:
        hard = {"pods": "4", "requests.cpu": "8"}
        await life.client.create(
            RESOURCE_QUOTAS, {"metadata": {"name": "rq"}, "spec": {"hard": hard}}, NAMESPACE
        )
        ends = {"simulate.quorate.dev/duration": "500ms"}
        for job in ("qa", "qb"):
            await life.job(job, a_task("w", 3, cpu="1", runs=ends), minAvailable=3)
        for job in ("qa", "qb"):
            await life.gangs.until_job(job, "Completed")

    run_life(story, nodes=2, cpu="8")


def test_init_containers_and_sidecars_count_in_min_resources() -> None:
    async def story(life: Life) -> None:
        task = a_task("w", 2, cpu="1", runs=FOR_EVER)
        main = {"name": "lim", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}
        side = {"name": "side", "image": "i", "restartPolicy": "Always"}
        task["template"]["spec"]["containers"].append(main)
        task["template"]["spec"]["initContainers"] = [
            {"name": "big", "image": "i", "resources": {"requests": {"cpu": "3"}}},
            side | {"resources": {"requests": {"cpu": "500m"}}},
        ]
        await life.job("ini", task, minAvailable=2)
        await life.gangs.until_job("ini", "Running", running=2)
        (group,) = (await life.client.list(POD_GROUPS, NAMESPACE)).items
        assert (group.spec.min_resources or {})["cpu"] == parse_quantity("6")

    run_life(story, nodes=2, cpu="4")

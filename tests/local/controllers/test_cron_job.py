"""CronJobs on the local cluster: when jobs start, and which are kept."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.meta import Key
from quorate.kube.resources import Json, untyped
from quorate.local.controllers.cron_jobs import CronJob, decide_start, finished_jobs_to_delete
from quorate.local.controllers.job.types import Job
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import JOBS, LocalCluster, local_cluster

CRON_JOBS = untyped("batch", "v1", "cronjobs", "CronJob", True)
CREATED = "2026-11-28T10:00:30Z"


def a_cron_job(schedule: str = "*/10 * * * *", last: str = "", active: int = 0, **spec: Any) -> CronJob:
    """``last``: the last scheduled time; ``active``: the number of active jobs."""
    status: Json = {
        "active": [{"apiVersion": "batch/v1", "kind": "Job", "name": f"j{n}"} for n in range(active)]
    }
    if last:
        status["lastScheduleTime"] = last
    metadata = {"name": "nightly", "namespace": "default", "uid": "u", "creationTimestamp": CREATED}
    return codec.convert(
        CronJob,
        {"metadata": metadata, "spec": {"schedule": schedule, "jobTemplate": {}, **spec}, "status": status},
    )


def at(clock: str) -> float:
    return datetime.fromisoformat(f"2026-11-28T{clock}+00:00").timestamp()


@pytest.mark.parametrize(
    ("cron_job", "now", "want"),
    [
        pytest.param(a_cron_job(), "10:09:59", None, id="before the first time"),
        pytest.param(a_cron_job(), "10:10:00", "10:10:00", id="at the first time"),
        pytest.param(a_cron_job(), "10:47:00", "10:40:00", id="of several missed times the newest"),
        pytest.param(a_cron_job(last="2026-11-28T10:10:00Z"), "10:19:00", None, id="a time starts one job"),
        pytest.param(a_cron_job(suspend=True), "10:47:00", None, id="suspended"),
        pytest.param(
            a_cron_job(startingDeadlineSeconds=60), "10:10:59", "10:10:00", id="within the deadline"
        ),
        pytest.param(a_cron_job(startingDeadlineSeconds=60), "10:11:01", None, id="after the deadline"),
        pytest.param(a_cron_job(active=1), "10:10:00", "10:10:00", id="Allow: next to an active job"),
        pytest.param(
            a_cron_job(active=1, concurrencyPolicy="Forbid"), "10:10:00", None, id="Forbid: not next to it"
        ),
        pytest.param(
            a_cron_job(active=1, concurrencyPolicy="Replace"), "10:10:00", "10:10:00 replaces", id="Replace"
        ),
        pytest.param(
            a_cron_job("0 12 * * *", timeZone="Europe/Berlin"), "11:05:00", "11:00:00", id="noon in Berlin"
        ),
        pytest.param(a_cron_job("0 0 30 2 *"), "11:00:00", None, id="a schedule without any time"),
    ],
)
def test_when_a_job_starts(cron_job: CronJob, now: str, want: str | None) -> None:
    decision = decide_start(cron_job, at(now))
    start = None if want is None else at(want.split()[0])
    assert (decision.start_at, decision.replaces_active) == (start, "replaces" in (want or ""))
    assert decision.wake_at is None or decision.wake_at > at(now)


def test_a_long_pause_is_reported_and_starts_one_job() -> None:
    decision = decide_start(a_cron_job("* * * * *"), at("12:30:10"))
    assert decision.start_at == at("12:30:00")
    assert [event.reason for event in decision.events] == ["TooManyMissedTimes"]


def test_an_unreadable_schedule_is_reported() -> None:
    decision = decide_start(a_cron_job("whenever"), at("12:00:00"))
    assert (decision.start_at, decision.wake_at) == (None, None)
    assert [event.reason for event in decision.events] == ["UnparseableSchedule"]


def a_job(name: str, condition: str, minute: int) -> Job:
    conditions = [{"type": condition, "status": "True"}] if condition else []
    status = {"conditions": conditions, "startTime": f"2026-11-28T10:{minute:02}:00Z"}
    return codec.convert(Job, {"metadata": {"name": name}, "spec": {}, "status": status})


def test_the_oldest_finished_jobs_beyond_the_limits_are_deleted() -> None:
    jobs = [
        *(a_job(f"ok{minute}", "Complete", minute) for minute in (3, 1, 2)),
        *(a_job(f"bad{minute}", "Failed", minute) for minute in (1, 2)),
        a_job("running", "", 0),
    ]
    surplus = finished_jobs_to_delete(
        a_cron_job(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0), jobs
    )
    assert [job.metadata.name for job in surplus] == ["ok1", "bad1", "bad2"]


def test_a_cron_job_runs_jobs_and_keeps_the_last_of_them() -> None:
    async def story(cluster: LocalCluster) -> None:
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        template = {
            "metadata": {"labels": {"app": "tick"}},
            "spec": {"template": {"metadata": {}, "spec": pod}},
        }
        spec = {"schedule": "@every 1s", "successfulJobsHistoryLimit": 1, "jobTemplate": template}
        await cluster.client.create(CRON_JOBS, {"metadata": {"name": "tick"}, "spec": spec}, "default")
        key = Key("default", "tick")

        async def kept_one() -> list[Json] | None:
            jobs = [dict(job) for job in (await cluster.client.list(JOBS, "default", "app=tick")).items]
            names.update(job["metadata"]["name"] for job in jobs)
            done = [job for job in jobs if job["status"].get("succeeded") == 1]
            return jobs if len(names) >= 1 and len(done) == 1 else None

        names: set[str] = set()
        (job, *_) = await cluster.until("a job is complete", kept_one)
        owner = job["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "tick", True)
        assert "batch.kubernetes.io/cronjob-scheduled-timestamp" in job["metadata"]["annotations"]

        async def recorded() -> Json | None:
            status: Json = (await cluster.client.get(CRON_JOBS, key)).get("status", {})
            return status if {"lastScheduleTime", "lastSuccessfulTime"} <= status.keys() else None

        await cluster.until("the times are in the status", recorded)
        await cluster.client.patch(CRON_JOBS, key, {"spec": {"suspend": True}})
        await cluster.client.delete(CRON_JOBS, key)

        async def no_jobs() -> bool:
            return not (await cluster.client.list(JOBS, "default", "app=tick")).items

        await cluster.until("the jobs are deleted with it", no_jobs)

    async def run() -> None:
        async with local_cluster(NodePool(1), speed=50.0) as cluster:
            await story(cluster)

    asyncio.run(run())

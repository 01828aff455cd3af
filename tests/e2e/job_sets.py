"""JobSets in stories: their objects, and what their controller does with them."""

from contextlib import suppress
from typing import Any

from quorate.api.meta import Key
from quorate.controllers.jobs.jobset import JobSet
from quorate.kube.errors import AlreadyExists
from quorate.kube.resources import JOBS, Json
from tests.e2e.world import NAMESPACE, World

SET = JobSet().resource
SET_NAME = "jobset.x-k8s.io/jobset"
QUEUE_LABEL = {"kueue.x-k8s.io/queue-name": "queue"}


def pod_template(runs: str, labels: Json | None = None, **spec: Any) -> Json:
    """Return the template of pods of one cpu that run for a simulated duration."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    simulated = {"simulate.quorate.dev/duration": runs, "simulate.quorate.dev/start-delay": "50ms"}
    return {
        "metadata": {"annotations": simulated, "labels": labels or {}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


async def create_job_set(
    world: World, template: Json, labels: Json, *, suspend: bool = True, has_leader: bool = False
) -> None:
    """Create the JobSet ``train`` of two Jobs of two pods, and of a Job of one pod for the leader."""
    pods = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template}
    workers = {"name": "workers", "replicas": 2, "template": {"spec": pods}}
    leader = {"name": "leader", "template": {"spec": {"template": template}}}
    spec = {"suspend": suspend, "replicatedJobs": [leader, workers] if has_leader else [workers]}
    await world.client.create(SET, {"metadata": {"name": "train", "labels": labels}, "spec": spec}, NAMESPACE)


async def make_jobs(world: World) -> None:
    """Bring the Jobs of all JobSets to what their controller makes of them: suspended as the set is."""
    for job_set in (await world.client.list(SET, NAMESPACE)).items:
        metadata, suspend = job_set.metadata, job_set.spec["suspend"]
        owner = {"apiVersion": SET.api_version, "kind": SET.kind, "name": metadata.name, "uid": metadata.uid}
        for replicated in job_set.spec["replicatedJobs"]:
            for index in range(replicated["replicas"]):
                name = f"{metadata.name}-{replicated['name']}-{index}"
                made = {
                    "name": name,
                    "labels": {"jobset.sigs.k8s.io/jobset-name": metadata.name},
                    "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
                }
                spec = {**replicated["template"]["spec"], "suspend": suspend}
                with suppress(AlreadyExists):
                    await world.client.create(JOBS, {"metadata": made, "spec": spec}, NAMESPACE)
                await world.client.patch(JOBS, Key(NAMESPACE, name), {"spec": {"suspend": suspend}})


async def report_jobs(world: World) -> None:
    """Write the status of the JobSet ``train`` from that of its Jobs."""
    jobs = (await world.client.list(JOBS, NAMESPACE)).items
    counts = {
        "ready": sum((job.status.ready or 0) == 2 for job in jobs),
        "active": sum(job.status.active > 0 for job in jobs),
        "succeeded": sum(job.status.succeeded == 2 for job in jobs),
        "failed": 0,
        "suspended": 0,
    }
    status: Json = {"restarts": 0, "replicatedJobsStatus": [{"name": "workers", **counts}]}
    if counts["succeeded"] == len(jobs) == 2:
        completed = {"type": "Completed", "status": "True", "reason": "AllJobsCompleted"}
        status["conditions"] = [{**completed, "message": "jobset completed successfully"}]
    await world.client.patch(SET, Key(NAMESPACE, "train"), {"status": status}, subresource="status")

"""Valid objects that cases vary, and findings in the notation of the cases."""

from typing import Any

from quorate.local.objects.errors import Cause
from quorate.local.server.registry.defaults import pods as pod_defaults
from quorate.local.server.registry.defaults import workloads

Json = dict[str, Any]


def show(causes: list[Cause]) -> list[str]:
    return [f"{cause.field} {cause.reason.removeprefix('FieldValue')}" for cause in causes]


def a_pod(*containers: Json, **spec: Any) -> Json:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": list(containers) or [a_container()], **spec}}
    pod_defaults.default_pod(pod)
    return pod


def a_container(name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": "b", **fields}


def asking(requests: Json, limits: Json | None = None) -> Json:
    return a_container(resources={"requests": requests} | ({"limits": limits} if limits else {}))


def a_job(
    suspend: bool = False, status: Json | None = None, template: Json | None = None, **spec: Any
) -> Json:
    pod_spec = {"containers": [a_container()], "restartPolicy": "Never"} | (template or {})
    job = {
        "metadata": {"name": "j", "uid": "u"},
        "spec": {"suspend": suspend, "template": {"spec": pod_spec}} | spec,
    }
    workloads.default_job(job)
    workloads.prepare_job_for_create(job)
    return job | {"status": status or {}}

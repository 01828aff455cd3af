"""The objects of a job: a batch Job or a Volcano Job, and a Service if its pods call each other.

Pods of a job on several nodes find each other by name, and in the variables that ``torch.distributed`` and
its launchers read: ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from quorate.api.batch import JOB_COMPLETION_INDEX
from quorate.api.meta import ObjectMeta
from quorate.api.names.kueue import MAX_EXEC_TIME_SECONDS, MIN_PARALLELISM, PRIORITY_CLASS, QUEUE_NAME
from quorate.kube.resources import JOBS, SERVICES, VOLCANO_JOBS, Json, Resource
from quorate.submission.request import Array, JobRequest, check

TASK: Final = "worker"  # the only task of a Volcano Job
_PORT: Final = 29500  # on which the first pod answers, by the convention of torch.distributed
_TASK_NUMBER: Final = "ARRAY_TASK_ID"


def objects_of(request: JobRequest) -> tuple[Json, ...]:
    """Return the job and what it needs, without a namespace; the job comes first.

    Raises ``InvalidRequest``.
    """
    check(request)
    if request.gang:
        return (_volcano_job(request),)
    return (_batch_job(request), *(_services(request) if request.pods > 1 else ()))


def owned_by(document: Json, resource: Resource[Any], job: ObjectMeta) -> Json:
    """Return the object with the stored job as its owner, with which it is deleted."""
    owner = {"apiVersion": resource.api_version, "kind": resource.kind, "name": job.name, "uid": job.uid}
    return document | {"metadata": document["metadata"] | {"ownerReferences": [owner]}}


def _batch_job(request: JobRequest) -> Json:
    array = request.array
    at_once, completions = (request.pods, request.pods) if array is None else (array.at_once, array.count)
    spec: Json = {"parallelism": at_once, "completions": completions, "backoffLimit": request.retries}
    if completions > 1:
        spec["completionMode"] = "Indexed"
    if request.local_queue:
        spec["suspend"] = True
    pod: Json = {"restartPolicy": "Never", "containers": [_container(request)]}
    if request.pods > 1:
        pod["subdomain"] = request.name
    annotations = {} if request.min_pods is None else {MIN_PARALLELISM: str(request.min_pods)}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": _metadata(request, annotations),
        "spec": spec | {"template": {"spec": pod}},
    }


def _services(request: JobRequest) -> Iterator[Json]:
    """Yield the Service by which pods find each other as ``<job>-<index>.<job>``, before they are ready."""
    yield {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {"name": request.name},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": request.name},
        },
    }


def _volcano_job(request: JobRequest) -> Json:
    least = request.pods if request.min_pods is None else request.min_pods
    pod = {"restartPolicy": "Never", "containers": [_container(request)]}
    task = {"name": TASK, "replicas": request.pods, "minAvailable": least, "template": {"spec": pod}}
    spec: Json = {
        "schedulerName": "volcano",
        "minAvailable": least,
        "maxRetry": request.retries,
        "policies": [{"event": "PodFailed", "action": "RestartJob" if request.retries else "AbortJob"}],
        "tasks": [task],
    }
    if request.pods > 1:
        spec["plugins"] = {"svc": [], "env": []}
    if request.volcano_queue:
        spec["queue"] = request.volcano_queue
        if request.priority_class:
            spec["priorityClassName"] = request.priority_class
    return {
        "apiVersion": VOLCANO_JOBS.api_version,
        "kind": VOLCANO_JOBS.kind,
        "metadata": _metadata(request, {}),
        "spec": spec,
    }


def _metadata(request: JobRequest, annotations: Mapping[str, str]) -> Json:
    labels = {
        QUEUE_NAME: request.local_queue,
        PRIORITY_CLASS: "" if request.volcano_queue else request.priority_class,
        MAX_EXEC_TIME_SECONDS: "" if request.time_limit_s is None else str(request.time_limit_s),
    }
    named = {
        "labels": {key: value for key, value in labels.items() if value},
        "annotations": dict(annotations),
    }
    return {"name": request.name} | {key: value for key, value in named.items() if value}


def _container(request: JobRequest) -> Json:
    command = [_literal(word) for word in request.command]
    if request.array is not None:
        command = [*_numbered(request.array), *command]
    amounts = request.amounts
    # Devices cannot be overcommitted, and memory above the request gets a pod evicted; CPU may be shared.
    limits = {name: amount for name, amount in amounts.items() if name != "cpu"}
    variables = [*_addresses(request), *_literals(request.environment)]
    container: Json = {
        "name": TASK if request.gang else "main",
        "image": request.image,
        "command": command,
        "resources": {"requests": amounts, "limits": limits} if limits else {"requests": amounts},
    }
    return container | ({"env": variables} if variables else {})


def _literals(variables: Mapping[str, str]) -> list[Json]:
    return [{"name": name, "value": _literal(value)} for name, value in variables.items()]


def _literal(text: str) -> str:
    """Return the text that a kubelet expands to ``text``: it reads ``$(NAME)`` and ``$$``."""
    return re.sub(r"\$(?=[$(])", lambda _: "$$", text)


def _numbered(array: Array) -> list[str]:
    """Return the start of a command that sets the number of the task, which only a shell can compute."""
    number = (
        f"$((JOB_COMPLETION_INDEX * {array.step} + {array.first}))" if array.count > 1 else str(array.first)
    )
    setting = f"export {_TASK_NUMBER}={number} SLURM_{_TASK_NUMBER}={number}"
    return ["/bin/sh", "-c", _literal(f'{setting}; exec "$@"'), "sh"]


def _addresses(request: JobRequest) -> list[Json]:
    """Return the variables by which the pods of a job on several nodes find the first one."""
    if request.pods == 1:
        return []
    name = request.name
    first = f"{name}-{TASK}-0.{name}" if request.gang else f"{name}-0.{name}"
    index = "volcano.sh/task-index" if request.gang else JOB_COMPLETION_INDEX
    rank: Any = {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{index}']"}}}
    shared = {"WORLD_SIZE": str(request.pods), "MASTER_ADDR": first, "MASTER_PORT": str(_PORT)}
    return [rank, *_literals(shared)]

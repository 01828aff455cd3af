"""What is added to pod groups, queues, jobs and pods when they are created.

Source: Volcano (1.15).  All take and give documents, so that nothing of an object is lost on the way.
"""

from collections.abc import Mapping
from typing import Final

from quorate.api import codec
from quorate.api.volcano import DEFAULT_QUEUE, ROOT_QUEUE
from quorate.api.volcano.annotations import HIERARCHY, HIERARCHY_WEIGHTS, QUEUE_NAME
from quorate.api.volcano.job import Job, with_defaults
from quorate.kube.resources import Json

ROOT_WEIGHT: Final = "1"


def default_pod_group(document: Json, namespace_annotations: Mapping[str, str]) -> Json:
    """In the queue of its namespace, if it names none but the default one and the namespace has one."""
    spec = document.get("spec") or {}
    queue = namespace_annotations.get(QUEUE_NAME, "")
    if not queue or spec.get("queue", "") not in ("", DEFAULT_QUEUE):
        return document
    return {**document, "spec": {**spec, "queue": queue}}


def default_queue(document: Json) -> Json:
    """With a weight, reclaimable unless it says otherwise, and its place in the tree of weights whole."""
    spec = document.get("spec") or {}
    weight, reclaimable = spec.get("weight") or 1, spec.get("reclaimable")
    reclaimable = True if reclaimable is None else reclaimable
    result = {**document, "spec": {**spec, "weight": weight, "reclaimable": reclaimable}}
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    path, weights = annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")
    if path and weights and path.split("/")[0] != ROOT_QUEUE:
        rooted = {HIERARCHY: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS: f"{ROOT_WEIGHT}/{weights}"}
        result["metadata"] = {**metadata, "annotations": {**annotations, **rooted}}
    return result


def gated_pod(document: Json, gate: str) -> Json:
    """With that gate, if it has not; and if it may have one: the API allows none beside a node."""
    spec = document["spec"]
    gates = spec.get("schedulingGates") or []
    if spec.get("nodeName") or any(each["name"] == gate for each in gates):
        return document
    return {**document, "spec": {**spec, "schedulingGates": [*gates, {"name": gate}]}}


def default_volcano_job(document: Json) -> Json:
    """With all it leaves unsaid.  Raises ``msgspec.ValidationError`` for what is no job."""
    spec = with_defaults(codec.convert(Job, document)).spec
    given = document.get("spec") or {}
    tasks = [
        {**task, "name": done.name, "minAvailable": done.min_available}
        for task, done in zip(given.get("tasks") or [], spec.tasks, strict=True)
    ]
    filled = {
        "queue": spec.queue,
        "schedulerName": spec.scheduler_name,
        "maxRetry": spec.max_retry,
        "minAvailable": spec.min_available,
        "tasks": tasks,
        "plugins": {name: list(arguments) for name, arguments in spec.plugins.items()},
    }
    return {**document, "spec": {**given, **{name: value for name, value in filled.items() if value}}}

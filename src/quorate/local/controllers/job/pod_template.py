"""Pods created from a job's template."""

from typing import Final

import msgspec

from quorate.api.codec import Json
from quorate.local.controllers.job.pod_management import PodToCreate
from quorate.local.controllers.job.types import (
    INDEX_ANNOTATION,
    INDEX_FAILURES_ANNOTATION,
    INDEX_IGNORED_FAILURES_ANNOTATION,
    JOBS,
    TRACKING_FINALIZER,
    Job,
)
from quorate.local.controllers.pod_control import owner_references

INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
# The server appends five characters to a generated name, which may have 63.
MAX_PREFIX_LENGTH: Final = 58


def pod_from_template(job: Job, new: PodToCreate) -> Json:
    """Return the body of a new pod: the job's template with metadata, and the completion index."""
    template: Json = msgspec.json.decode(job.spec.template)
    metadata = {
        "generateName": name_prefix(job.metadata.name, new.index),
        "namespace": job.metadata.namespace,
        "labels": dict(template.get("metadata", {}).get("labels", {})),
        "annotations": dict(template.get("metadata", {}).get("annotations", {})),
        "finalizers": [TRACKING_FINALIZER],
        "ownerReferences": owner_references(JOBS, job.metadata),
    }
    if new.index is not None:
        _add_completion_index(job, new, metadata, template["spec"])
    return {"metadata": metadata, "spec": template["spec"]}


def name_prefix(job_name: str, index: int | None) -> str:
    if index is None:
        return f"{job_name}-"[:MAX_PREFIX_LENGTH]
    tail = f"-{index}-"
    return job_name[: MAX_PREFIX_LENGTH - len(tail)] + tail


def _add_completion_index(job: Job, new: PodToCreate, metadata: Json, spec: Json) -> None:
    metadata["labels"][INDEX_ANNOTATION] = str(new.index)
    metadata["annotations"][INDEX_ANNOTATION] = str(new.index)
    if new.failures is not None:
        metadata["annotations"][INDEX_FAILURES_ANNOTATION] = str(new.failures.counted)
        if new.failures.ignored:
            metadata["annotations"][INDEX_IGNORED_FAILURES_ANNOTATION] = str(new.failures.ignored)
    spec["hostname"] = f"{job.metadata.name}-{new.index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_ANNOTATION}']"}}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        variables = container.setdefault("env", [])
        if all(variable["name"] != INDEX_VARIABLE for variable in variables):
            variables.append({"name": INDEX_VARIABLE, "valueFrom": source})

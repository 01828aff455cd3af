"""Worlds with other manifests applied: an object of the same name is replaced, and a job is submitted."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.decoding.documents import Document
from quorate.api.field_path import InvalidTemplate
from quorate.api.findings import Finding
from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.suggestions import suggestion
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.api.validation.workloads import workload_findings
from quorate.controllers.integrations import job_kind_of, workload_of_unsubmitted_job
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from quorate.simulate.inputs.scenario import OTHERS, ClassesOfExisting
from quorate.simulate.inputs.world import (
    Content,
    InvalidWorld,
    World,
    checked,
    finding_line,
    kinds,
    read_files,
    read_texts,
)

_DURATION: Final = "simulate.quorate.dev/duration"  # annotation of a pod: how long it runs


def changed(world: World, path: Path, assumed_s: float | None = None) -> World:
    """Return ``world`` with the manifests of a file or directory applied.

    ``assumed_s``: how long a submitted job runs of which nothing says it; None: that is a finding.
    Raises ``InvalidWorld`` with all findings.
    """
    return _changed(world, read_files(path, Content(is_job=_is_job)), path, assumed_s)


def changed_by_text(world: World, text: str, source: str, assumed_s: float | None = None) -> World:
    """Return ``world`` with the manifests of a text applied; ``source`` names it in findings.

    Raises ``InvalidWorld`` with all findings.
    """
    path = Path(source)
    content = read_texts([(path, text.encode())], Content(is_job=_is_job))
    return _changed(world, content, path, assumed_s)


def _is_job(api_version: str, kind: str) -> bool:
    return job_kind_of(api_version, kind) is not None


def _changed(world: World, content: Content, path: Path, assumed_s: float | None) -> World:
    if not (
        content.scenarios or content.configurations or content.objects or content.jobs or content.findings
    ):
        content.findings.append(f"{path}: changes nothing (write manifests of {kinds()}, or of a job)")
    new = World(
        directory=world.directory,
        scenario=content.scenarios[-1][1] if content.scenarios else world.scenario,
        configuration=content.configurations[-1] if content.configurations else world.configuration,
        objects={**world.objects, **content.objects},
    )
    for file, document in content.jobs:
        submitted = _submitted(new, document, assumed_s)
        if isinstance(submitted, Finding):
            content.findings.append(finding_line(file, submitted))
        else:
            new.objects[WORKLOADS.api_version, WORKLOADS.kind, submitted.metadata.key] = submitted
    content.findings += _queues_without_effect(world, new, content, path)
    if content.findings:
        raise InvalidWorld(content.findings)
    return checked(new, path)


def _queues_without_effect(world: World, new: World, content: Content, path: Path) -> Iterator[str]:
    """Yield a finding for each written queue without effect: its name, or the name in it, is of no queue."""
    names = [queue.metadata.name for queue in new.of_kind(CLUSTER_QUEUES)]
    used = {queue.spec.cluster_queue for queue in new.of_kind(LOCAL_QUEUES)}
    for api_version, kind, key in content.objects:
        if kind == LOCAL_QUEUES.kind:
            name = content.objects[api_version, kind, key].spec.cluster_queue
            if name not in names:
                rule = f"names the ClusterQueue {name}, which does not exist{suggestion(name, names)}"
                yield f"{path}: the LocalQueue {key} {rule}"
        elif kind == CLUSTER_QUEUES.kind and key.name not in used:
            if (api_version, kind, key) in world.objects:
                continue
            others = [name for name in names if name != key.name]
            rule = f"is new, and no LocalQueue names it{suggestion(key.name, others)}"
            yield f"{path}: the ClusterQueue {key.name} {rule}"


def _submitted(world: World, document: Document, assumed_s: float | None) -> Workload | Finding:
    """Return the Workload of a job that is submitted when the run begins."""
    value = document.value
    kind = job_kind_of(value["apiVersion"], value["kind"])
    assert kind is not None, f"{value['kind']} is no kind of job"
    line = document.line_of("metadata")
    try:
        metadata = codec.convert(ObjectMeta, value.get("metadata") or {})
    except msgspec.ValidationError as error:
        return Finding("metadata", value["metadata"], f"cannot be read: {error}", line)
    namespace = metadata.namespace or "default"
    if not metadata.name:
        return Finding("metadata.name", None, "is missing (every object has a name)", line)
    queue = metadata.labels.get(QUEUE_NAME, "")
    queues = [obj.metadata.key for obj in world.of_kind(LOCAL_QUEUES)]
    if Key(namespace, queue) not in queues:
        names = [key.name for key in queues if key.namespace == namespace]
        rule = f"is no LocalQueue of namespace {namespace}{suggestion(queue, names)}"
        return Finding(f"metadata.labels[{QUEUE_NAME}]", queue, rule, line)
    created = value | {"metadata": value["metadata"] | {"namespace": namespace}}
    classes = world.of_kind(WORKLOAD_PRIORITY_CLASSES)
    try:
        workload = workload_of_unsubmitted_job(
            created, kind, world.configuration, classes, (), world.begins_s
        )
    except InvalidTemplate as error:
        return Finding("", value["kind"], f"cannot be queued: {error}", document.line_of("spec"))
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        return Finding("", value["kind"], f"cannot be read: {error}", document.line_of("kind"))
    if isinstance(workload, NotComposed):
        return Finding("", metadata.name, str(workload.why), line)
    if any(pod_set.count < 0 for pod_set in workload.spec.pod_sets):
        return Finding("", metadata.name, "has a negative number of pods (write 0 or more)", line)
    for finding in workload_findings(workload):
        return Finding("", metadata.name, f"would have an invalid Workload: {finding}", line)
    return _with_run_time(world, workload, document, assumed_s)


def _with_run_time(
    world: World, workload: Workload, document: Document, assumed_s: float | None
) -> Workload | Finding:
    """Return the workload with a limit of its run time, unless existing workloads of its queue tell it."""
    declared, classes = _annotated(document.value), (*world.scenario.existing, OTHERS)
    if declared:
        try:
            seconds = parse_duration(declared)
        except InvalidDuration:
            return Finding(_DURATION, declared, "is not a duration (write 10m or 1h30m)", 1)
    elif (
        workload.spec.maximum_execution_time_seconds is not None
        or ClassesOfExisting(classes).index_of(workload) < len(classes) - 1
    ):
        return workload
    elif assumed_s is None:
        rule = f"has no run time (annotate its pods with {_DURATION})"
        name = document.value["metadata"]["name"]
        return Finding("metadata.name", name, rule, document.line_of("metadata"))
    else:
        seconds = assumed_s
    limit = max(1, math.ceil(seconds))
    spec = msgspec.structs.replace(workload.spec, maximum_execution_time_seconds=limit)
    return msgspec.structs.replace(workload, spec=spec)


def _annotated(value: object) -> str:
    """Return the first run time in the annotations of a manifest; empty without one."""
    if isinstance(value, dict):
        duration = value.get(_DURATION)
        if isinstance(duration, str):
            return duration
        return next(filter(None, map(_annotated, value.values())), "")
    if isinstance(value, list):
        return next(filter(None, map(_annotated, value)), "")
    return ""

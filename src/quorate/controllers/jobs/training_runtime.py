"""The pods of a TrainJob: the JobSet that the trainer makes of its runtime.

The rules are those of the trainer (v2).  Runtime patches of the job are merged into the job templates, with
Kubernetes' merge keys for lists.  Then the fields of the TrainJob override those of the step that they
concern; a label of the replicated job names its step.  With MPI the nodes are the replicated job ``node``,
and the step ``trainer`` is the launcher, which can be one of the nodes.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

from quorate.api.field_path import InvalidTemplate, Path, look_up, read_count, read_entries, write_field
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.patches import merged
from quorate.kube.resources import Json

MANAGER: Final = "kueue.x-k8s.io/manager"  # of the runtime patch with the injected fields
PATCHES: Final[Path] = ("spec", "runtimePatches")
PATCHED_JOBS: Final[Path] = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")

_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_INITIALIZERS: Final = {"dataset-initializer": "dataset", "model-initializer": "model"}
_TRAINER: Final = "trainer"
_NODE: Final = "node"  # the container, and in MPI's runtimes the replicated job, that trains
_PARALLELISM: Final[Path] = ("template", "spec", "parallelism")
_POLICY: Final[Path] = ("mlPolicy",)
_NODES: Final[Path] = ("spec", "trainer", "numNodes")
_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
    "volumes": "name",
}


def replicated_jobs(job: UnstructuredJob) -> list[Json]:
    """Return the replicated jobs of the JobSet that the trainer would create.

    Our own runtime patch, with what admission adds, is left out.  Raises ``InvalidTemplate``, also if the
    runtime does not exist (yet).
    """
    if job.referenced_spec is None:
        raise InvalidTemplate(("spec", "runtimeRef"), "names a runtime that doesn't exist")
    runtime = {"runtime": job.referenced_spec}
    jobs = copy.deepcopy(read_entries(runtime, ("runtime", "template", "spec", "replicatedJobs")))
    for patch in read_entries(job.document, PATCHES):
        if patch.get("manager") != MANAGER:
            _merge_patches(jobs, read_entries(patch, PATCHED_JOBS))
    for replicated_job in jobs:
        _set_size(replicated_job, _pods(replicated_job, job))
        _override(replicated_job, job)
    return jobs


def _set_size(replicated: Json, pods: int) -> None:
    """Let each replica run ``pods`` pods to completion, at least one, as the trainer does."""
    for name in ("parallelism", "completions"):
        write_field(replicated, ("template", "spec", name), max(pods, 1))


def _merge_patches(jobs: list[Json], patches: list[Json]) -> None:
    for patch in patches:
        for job in jobs:
            if job.get("name") == patch.get("name") and isinstance(patch.get("template"), dict):
                job["template"] = strategically_merged(job.get("template") or {}, patch["template"])


def strategically_merged(document: Json, patch: Mapping[str, Any]) -> Json:
    """Merge maps by key and the lists in ``_KEYS`` by their item keys; replace the rest."""
    result = dict(document)
    for name, value in patch.items():
        current = result.get(name)
        if isinstance(value, Mapping) and isinstance(current, Mapping):
            result[name] = strategically_merged(dict(current), value)
        elif isinstance(value, list) and isinstance(current, list) and name in _KEYS:
            result[name] = _merged_list(current, value, _KEYS[name])
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def _merged_list(current: list[Json], patch: list[Json], key: str) -> list[Json]:
    merged = list(current)
    for item in patch:
        at = next((index for index, other in enumerate(merged) if other.get(key) == item.get(key)), None)
        if at is None:
            merged.append(item)
        else:
            merged[at] = strategically_merged(merged[at], item)
    return merged


def _pods(replicated: Json, job: UnstructuredJob) -> int:
    """Return the number of pods of a replica."""
    policy = look_up(job.referenced_spec, _POLICY)
    trains = _step(replicated) == _TRAINER
    if look_up(job.document, _NODES) is not None:
        with_mpi = look_up(policy, ("mpi",)) is not None
        if (replicated.get("name") == _NODE) if with_mpi else trains:
            nodes = read_count(job.document, _NODES)
            return max(nodes - 1, 1) if _launcher_trains(job) else nodes
    if trains and policy is not None:
        return read_count(policy, ("numNodes",), 1)
    return read_count(replicated, _PARALLELISM, 1)


def _override(replicated: Json, job: UnstructuredJob) -> None:
    step = _step(replicated)
    trains = step == _TRAINER
    if trains or step in _INITIALIZERS:
        replicated["replicas"] = 1
    trainer: Json = look_up(job.spec, ("trainer",)) or {}
    is_node = trains or (_launcher_trains(job) and replicated.get("name") == _NODE)
    for container in read_entries(replicated, ("template", "spec", "template", "spec", "containers")):
        name = container.get("name")
        if step in _INITIALIZERS and name == step:
            _initialize(container, look_up(job.spec, ("initializer", _INITIALIZERS[step])) or {})
        if is_node and name == _NODE:
            _train(container, trainer, with_resources=look_up(job.referenced_spec, _POLICY) is not None)
            if trains:
                container |= {
                    field: trainer[field]
                    for field in ("image", "command", "args")
                    if trainer.get(field) is not None
                }


def _step(replicated: Json) -> Any:
    return look_up(replicated, ("template", "metadata", "labels", _STEP))


def _launcher_trains(job: UnstructuredJob) -> bool:
    return look_up(job.referenced_spec, ("mlPolicy", "mpi", "runLauncherAsNode")) is True


def _initialize(container: Json, initializer: Mapping[str, Any]) -> None:
    env = list(initializer.get("env") or [])
    if initializer.get("storageUri"):
        env.insert(0, {"name": "STORAGE_URI", "value": initializer["storageUri"]})
    if env:
        container["env"] = _merged_list(container.get("env") or [], env, "name")
    if initializer.get("secretRef"):
        container["envFrom"] = [*(container.get("envFrom") or []), {"secretRef": initializer["secretRef"]}]


def _train(container: Json, trainer: Json, *, with_resources: bool) -> None:
    """Set the resources of the trainer, which take precedence resource by resource, and its environment."""
    resources = trainer.get("resourcesPerNode") or {}
    if with_resources and (resources.get("limits") or resources.get("requests")):
        both = merged(container.get("resources") or {}, resources)
        container["resources"] = {name: both[name] for name in ("limits", "requests") if both.get(name)}
    if trainer.get("env"):
        container["env"] = _merged_list(container.get("env") or [], list(trainer["env"]), "name")

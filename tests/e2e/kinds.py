"""Examples of the supported job kinds: a spec and the statuses that its controller writes.

The CRDs are minimal; tests imitate the controller of the kind with patches of the status.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quorate.api.configuration import load_configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.field_path import look_up, parse_path
from quorate.controllers.integrations import BATCH_JOB, enabled_kinds
from quorate.controllers.jobs.trainjob import TrainJob
from quorate.controllers.jobs.unstructured import UnstructuredJob, unstructured_resource
from quorate.kube.resources import JOBS, Resource

DOCS = Path(__file__).parents[2] / "docs"

Json = dict[str, Any]


@dataclass(frozen=True)
class Added:
    """The fields that admission adds to the pods of one pod set."""

    labels: Json
    annotations: Json
    node_selector: Json
    toleration: Json


def into_template(spec: Json, path: str, added: Added) -> None:
    """Write ``added`` into the pod template at ``path``, as most kinds do."""
    template = look_up(spec, parse_path(path))
    template["metadata"]["labels"] |= added.labels
    template["metadata"]["annotations"] |= added.annotations
    template["spec"]["nodeSelector"] |= added.node_selector
    template["spec"]["tolerations"].append(added.toleration)


def into_pod_set_infos(spec: Json, path: str, added: Added) -> None:
    """Add an entry to the ``podSetInfos`` of an AppWrapper component."""
    entry = {
        "labels": added.labels,
        "annotations": added.annotations,
        "nodeSelector": added.node_selector,
        "tolerations": [added.toleration],
    }
    look_up(spec, parse_path(path)).setdefault("podSetInfos", []).append(entry)


def into_runtime_patch(spec: Json, path: str, added: Added) -> None:
    """Add an entry for a replicated job of a TrainJob, with all tolerations of its pods."""
    own = {"key": "own", "operator": "Exists"}
    template = {
        "metadata": {"labels": added.labels, "annotations": added.annotations},
        "spec": {"nodeSelector": added.node_selector, "tolerations": [own, added.toleration]},
    }
    entry = {"name": path, "template": {"spec": {"template": template}}}
    patch = spec["spec"]["runtimePatches"][1]["trainingRuntimeSpec"]["template"]["spec"]
    patch.setdefault("replicatedJobs", []).append(entry)


def without_times(spec: Json) -> Json:
    """Return the spec of a job without the times of its runtime patches, if it has any."""
    patches = spec.get("runtimePatches", [])
    untimed = [{name: value for name, value in each.items() if name != "time"} for each in patches]
    return {**spec, "runtimePatches": untimed} if patches else spec


def into_fields(spec: Json, path: str, added: Added) -> None:
    """Write ``added`` into the fields of a SparkApplication role."""
    role = look_up(spec, parse_path(path))
    role["labels"] |= added.labels
    role["annotations"] = role.get("annotations", {}) | added.annotations
    role["nodeSelector"] |= added.node_selector
    role["tolerations"] = [*role.get("tolerations", []), added.toleration]


@dataclass(frozen=True, kw_only=True)
class Example:
    integrations: Integrations  # only this kind
    spec: Json  # as created by a user: not suspended
    templates: Mapping[str, str]  # paths of the pod templates by pod set, in order
    add: Callable[[Json, str, Added], None] = into_template  # writes the fields of admission at a path
    suspend: str = "spec.suspend"
    stopped_is: Any = True  # values at ``suspend`` of a stopped and of a running job
    running_is: Any = False
    requested: Mapping[str, int]  # pods by pod set
    cpu: str = "100"  # quota; each pod requests 1
    admitted: Mapping[str, int] = field(default_factory=dict)  # pods by pod set, if fewer than requested
    readmitted: Mapping[str, int] = field(default_factory=dict)  # the same without succeeded pods
    counts: Mapping[str, str] = field(default_factory=dict)  # paths of the pod counts
    # Objects that jobs of the kind require.
    dependencies: Sequence[tuple[Resource[UnstructuredJob], Json]] = ()
    runs: Json  # statuses
    stopped: Json
    succeeded: Json | None  # None: the kind has no end
    ends_with: str = ""  # the message of the Finished condition
    progress: Json | None = None  # some pods have succeeded
    reclaims: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_built_in(self) -> bool:
        return self.integrations.frameworks == (BATCH_JOB,)

    @property
    def resource(self) -> Resource[UnstructuredJob]:
        if self.is_built_in:
            return unstructured_resource(JOBS.group, JOBS.version, JOBS.plural, JOBS.kind)
        (kind,) = enabled_kinds(self.integrations)
        return kind.resource


def pods(image: str = "busybox") -> Json:
    """Return a pod template with existing values in each field that admission extends."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "mine"}},
        "spec": {
            "containers": [container],
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "own", "operator": "Exists"}],
            "restartPolicy": "Never",
        },
    }


def condition(type_: str, message: str = "") -> Json:
    return conditions(type_, message=message)


def conditions(*types: str, message: str = "") -> Json:
    return {
        "conditions": [
            {"type": type_, "status": "True", "reason": type_, "message": message} for type_ in types
        ]
    }


def declared_on(page: str, heading: str) -> Integrations:
    text = (DOCS / page).read_text(encoding="utf-8").partition(heading)[2]
    block = textwrap.dedent(text.partition("```yaml\n")[2].partition("```")[0])
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    declared = load_configuration(head + block).configuration.integrations.declared
    return Integrations(frameworks=(), declared=declared)


STARTED_AT = "2026-01-01T00:00:00Z"
FINISHED_AT = "2026-01-01T00:01:00Z"

JOB = Example(
    integrations=Integrations(frameworks=(BATCH_JOB,)),
    # The built-in controller ignores jobs with another ``managedBy``.
    spec={"managedBy": "example.com/test", "parallelism": 3, "completions": 3, "template": pods()},
    templates={"main": "spec.template"},
    requested={"main": 3},
    runs={"startTime": STARTED_AT, "active": 3, "ready": 3},
    progress={"startTime": STARTED_AT, "active": 2, "ready": 2, "succeeded": 1},
    reclaims={"main": 1},
    readmitted={"main": 2},
    stopped={"active": 0, "succeeded": 1, **condition("Suspended")},
    succeeded={
        "startTime": STARTED_AT,
        "completionTime": FINISHED_AT,
        "succeeded": 3,
        **conditions("SuccessCriteriaMet", "Complete", message="all done"),
    },
    ends_with="all done",
)


def _replicated(name: str, active: int, ready: int, succeeded: int) -> Json:
    return {
        "name": name,
        "active": active,
        "ready": ready,
        "succeeded": succeeded,
        "failed": 0,
        "suspended": 0,
    }


def _jobs(*statuses: Json) -> Json:
    return {"replicatedJobsStatus": list(statuses)}


JOB_SET = Example(
    integrations=Integrations(frameworks=("jobset.x-k8s.io/jobset",)),
    spec={
        "replicatedJobs": [
            {"name": "leader", "template": {"spec": {"template": pods()}}},
            {
                "name": "workers",
                "replicas": 2,
                "template": {"spec": {"parallelism": 3, "completions": 2, "template": pods("worker")}},
            },
        ],
        "successPolicy": {"operator": "All"},
    },
    templates={
        "leader": "spec.replicatedJobs[0].template.spec.template",
        "workers": "spec.replicatedJobs[1].template.spec.template",
    },
    requested={"leader": 1, "workers": 4},
    runs=_jobs(_replicated("leader", 1, 1, 0), _replicated("workers", 2, 2, 0)),
    progress=_jobs(_replicated("leader", 1, 1, 0), _replicated("workers", 1, 1, 1)),
    reclaims={"workers": 2},
    stopped=_jobs(_replicated("leader", 0, 0, 0), _replicated("workers", 0, 0, 0)),
    succeeded=condition("Completed", "all jobs completed"),
    ends_with="all jobs completed",
)

# The example of the configuration reference, which is tested here.
DECLARED = Example(
    integrations=declared_on("reference/configuration.md", "## Declared job kinds"),
    spec={
        "leader": {"template": pods()},
        "workers": {"replicas": 4, "atLeast": 2, "template": pods("worker")},
        "readers": [{"name": "text", "replicas": 2, "template": pods("reader")}],
        "paused": False,
    },
    suspend="spec.paused",
    templates={
        "leader": "spec.leader.template",
        "workers": "spec.workers.template",
        "text": "spec.readers[0].template",
    },
    requested={"leader": 1, "workers": 4, "text": 2},
    cpu="6",
    admitted={"workers": 3},
    counts={"workers": "spec.workers.replicas"},
    runs={"phase": "Running", "running": 6, **condition("Ready")},
    stopped={"phase": "Paused", "running": 0},
    succeeded={"phase": "Done", "running": 0},
    ends_with="Job succeeded",
)


def _cluster(**fields: Json | bool) -> Json:
    """Return a Ray cluster spec with a head and two worker groups, one with two hosts per replica."""
    return {
        "rayVersion": "2.46.0",
        "headGroupSpec": {"rayStartParams": {}, "template": pods("rayproject/ray")},
        "workerGroupSpecs": [
            {"groupName": "small", "replicas": 2, "rayStartParams": {}, "template": pods()},
            {"groupName": "Large", "numOfHosts": 2, "rayStartParams": {}, "template": pods("worker")},
        ],
        **fields,
    }


def _cluster_templates(cluster: str) -> dict[str, str]:
    return {
        "head": f"{cluster}.headGroupSpec.template",
        "small": f"{cluster}.workerGroupSpecs[0].template",
        "large": f"{cluster}.workerGroupSpecs[1].template",
    }


_RAY_PODS = {"head": 1, "small": 2, "large": 2}

RAY_CLUSTER = Example(
    integrations=Integrations(frameworks=("ray.io/raycluster",)),
    spec=_cluster(),
    templates=_cluster_templates("spec"),
    requested=_RAY_PODS,
    runs={"state": "ready"},
    stopped={"state": "suspended"},
    succeeded=None,
)
RAY_SERVICE = Example(
    integrations=Integrations(frameworks=("ray.io/rayservice",)),
    spec={"serveConfigV2": "applications: []", "rayClusterConfig": _cluster()},
    suspend="spec.rayClusterConfig.suspend",
    templates=_cluster_templates("spec.rayClusterConfig"),
    requested=_RAY_PODS,
    runs=condition("Ready"),
    stopped={"conditions": []},
    succeeded=None,
)
RAY_JOB = Example(
    integrations=Integrations(frameworks=("ray.io/rayjob",)),
    spec={
        "entrypoint": "python train.py",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": _cluster(),
        "submitterPodTemplate": pods("rayproject/ray"),
    },
    templates={**_cluster_templates("spec.rayClusterSpec"), "submitter": "spec.submitterPodTemplate"},
    requested={**_RAY_PODS, "submitter": 1},
    runs={"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "rayClusterStatus": {"state": "ready"}},
    stopped={"jobDeploymentStatus": "Suspended"},
    succeeded={"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "Job finished."},
    ends_with="Job finished.",
)


APP_WRAPPER = Example(
    integrations=Integrations(frameworks=("workload.codeflare.dev/appwrapper",)),
    spec={
        "components": [
            {
                "podSets": [{"replicas": 2, "path": "template.spec.template"}],
                "template": {"apiVersion": "example.com/v1", "kind": "Any", "spec": {"template": pods()}},
            },
            {
                "template": {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": "part"},
                    "spec": {"parallelism": 3, "completions": 2, "template": pods()},
                }
            },
        ]
    },
    templates={"train-0": "spec.components[0]", "train-1": "spec.components[1]"},
    add=into_pod_set_infos,
    requested={"train-0": 2, "train-1": 2},
    runs={"phase": "Running", **conditions("QuotaReserved", "ResourcesDeployed", "PodsReady")},
    stopped={"phase": "Suspended", "conditions": []},
    succeeded={"phase": "Succeeded", "conditions": []},
    ends_with="AppWrapper finished successfully",
)

SPARK_APPLICATION = Example(
    integrations=Integrations(frameworks=("sparkoperator.k8s.io/sparkapplication",)),
    spec={
        "mode": "cluster",
        "driver": {"coreRequest": "1", "labels": {"team": "a"}, "nodeSelector": {"disk": "ssd"}},
        "executor": {
            "coreRequest": "1",
            "instances": 2,
            "labels": {"team": "a"},
            "annotations": {"note": "mine"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "own", "operator": "Exists"}],
        },
    },
    templates={"driver": "spec.driver", "executor": "spec.executor"},
    add=into_fields,
    requested={"driver": 1, "executor": 2},
    runs={
        "applicationState": {"state": "RUNNING"},
        "executorState": {"exec-1": "RUNNING", "exec-2": "COMPLETED"},
    },
    stopped={"applicationState": {"state": "SUSPENDED"}},
    succeeded={"applicationState": {"state": "COMPLETED"}},
    ends_with="Job succeeded",
)


_RUNTIME = {
    "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
    "template": {
        "spec": {
            "replicatedJobs": [
                {"name": "data", "template": {"spec": {"template": pods()}}},
                {
                    "name": "node",
                    "template": {
                        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                        "spec": {"template": pods("torch")},
                    },
                },
            ]
        }
    },
}
TRAIN_JOB = Example(
    integrations=Integrations(frameworks=("trainer.kubeflow.org/trainjob",)),
    dependencies=[(resource, {"spec": _RUNTIME}) for resource in TrainJob.referenced_kinds],
    spec={
        "runtimeRef": {"name": "train", "kind": "ClusterTrainingRuntime"},
        # Numbers instead of text, as the Kubeflow SDK writes them.
        "trainer": {"numNodes": 3, "image": "mine", "resourcesPerNode": {"requests": {"cpu": 1}}},
        "fieldOfLaterVersions": {"keep": "me"},
        "runtimePatches": [
            {"manager": "example.com/user"},
            {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": {"spec": {}}}},
        ],
    },
    templates={"data": "data", "node": "node"},
    add=into_runtime_patch,
    requested={"data": 1, "node": 3},
    runs={"jobsStatus": [_replicated("data", 0, 0, 1), _replicated("node", 1, 1, 0)]},
    reclaims={"data": 1},
    progress={"jobsStatus": [_replicated("data", 0, 0, 1), _replicated("node", 1, 1, 0)]},
    stopped={"jobsStatus": []},
    succeeded=condition("Complete", "jobset completed successfully"),
    ends_with="jobset completed successfully",
)


# The example of the page about declared kinds.
FLEET = Example(
    integrations=declared_on("tasks/your-own-kind.md", "## Declare the kind"),
    spec={"state": "Running", "size": 3, "pods": pods()},
    suspend="spec.state",
    stopped_is="Stopped",
    running_is="Running",
    templates={"pods": "spec.pods"},
    requested={"pods": 3},
    runs={"pods": 3, "ready": 3},
    stopped={"pods": 0, "ready": 0},
    succeeded=None,
)


def _replicas(**active: int) -> Json:
    return {"replicaStatuses": {type_: {"active": count} for type_, count in active.items()}}


MPI_JOB = Example(
    integrations=Integrations(frameworks=("kubeflow.org/mpijob",)),
    spec={
        "slotsPerWorker": 1,
        "runPolicy": {"cleanPodPolicy": "Running", "schedulingPolicy": {"minAvailable": 2}},
        "mpiReplicaSpecs": {
            "Launcher": {"template": pods()},
            "Worker": {"replicas": 5, "template": pods("worker")},
        },
    },
    suspend="spec.runPolicy.suspend",
    templates={
        "launcher": "spec.mpiReplicaSpecs.Launcher.template",
        "worker": "spec.mpiReplicaSpecs.Worker.template",
    },
    requested={"launcher": 1, "worker": 5},
    cpu="4",
    admitted={"worker": 3},
    counts={"worker": "spec.mpiReplicaSpecs.Worker.replicas"},
    runs={**_replicas(Launcher=1, Worker=3), **condition("Running")},
    stopped={**_replicas(Launcher=0, Worker=0), **condition("Suspended")},
    succeeded={**_replicas(), **condition("Succeeded", "MPIJob default/train successfully completed.")},
    ends_with="MPIJob default/train successfully completed.",
)


def training_job(kind: str, replica_specs: str, *types: str) -> Example:
    """Return an example with two pods of each type; the first type has no replica count."""
    count = dict.fromkeys(types, 2) | {types[0]: 1}
    specs = {
        type_: {"template": pods(type_.lower()), **({"replicas": 2} if count[type_] == 2 else {})}
        for type_ in types
    }
    return Example(
        integrations=Integrations(frameworks=(f"kubeflow.org/{kind}",)),
        spec={"runPolicy": {"backoffLimit": 1}, replica_specs: specs},
        suspend="spec.runPolicy.suspend",
        templates={type_.lower(): f"spec.{replica_specs}.{type_}.template" for type_ in types},
        requested={type_.lower(): count[type_] for type_ in types},
        runs={**_replicas(**count), **condition("Running")},
        stopped={**_replicas(**dict.fromkeys(types, 0)), **condition("Suspended")},
        succeeded={**_replicas(), **condition("Succeeded", f"{kind} train is successfully completed.")},
        ends_with=f"{kind} train is successfully completed.",
    )


TRAINING_JOBS = (
    training_job("jaxjob", "jaxReplicaSpecs", "Worker"),
    training_job("paddlejob", "paddleReplicaSpecs", "Master", "Worker"),
    training_job("pytorchjob", "pytorchReplicaSpecs", "Master", "Worker"),
    training_job("tfjob", "tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    training_job("xgboostjob", "xgbReplicaSpecs", "Master", "Worker"),
)

EXAMPLES = (
    JOB,
    JOB_SET,
    DECLARED,
    FLEET,
    MPI_JOB,
    *TRAINING_JOBS,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
    SPARK_APPLICATION,
    TRAIN_JOB,
    APP_WRAPPER,
)

"""Jobs of Kubeflow: pods by replica type, one run policy and the same conditions."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from quorate.api.field_path import Path, look_up, read_count, read_field
from quorate.api.kueue.topology_annotations import PodIndex
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.api.names.topology import GROUP_NAME, INDEX_OFFSET
from quorate.controllers.jobframework.interface import ManagedBy
from quorate.controllers.jobframework.pod_counts import PodCounts, all_or_none_ready
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobs.unstructured import (
    PodSetSpec,
    UnstructuredJob,
    UnstructuredJobKind,
    condition_message,
    unstructured_resource,
    with_waiting_container,
)
from quorate.kube.resources import Json
from quorate.kube.writes import Patch

GROUP = "kubeflow.org"
_ANNOTATIONS: Final[Path] = ("metadata", "annotations")
_REPLICA_INDEX: Final = PodIndex("training.kubeflow.org/replica-index")

_POLICY: Path = ("spec", "runPolicy")
_STATUSES: Path = ("status", "replicaStatuses")
_MIN_AVAILABLE: Path = (*_POLICY, "schedulingPolicy", "minAvailable")

_MASTER_AND_WORKERS: Final = ("Master", "Worker")
_WAIT_FOR_MASTER: Final = {"cpu": "50m", "memory": "10Mi"}


class KubeflowJob(UnstructuredJobKind):
    success_condition = "Succeeded"
    _default_replicas: Mapping[str, int] = {}  # of types without the operator's usual default, 1
    managed_by = ManagedBy((*_POLICY, "managedBy"), "kubeflow.org/training-operator")

    def __init__(self, version: str, kind: str, replica_specs: str, types: Sequence[str]) -> None:
        """``replica_specs``: the field with the types; ``types``: all of them in pod set order."""
        super().__init__(
            unstructured_resource(GROUP, version, f"{kind.lower()}s", kind), suspend=(*_POLICY, "suspend")
        )
        self._specs: Path = ("spec", replica_specs)
        self._types = types
        self.supports_prebuilt = kind != "JAXJob"

    def min_count(self, job: UnstructuredJob, type_: str, count: int) -> int | None:
        """Return how many of ``count`` pods are enough; None: all are needed."""
        return None

    def effective_template(self, job: UnstructuredJob, type_: str) -> Json | None:
        """Return the template with what the operator adds to it; None: nothing that requests resources."""
        return None

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        return tuple(self._pod_set_spec(job, type_) for type_ in self._present(job))

    def is_active(self, job: UnstructuredJob) -> bool:
        statuses = read_field(job.document, _STATUSES, dict, {})
        return any(read_count(job.document, (*_STATUSES, type_, "active"), 0) for type_ in statuses)

    def reports_ready(self, job: UnstructuredJob) -> bool:
        return condition_message(job, "Running") is not None

    def pod_counts(self, job: UnstructuredJob) -> PodCounts:
        """Return the counts: while the job runs, a replica that has succeeded is not created again."""
        specs = self.pod_set_specs(job)
        paths = ((*_STATUSES, type_, "succeeded") for type_ in self._present(job))
        runs = not self.is_suspended(job)
        succeeded = {
            spec.name: read_count(job.document, path, 0)
            for spec, path in zip(specs, paths, strict=True)
            if runs
        }
        sizes = ((spec.name, spec.count) for spec in specs)
        return all_or_none_ready(sizes, ready=self.reports_ready(job), succeeded=succeeded)

    def priority_class(self, job: UnstructuredJob) -> str:
        """Return the class of the run policy, otherwise of the first template that names one."""
        templates = (self._template(type_) for type_ in self._present(job))
        paths = [
            (*_POLICY, "schedulingPolicy", "priorityClass"),
            *((*template, "spec", "priorityClassName") for template in templates),
        ]
        return next(filter(None, (read_field(job.document, path, str, "") for path in paths)), "")

    def _present(self, job: UnstructuredJob) -> list[str]:
        return [type_ for type_ in self._types if look_up(job.document, (*self._specs, type_)) is not None]

    def _pod_set_spec(self, job: UnstructuredJob, type_: str) -> PodSetSpec:
        count_field = (*self._specs, type_, "replicas")
        count = read_count(job.document, count_field, self._default_replicas.get(type_, 1))
        min_count = self.min_count(job, type_, count)
        return PodSetSpec(
            type_.lower(),
            self._template(type_),
            count,
            min_count,
            count_field,
            effective_template=self.effective_template(job, type_),
            index=_REPLICA_INDEX,
        )

    def _template(self, type_: str) -> Path:
        return (*self._specs, type_, "template")


class PyTorchJob(KubeflowJob):
    """kubeflow.org/v1 PyTorchJob: its workers wait in an init container for the master, if there is one."""

    def __init__(self) -> None:
        super().__init__("v1", "PyTorchJob", "pytorchReplicaSpecs", _MASTER_AND_WORKERS)

    def effective_template(self, job: UnstructuredJob, type_: str) -> Json | None:
        if type_ != "Worker" or "Master" not in self._present(job):
            return None
        path = self._template(type_)
        template = read_field(job.document, path, dict)
        return with_waiting_container(template, path, "init-pytorch", _WAIT_FOR_MASTER)


class MPIJob(KubeflowJob):
    """kubeflow.org/v2beta1 MPIJob: a launcher, and workers of which some may be enough."""

    managed_by = ManagedBy((*_POLICY, "managedBy"), "kubeflow.org/mpi-operator")
    _default_replicas: Mapping[str, int] = {"Worker": 0}

    def __init__(self) -> None:
        super().__init__("v2beta1", "MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"))

    def min_count(self, job: UnstructuredJob, type_: str, count: int) -> int | None:
        """Return ``minAvailable`` for the workers, as in KEP-420.

        A gang scheduler counts the launcher as well.  It then gets one pod more than its minimum; a minimum
        of all pods exceeds the workers, all of which are then needed.
        """
        if type_ != "Worker" or not look_up(job.document, _MIN_AVAILABLE):
            return None
        return min(read_count(job.document, _MIN_AVAILABLE), count)

    def start(
        self, job: UnstructuredJob, infos: Sequence[PodSetInfo]
    ) -> tuple[Patch, ...] | InjectionConflict:
        """Number the workers from 1 where the launcher works, too; a group of pod sets needs no offset."""
        if look_up(job.document, ("spec", "runLauncherAsWorker")) is True and len(infos) == 2:
            grouped = look_up(job.document, (*self._template("Launcher"), *_ANNOTATIONS, GROUP_NAME))
            given = look_up(job.document, (*self._template("Worker"), *_ANNOTATIONS, INDEX_OFFSET))
            if TOPOLOGY_GATE in infos[1].scheduling_gates and grouped is None and given is None:
                annotations = {**infos[1].annotations, INDEX_OFFSET: "1"}
                infos = (infos[0], msgspec.structs.replace(infos[1], annotations=annotations))
        return super().start(job, infos)


TRAINING_JOBS: Final[Mapping[str, KubeflowJob]] = {
    "kubeflow.org/jaxjob": KubeflowJob("v1", "JAXJob", "jaxReplicaSpecs", ("Worker",)),
    "kubeflow.org/paddlejob": KubeflowJob("v1", "PaddleJob", "paddleReplicaSpecs", _MASTER_AND_WORKERS),
    "kubeflow.org/pytorchjob": PyTorchJob(),
    "kubeflow.org/tfjob": KubeflowJob(
        "v1", "TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")
    ),
    "kubeflow.org/xgboostjob": KubeflowJob("v1", "XGBoostJob", "xgbReplicaSpecs", _MASTER_AND_WORKERS),
}

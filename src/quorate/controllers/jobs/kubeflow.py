"""Kubeflow's jobs: pods by replica type, one run policy, the same conditions; they differ in their types."""

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.api.field_path import Path, look_up, read_count, read_field
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobs.unstructured import (
    Role,
    UnstructuredJob,
    UnstructuredJobKind,
    condition_message,
    outcome_of_conditions,
    unstructured_resource,
)

GROUP = "kubeflow.org"

_POLICY: Path = ("spec", "runPolicy")
_STATUSES: Path = ("status", "replicaStatuses")


class KubeflowJob(UnstructuredJobKind):
    def __init__(self, version: str, kind: str, replica_specs: str, types: Sequence[str]) -> None:
        """``replica_specs``: the field of the spec that holds them; ``types``: in the order of pod sets."""
        super().__init__(
            unstructured_resource(GROUP, version, f"{kind.lower()}s", kind), suspend=(*_POLICY, "suspend")
        )
        self._specs: Path = ("spec", replica_specs)
        self._types = types
        self.supports_prebuilt = kind != "JAXJob"

    def minimum(self, job: UnstructuredJob, type_: str, count: int) -> int | None:
        """How many of ``count`` pods are enough; ``None`` when it takes all."""
        return None

    def roles(self, job: UnstructuredJob) -> tuple[Role, ...]:
        return tuple(self._role(job, type_) for type_ in self._present(job))

    def is_active(self, job: UnstructuredJob) -> bool:
        statuses = read_field(job.document, _STATUSES, dict, {})
        return any(read_count(job.document, (*_STATUSES, type_, "active"), 0) for type_ in statuses)

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        return outcome_of_conditions(job, "Succeeded", "Failed")

    def pods_ready(self, job: UnstructuredJob) -> bool:
        return condition_message(job, "Running") is not None

    def priority_class(self, job: UnstructuredJob) -> str:
        """That of the policy, else of the first template that names one."""
        templates = (self._template(type_) for type_ in self._present(job))
        places = [
            (*_POLICY, "schedulingPolicy", "priorityClass"),
            *((*template, "spec", "priorityClassName") for template in templates),
        ]
        return next(filter(None, (read_field(job.document, place, str, "") for place in places)), "")

    def _present(self, job: UnstructuredJob) -> list[str]:
        return [type_ for type_ in self._types if look_up(job.document, (*self._specs, type_)) is not None]

    def _role(self, job: UnstructuredJob, type_: str) -> Role:
        count_field = (*self._specs, type_, "replicas")
        count = read_count(job.document, count_field, 1)
        minimum = self.minimum(job, type_, count)
        return Role(type_.lower(), self._template(type_), count, minimum, count_field)

    def _template(self, type_: str) -> Path:
        return (*self._specs, type_, "template")


_MASTER_AND_WORKERS = ("Master", "Worker")
TRAINING_JOBS: Final[Mapping[str, KubeflowJob]] = {
    "kubeflow.org/jaxjob": KubeflowJob("v1", "JAXJob", "jaxReplicaSpecs", ("Worker",)),
    "kubeflow.org/paddlejob": KubeflowJob("v1", "PaddleJob", "paddleReplicaSpecs", _MASTER_AND_WORKERS),
    "kubeflow.org/pytorchjob": KubeflowJob("v1", "PyTorchJob", "pytorchReplicaSpecs", _MASTER_AND_WORKERS),
    "kubeflow.org/tfjob": KubeflowJob(
        "v1", "TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")
    ),
    "kubeflow.org/xgboostjob": KubeflowJob("v1", "XGBoostJob", "xgbReplicaSpecs", _MASTER_AND_WORKERS),
}

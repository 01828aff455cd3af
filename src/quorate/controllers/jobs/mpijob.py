"""kubeflow.org/v2beta1 MPIJob: a launcher, and workers of which some may be enough (KEP-420)."""

from quorate.api.field_path import Path, look_up, read_count
from quorate.controllers.jobs.kubeflow import KubeflowJob
from quorate.controllers.jobs.unstructured import UnstructuredJob

_MIN_AVAILABLE: Path = ("spec", "runPolicy", "schedulingPolicy", "minAvailable")


class MPIJob(KubeflowJob):
    def __init__(self) -> None:
        super().__init__("v2beta1", "MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"))

    def minimum(self, job: UnstructuredJob, type_: str, count: int) -> int | None:
        """``minAvailable`` is the minimum of the workers, as the KEP reads it.

        A gang scheduler counts the launcher, too.  It then gets one pod more than it insists on, and a
        minimum of all pods stands above the workers, of which it takes all.
        """
        if type_ != "Worker" or not look_up(job.document, _MIN_AVAILABLE):
            return None
        return min(read_count(job.document, _MIN_AVAILABLE), count)

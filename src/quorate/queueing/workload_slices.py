"""Slices of elastic jobs: a job that grows has a second workload, which replaces the first."""

from typing import Final

from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.names.kueue import SLICE_REPLACEMENT_FOR

NO_SLICE: Final = Key("", "")


def replaced_slice(workload: Workload, gates: Gates) -> Key | None:
    """Return the key of the workload that ``workload`` replaces as a slice, in the same namespace.

    None with the gate ElasticJobsViaWorkloadSlices off, and if the workload is to replace itself.

    A job that grows while it runs has a second workload, which requests all pods of the job.  The usage of
    the first workload does not count while the second is evaluated, nor once the second holds quota: growing
    takes quota for the new pods only.  If the second loses its quota before the first is finished, the first
    counts again.
    """
    text = workload.metadata.annotations.get(SLICE_REPLACEMENT_FOR)
    if text is None or not gates.elastic_jobs_via_workload_slices:
        return None
    replaced = Key(workload.metadata.namespace, text.rpartition("/")[2])
    return None if replaced == workload.metadata.key else replaced

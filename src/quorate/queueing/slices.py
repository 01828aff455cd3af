"""Workload slices: a job that grows while it runs has a second workload, which replaces its first.

The second asks for all pods of the job.  What the first holds is carried over: it does not count while the
second is judged, and no more once the second holds quota, so that growing takes quota for the new pods
only.  Should the second lose its quota before the first is finished, the first counts again.
"""

from quorate.api.kueue import SLICE_REPLACEMENT_FOR, Workload
from quorate.api.meta import Key


def replaced_by(workload: Workload) -> Key | None:
    """The workload that ``workload`` replaces, always of its own namespace."""
    text = workload.metadata.annotations.get(SLICE_REPLACEMENT_FOR)
    if text is None:
        return None
    return Key(workload.metadata.namespace, text.rpartition("/")[2])

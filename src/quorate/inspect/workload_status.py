"""What the status of a workload says, in words of lists."""

from enum import StrEnum

from quorate.api.kueue import Workload
from quorate.queueing import conditions as c


class Status(StrEnum):
    """The status of a workload, as kueuectl names it."""

    PENDING = "pending"
    QUOTA_RESERVED = "quotareserved"
    ADMITTED = "admitted"
    FINISHED = "finished"


def status_of(workload: Workload) -> Status:
    if c.is_finished(workload):
        return Status.FINISHED
    if c.is_admitted(workload):
        return Status.ADMITTED
    return Status.QUOTA_RESERVED if c.has_quota_reservation(workload) else Status.PENDING

"""What the status of a workload says, in words of lists."""

from enum import StrEnum

from quorate.api.kueue import Workload
from quorate.api.meta import find_condition
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


def why_not_running(workload: Workload) -> str:
    """Return why the workload has no quota or is not admitted, from its status; empty if it is admitted."""
    if c.is_finished(workload) or c.is_admitted(workload):
        return ""
    if not workload.spec.active:
        return "it is stopped"
    if c.has_quota_reservation(workload):
        waited = [check.name for check in workload.status.admission_checks if check.state != "Ready"]
        if waited:
            return f"waits for admission checks: {', '.join(waited)}"
        awaits_places = c.awaits_places(workload.status.admission)
        return "waits for places of its pods in the topology" if awaits_places else ""
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    return "" if reserved is None else reserved.message

"""Jobs that name the workload that stands for them, which somebody else made."""

from quorate.api.kueue import JOB_UID, Workload
from quorate.api.meta import Uid
from quorate.api.syntax import is_label_value
from quorate.controllers.jobframework.construct_workload import owner_of
from quorate.controllers.jobframework.ensure_one_workload import is_in_sync
from quorate.controllers.jobframework.interface import J
from quorate.controllers.jobframework.job_plan import IDLE, Case, JobPlan, stop_plan, updated
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import status_patch
from quorate.queueing.conditions import is_finished
from quorate.queueing.lifecycle.statuses import finish_status


def prebuilt_to_prepare(case: Case[J], workload: Workload | None) -> JobPlan | None:
    """What is to be done before ``workload`` stands for the job; ``None`` when it does.

    It must exist, be controlled by the job or by nobody, and ask for what the job asks for.
    """
    if workload is None:
        return _waiting(case)
    controller = workload.metadata.controller
    if controller is None:
        return JobPlan((updated(workload, {"metadata": _taken_over(case, workload)}),))
    if controller.uid != case.job.metadata.uid:
        return _waiting(case)
    if is_finished(workload) or is_in_sync(workload, case):
        return None
    text = "The prebuilt workload is out of sync with its user job"
    status = finish_status(workload, "OutOfSync", text, case.now)
    stopped = _waiting(case)
    return JobPlan((*status_patch(WORKLOADS, workload, status), *stopped.writes), stopped.events)


def _waiting(case: Case[J]) -> JobPlan:
    """A job without its workload does not run, and gets no other."""
    if case.outcome is not None or case.suspended:
        return IDLE
    return stop_plan(case, None, "missing workload")


def _taken_over(case: Case[J], workload: Workload) -> dict[str, object]:
    uid: Uid = case.job.metadata.uid
    owner = owner_of(case.kind.resource, case.job.metadata)
    labels = {JOB_UID: uid} if is_label_value(uid) else {}
    return {"ownerReferences": (*workload.metadata.owner_references, owner), "labels": labels}

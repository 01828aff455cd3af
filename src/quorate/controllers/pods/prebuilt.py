"""A single pod that names the workload that stands for it, which somebody else made."""

from quorate.api.kueue import JOB_UID, Workload
from quorate.api.syntax import is_label_value
from quorate.controllers.jobframework.construct_workload import maximum_execution_s, owner_of
from quorate.controllers.jobframework.equivalence import is_equivalent
from quorate.controllers.pods.compose import single_pod_sets
from quorate.controllers.pods.decide import decide_with_workload, stopped
from quorate.controllers.pods.plan import IDLE, Catalogue, PodPlan, PodRules, let_go
from quorate.controllers.pods.queued_pod import PODS
from quorate.controllers.pods.units import SinglePod
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Patch, status_patch
from quorate.queueing.conditions import is_finished
from quorate.queueing.lifecycle.statuses import finish_status


def decide_with_prebuilt(
    unit: SinglePod, workload: Workload | None, catalogue: Catalogue, rules: PodRules, now: float
) -> PodPlan:
    """``workload`` is the one the pod names; it must be its own or nobody's, and ask for the same."""
    if workload is None:
        return _waiting(unit, now)
    metadata = unit.pod.metadata
    controller = workload.metadata.controller
    if controller is None:
        return _taken_over(unit, workload)
    if controller.uid != metadata.uid:
        return _waiting(unit, now)
    fits = is_equivalent(workload, single_pod_sets(unit.pod), maximum_execution_s(metadata), unit.suspended)
    if fits or is_finished(workload):
        return decide_with_workload(unit, workload, catalogue, rules, now)
    text = "The prebuilt workload is out of sync with its user job"
    status = finish_status(workload, "OutOfSync", text, now)
    return PodPlan(workload=status_patch(WORKLOADS, workload, status)).and_then(_waiting(unit, now))


def _waiting(unit: SinglePod, now: float) -> PodPlan:
    """A pod without its workload does not run, and gets no other."""
    if unit.outcome is not None:
        return PodPlan(let_go(unit.pods))
    return IDLE if unit.suspended else stopped(unit, "NoMatchingWorkload", "missing workload", now)


def _taken_over(unit: SinglePod, workload: Workload) -> PodPlan:
    metadata, uid = workload.metadata, unit.pod.metadata.uid
    body = {
        "ownerReferences": (*metadata.owner_references, owner_of(PODS, unit.pod.metadata)),
        "labels": {JOB_UID: uid} if is_label_value(uid) else {},
    }
    patch = Patch(WORKLOADS, metadata.key, metadata.resource_version, {"metadata": body})
    return PodPlan(workload=(patch,))

"""Workloads of a manager cluster, their copies, and plans as texts."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.kueue import (
    AdmissionCheckState,
    PreemptionGateState,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from quorate.api.meta import at_epoch
from quorate.api.names.multikueue import LAST_CLUSTER, ORIGIN, PREEMPTION_GATE
from quorate.controllers.multikueue.dispatch.dispatchers import all_at_once
from quorate.controllers.multikueue.dispatch.plan import (
    CreateCopy,
    DispatchInput,
    DispatchPlan,
    DispatchSettings,
    RemoteAction,
    RemoteState,
    RemoveCopy,
    SyncJob,
    UpdateCopy,
)
from quorate.controllers.multikueue.workload_copy import WorkloadCopy
from tests.controllers.objects import CREATED_AT, a_workload

NOW = CREATED_AT + 1_000
LOST_S = 900.0
SETTINGS = DispatchSettings(
    worker_lost_timeout_s=LOST_S, dispatcher_name="all-at-once", dispatcher=all_at_once, elastic_jobs=True
)


def a_check(state: Any = "Pending", message: str = "") -> AdmissionCheckState:
    return AdmissionCheckState(
        name="multikueue", state=state, message=message, last_transition_time=at_epoch(CREATED_AT)
    )


def local(
    *conditions: str,
    check: Any = "Pending",
    cluster: str = "",
    nominated: tuple[str, ...] = (),
    annotations: Mapping[str, str] | None = None,
    others: tuple[AdmissionCheckState, ...] = (),
    **spec: Any,
) -> Workload:
    """Return a workload with quota; ``Type=text`` is a condition with that message."""
    status = WorkloadStatus(
        admission_checks=(a_check(check), *others), cluster_name=cluster, nominated_cluster_names=nominated
    )
    workload = a_workload("QuotaReserved", *conditions, status=status, **spec)
    return replace(workload, metadata=replace(workload.metadata, annotations=dict(annotations or {})))


def a_copy(of: Workload, *conditions: str, gate: Any = None, **spec: Any) -> Workload:
    """Return the copy of a workload; ``Type@5`` became true five seconds after the creation."""
    named = [each.partition("@") for each in conditions]
    copy = a_workload(*(name for name, _, _ in named), status=WorkloadStatus())
    times = {name.lstrip("!").partition("=")[0]: float(at or 0) for name, _, at in named}
    timed = tuple(
        replace(each, last_transition_time=at_epoch(CREATED_AT + times[each.type]))
        for each in copy.status.conditions
    )
    gates = () if gate is None else (_gate(gate),)
    metadata = replace(of.metadata, labels={ORIGIN: "multikueue"}, resource_version="3")
    status = replace(copy.status, conditions=timed, preemption_gates=gates)
    changes: WorkloadSpec = replace(of.spec, **spec)
    return Workload(metadata=metadata, spec=changes, status=status)


def _gate(opened_at: float) -> PreemptionGateState:
    return PreemptionGateState(
        name=PREEMPTION_GATE, position="Open", last_transition_time=at_epoch(CREATED_AT + opened_at)
    )


def remote(copy: Workload | None = None, **state: Any) -> RemoteState:
    return RemoteState(copy=None if copy is None else as_read(copy), **state)


def as_read(copy: Workload) -> WorkloadCopy:
    """Return what the manager keeps of a copy."""
    return codec.decode(WorkloadCopy, codec.encode(copy))


def an_input(workload: Workload, remotes: Mapping[str, RemoteState], **fields: Any) -> DispatchInput:
    checks = workload.status.admission_checks
    given: dict[str, Any] = {
        "check": checks[0] if checks else None,
        "clusters": ("a", "b", "c"),
        "lost": {},
        "settings": SETTINGS,
        "now": NOW,
        **fields,
    }
    return DispatchInput(workload=workload, remotes=remotes, **given)


def show(plan: DispatchPlan, before: Workload) -> str:
    """Return the plan as a text: changes of the status, then the actions, sorted."""
    words: list[str] = []
    status = plan.status
    if status is not None:
        words += [
            f"check={new.state}"
            for old, new in zip(before.status.admission_checks, status.admission_checks, strict=True)
            if old.state != new.state
        ]
        if status.cluster_name != before.status.cluster_name:
            words.append(f"cluster={status.cluster_name}")
        if status.nominated_cluster_names != before.status.nominated_cluster_names:
            words.append(f"nominated={','.join(status.nominated_cluster_names)}")
        known = {each.type for each in before.status.conditions}
        new = [each.type for each in status.conditions if each.type not in known]
        words += ["+last" if each == LAST_CLUSTER else each for each in new]
    if plan.ends_job:
        words.append("ends-job")
    return " ".join([*words, *sorted(_action(each) for each in plan.actions)])


def _action(action: RemoteAction) -> str:
    match action:
        case CreateCopy(cluster, is_gated):
            return f"+{cluster}{'' if is_gated else '(ungated)'}"
        case RemoveCopy(cluster, keeps_job):
            return f"-{cluster}{'(keeps job)' if keeps_job else ''}"
        case SyncJob(cluster):
            return f"sync:{cluster}"
        case UpdateCopy(cluster):
            return f"edit:{cluster}"
    return f"{type(action).__name__}:{action.cluster}"


def message_of(plan: DispatchPlan) -> str:
    assert plan.status is not None
    return plan.status.admission_checks[0].message

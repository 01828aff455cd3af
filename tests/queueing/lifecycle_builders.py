"""Build workloads and queue views for tests of the lifecycle, and show a transition as one line."""

from typing import Any

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import Gates
from quorate.api.configuration.pods_ready import RequeuingStrategy, WaitForPodsReady
from quorate.api.configuration.queueing import ObjectRetention
from quorate.api.kueue import (
    Admission,
    AdmissionCheckState,
    RequeueState,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from quorate.api.meta import Condition, ObjectMeta, OwnerReference, Uid, at_epoch, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.rules import decide_workload
from quorate.queueing.lifecycle.transition import ClusterQueueView, LocalQueueView, QueueView, Transition

NOW = 1000.0
# Reasons of Kueue 0.19, which the gate of the finer ones can still select.
COARSE = Gates(unadmitted_workloads_observability=False)
WAIT = Configuration(
    gates=COARSE,
    wait_for_pods_ready=WaitForPodsReady(
        timeout_s=300,
        recovery_timeout_s=300,
        block_admission=None,
        requeuing_strategy=RequeuingStrategy(backoff_limit_count=1),
    ),
)
KEPT_100_S = Configuration(gates=COARSE, retention=ObjectRetention(finished_s=100))
GRANULAR = Configuration()
EXPLICIT = Configuration(gates=Gates(unadmitted_workloads_explicit_status=True))
RUNNING = QueueView(LocalQueueView("lq", found=True), ClusterQueueView("cq", found=True, active=True))
replace = msgspec.structs.replace


def is_(type_: str, reason: str = "", at: float = 900, message: str = "") -> Condition:
    return c.new_condition(type_, "True", reason, message, at)


def not_(type_: str, reason: str = "", at: float = 900, message: str = "") -> Condition:
    return c.new_condition(type_, "False", reason, message, at)


RESERVED = is_(c.QUOTA_RESERVED, "QuotaReserved")
ADMITTED = is_(c.ADMITTED, "Admitted")


def a_workload(*conditions: Condition, spec: WorkloadSpec | None = None, **status: Any) -> Workload:
    reserving = RESERVED in conditions
    return Workload(
        metadata=ObjectMeta(name="w", namespace="ns", uid=Uid("u"), creation_timestamp=at_epoch(0)),
        spec=spec or WorkloadSpec(queue_name="lq"),
        status=WorkloadStatus(
            conditions=conditions, admission=Admission(cluster_queue="cq") if reserving else None, **status
        ),
    )


def check(state: Any, **fields: Any) -> AdmissionCheckState:
    return AdmissionCheckState(name="c", state=state, **fields)


def queues(
    local_stop: Any = "None",
    stop: Any = "None",
    *,
    local: bool = True,
    local_terminating: bool = False,
    cluster: bool = True,
    **fields: Any,
) -> QueueView:
    fields = {"active": stop == "None", **fields}
    return QueueView(
        LocalQueueView("lq", found=local, terminating=local_terminating, stop_policy=local_stop),
        ClusterQueueView("cq", found=cluster, stop_policy=stop, **fields),
    )


def decide(workload: Workload, view: QueueView = RUNNING, configuration: Configuration = WAIT) -> Transition:
    return decide_workload(workload, view, configuration, NOW, jitter=0.0)


def show(workload: Workload, transition: Transition) -> str:
    """Return what the transition changes, as one line."""
    if transition.deactivate:
        return "deactivate"
    acts = [word for word in ("release", "delete") if getattr(transition, word)]
    if transition.status is None and acts:
        return ", ".join(acts)
    if transition.status is None:
        return f"wake {transition.wake_at:g}" if transition.wake_at is not None else "nothing"
    old, new = workload.status, transition.status
    parts = [
        f"{'' if condition.status == 'True' else 'not '}{condition.type} {condition.reason}"
        for condition in new.conditions
        if condition != find_condition(old.conditions, condition.type)
    ]
    gone = [each.type for each in old.conditions if find_condition(new.conditions, each.type) is None]
    parts += [f"no {type_}" for type_ in gone]
    if old.admission_checks != new.admission_checks:
        parts.append(f"checks {[f'{check.name}={check.state}' for check in new.admission_checks]}")
    if old.admission is not None and new.admission is None:
        parts.append("released")
    if old.requeue_state != new.requeue_state:
        state = new.requeue_state or RequeueState()
        at = None if state.requeue_at is None else int(state.requeue_at.timestamp())
        parts.append(f"retries {state.count} until {at}")
    return ", ".join(parts + acts)


NO_RESERVATION = "The workload has no reservation"
OWNER = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid=Uid("j"), controller=True)


def with_metadata(workload: Workload, **metadata: Any) -> Workload:
    return replace(workload, metadata=replace(workload.metadata, **metadata))


def a_workload_with(**metadata: Any) -> Workload:
    return with_metadata(a_workload(), **metadata)


INACTIVE = WorkloadSpec(queue_name="lq", active=False)
BRIEF = WorkloadSpec(queue_name="lq", maximum_execution_time_seconds=60)

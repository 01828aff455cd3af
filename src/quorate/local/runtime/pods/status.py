"""The status of a pod as a kubelet writes it, given the records of its containers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from quorate.api.meta import at_epoch, find_condition, is_true
from quorate.api.syntax import format_duration
from quorate.local.nodes.pod_status import (
    CRASH_LOOP_BACK_OFF,
    TRUE,
    ConditionValue,
    PodAddresses,
    with_conditions,
)
from quorate.local.nodes.pod_types import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodIP,
)
from quorate.local.runtime.containers.files import ContainerRecord, Termination
from quorate.local.runtime.pod_types import Container, Pod, PodStatus
from quorate.local.runtime.pods.lifecycle import (
    REMOVED,
    RESTARTING_ALL,
    Ending,
    Records,
    backoff_left_s,
    init_failed,
    is_initialized,
    is_sidecar,
    mains_ended,
    may_restart_all,
    restarts,
    restarts_all,
)
from quorate.local.runtime.pods.probes import Health

TERMINAL: Final = ("Succeeded", "Failed")
ALL_RESTARTING: Final = "AllContainersRestarting"
CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


@dataclass(frozen=True, slots=True)
class PodObservation:
    """What the kubelet knows of a pod, beside the pod itself."""

    records: Records
    health: Mapping[str, Health]
    waiting: Mapping[str, ContainerStateWaiting]  # containers that could not be started, and why
    addresses: PodAddresses | None  # None: the pod has no network yet
    ending: Ending | None
    is_finished: bool  # no container runs, and none will start


def pod_status(pod: Pod, seen: PodObservation, now: float) -> PodStatus:
    """Return the status of ``pod``; transition times of unchanged conditions are kept."""
    initialized = is_initialized(pod, seen.records, seen.health)
    mains = tuple(
        _container_status(pod, container, seen, now, is_init=False, initialized=initialized)
        for container in pod.spec.containers
    )
    inits = tuple(
        _container_status(pod, container, seen, now, is_init=True, initialized=initialized)
        for container in pod.spec.init_containers
    )
    status = replace(
        pod.status,
        observed_generation=pod.metadata.generation,
        phase=_phase(pod, seen, mains, initialized=initialized),
        start_time=pod.status.start_time or at_epoch(now),
        container_statuses=mains,
        init_container_statuses=inits,
        ephemeral_container_statuses=tuple(
            _ephemeral_status(container, seen) for container in pod.spec.ephemeral_containers
        ),
    )
    if seen.addresses is not None:
        host, own = seen.addresses.host_ip, seen.addresses.pod_ip
        status = replace(
            status, host_ip=host, host_ips=(PodIP(ip=host),), pod_ip=own, pod_ips=(PodIP(ip=own),)
        )
    if seen.ending is not None and seen.ending.reason and status.phase == "Failed":
        status = replace(status, reason=seen.ending.reason, message=seen.ending.message)
    return _with_conditions(pod, seen, status, at_epoch(now), initialized=initialized)


def _phase(pod: Pod, seen: PodObservation, mains: Iterable[ContainerStatus], *, initialized: bool) -> str:
    if pod.status.phase in TERMINAL:
        return pod.status.phase
    if seen.is_finished:
        succeeded = not (seen.ending is not None and seen.ending.reason) and all(
            (record := seen.records.get(container.name)) is not None and record.has_succeeded
            for container in pod.spec.containers
        )
        return "Succeeded" if succeeded else "Failed"
    if not initialized:
        return "Pending"
    # A container that waits for the end of its back-off has run before.
    if any(status.state.waiting and not status.last_state.terminated for status in mains):
        return "Pending"
    return "Running"


def _container_status(
    pod: Pod, container: Container, seen: PodObservation, now: float, *, is_init: bool, initialized: bool
) -> ContainerStatus:
    record = seen.records.get(container.name)
    health = seen.health.get(container.name, Health())
    state, last = _states(pod, container, record, seen, now, is_init=is_init, initialized=initialized)
    running = state.running is not None
    if is_init and not is_sidecar(container):
        ready = state.terminated is not None and state.terminated.exit_code == 0
    else:
        ready = running and health.started and health.ready
    previous = next(
        (
            status
            for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
            if status.name == container.name
        ),
        ContainerStatus(),
    )
    return replace(
        previous,
        name=container.name,
        image=container.image,
        restart_count=record.attempt if record else 0,
        ready=ready,
        started=running and health.started,
        state=state,
        last_state=last,
    )


def _ephemeral_status(container: Container, seen: PodObservation) -> ContainerStatus:
    record = seen.records.get(container.name)
    if record is not None and record.ended is not None:
        state = _terminated(record.ended)
    elif record is not None and record.started_at is not None:
        state = ContainerState(running=ContainerStateRunning(started_at=_moment(record.started_at)))
    else:
        creating = ContainerStateWaiting(reason="ContainerCreating")
        state = ContainerState(waiting=seen.waiting.get(container.name, creating))
    return ContainerStatus(name=container.name, image=container.image, state=state)


def _states(
    pod: Pod,
    container: Container,
    record: ContainerRecord | None,
    seen: PodObservation,
    now: float,
    *,
    is_init: bool,
    initialized: bool,
) -> tuple[ContainerState, ContainerState]:
    """Return the state of a container and its last state."""
    previous = _terminated(record.previous) if record and record.previous else ContainerState()
    if record is None or (record.started_at is None and record.ended is None):
        if seen.is_finished and initialized and not is_init:
            unknown = ContainerStateTerminated(exit_code=137, reason="ContainerStatusUnknown")
            return ContainerState(terminated=unknown), previous
        waiting = seen.waiting.get(container.name)
        if waiting is None and record is not None and record.is_reset:
            waiting = ContainerStateWaiting(reason=RESTARTING_ALL, message=REMOVED)
        if waiting is None:
            first = not pod.spec.init_containers or initialized
            waiting = ContainerStateWaiting(reason="ContainerCreating" if first else "PodInitializing")
        return ContainerState(waiting=waiting), previous
    if record.ended is None:
        assert record.started_at is not None
        return ContainerState(running=ContainerStateRunning(started_at=_moment(record.started_at))), previous
    ended = _terminated(record.ended)
    goes_on = seen.ending is None and not (
        mains_ended(pod, seen.records) if not is_init else init_failed(pod, seen.records)
    )
    if (
        restarts_all(pod, seen.records)
        or not goes_on
        or not restarts(pod, container, record, is_init=is_init)
    ):
        return ended, previous
    waiting = seen.waiting.get(container.name)
    if waiting is None and backoff_left_s(record, now) > 0:
        waiting = ContainerStateWaiting(
            reason=CRASH_LOOP_BACK_OFF,
            message=f"back-off {format_duration(record.backoff_s)} restarting failed "
            f"container={container.name} pod={full_name(pod)}",
        )
    if waiting is None:
        return ended, previous
    return ContainerState(waiting=waiting), ended


def full_name(pod: Pod) -> str:
    """Return the name of a pod in a kubelet's messages about a back-off."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"


def _terminated(ended: Termination) -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=ended.exit_code,
            reason=ended.reason,
            message=ended.message or UNSET,
            started_at=_moment(ended.started_at) if ended.started_at else None,
            finished_at=_moment(ended.finished_at) if ended.finished_at else None,
        )
    )


def _moment(seconds: float) -> datetime:
    return at_epoch(float(int(seconds)))  # a kubelet's times have whole seconds


def _with_conditions(
    pod: Pod, seen: PodObservation, status: PodStatus, moment: datetime, *, initialized: bool
) -> PodStatus:
    values: dict[str, ConditionValue] = {}
    if find_condition(status.conditions, "PodScheduled") is None:
        values["PodScheduled"] = TRUE
    network = seen.addresses is not None and not seen.is_finished
    values["PodReadyToStartContainers"] = TRUE if network else ConditionValue("False")
    was_initialized = is_true(pod.status.conditions, "Initialized")  # and stays it
    values["Initialized"] = TRUE if initialized or was_initialized else _incomplete(pod, seen)
    if status.phase in TERMINAL:
        reason = "PodCompleted" if status.phase == "Succeeded" else "PodFailed"
        if status.phase == "Succeeded":
            values["Initialized"] = ConditionValue("True", reason)
        values["ContainersReady"] = values["Ready"] = ConditionValue("False", reason)
    else:
        names = _unready_names(pod, status)
        unready = ConditionValue("False", "ContainersNotReady", f"containers with unready status: [{names}]")
        values["ContainersReady"] = unready if names else TRUE
        values["Ready"] = _readiness(pod, values["ContainersReady"])
    if may_restart_all(pod):
        values[ALL_RESTARTING] = _restarting(pod, seen, status.phase)
    if seen.ending is not None and seen.ending.disruption:
        values["DisruptionTarget"] = ConditionValue("True", seen.ending.disruption, seen.ending.message)
    return with_conditions(status, moment, **values)


def _restarting(pod: Pod, seen: PodObservation, phase: str) -> ConditionValue:
    if phase in TERMINAL:
        return ConditionValue("False", "PodCompleted" if phase == "Succeeded" else "PodFailed")
    if seen.ending is not None or not restarts_all(pod, seen.records):
        return ConditionValue("False")
    message = "container exited with restart policy rule"
    return ConditionValue("True", "RestartAllContainersStarted", message)


def _unready_names(pod: Pod, status: PodStatus) -> str:
    sidecars = {container.name for container in pod.spec.init_containers if is_sidecar(container)}
    candidates = (
        *(s for s in status.init_container_statuses if s.name in sidecars),
        *status.container_statuses,
    )
    return " ".join(s.name for s in candidates if not s.ready)


def _incomplete(pod: Pod, seen: PodObservation) -> ConditionValue:
    names = [
        container.name
        for container in pod.spec.init_containers
        if not (
            (record := seen.records.get(container.name)) is not None
            and (record.has_succeeded or is_sidecar(container))
        )
    ]
    message = f"containers with incomplete status: [{' '.join(names)}]"
    return ConditionValue("False", "ContainersNotInitialized", message)


def _readiness(pod: Pod, containers: ConditionValue) -> ConditionValue:
    if containers.status != "True":
        return containers
    missing = [
        gate.condition_type
        for gate in pod.spec.readiness_gates
        if not is_true(pod.status.conditions, gate.condition_type)
    ]
    if not missing:
        return TRUE
    message = "; ".join(
        f'the status of pod readiness gate "{name}" is not "True", but {_value(pod, name)}'
        for name in missing
    )
    return ConditionValue("False", "ReadinessGatesNotReady", message)


def _value(pod: Pod, type_: str) -> str:
    condition = find_condition(pod.status.conditions, type_)
    return condition.status if condition else "False"

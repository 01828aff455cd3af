"""The statuses of a simulated pod, with the fields and reasons of a kubelet."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from quorate.api.core import Container, ResourceRequirements
from quorate.api.core.pod_resources import RESIZE_PENDING, pod_requests
from quorate.api.meta import Condition, ConditionStatus, find_condition, with_condition
from quorate.local.nodes.behavior import PREFIX
from quorate.local.nodes.pod_types import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodIP,
    PodStatus,
)

PROGRESSING: Final = PREFIX + "Progressing"
CRASH_LOOP_BACK_OFF: Final = "CrashLoopBackOff"
SIGTERM_EXIT_CODE: Final = 143  # exit code of a process ended by SIGTERM
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"


@dataclass(frozen=True, slots=True)
class PodAddresses:
    """The addresses of a pod and of its node."""

    host_ip: str
    pod_ip: str


S = TypeVar("S", bound=PodStatus)


class ConditionValue(NamedTuple):
    """The status, reason and message of a condition."""

    status: ConditionStatus
    reason: str = ""
    message: str = ""


TRUE: Final = ConditionValue("True")


def creating(pod: Pod, addresses: PodAddresses, moment: datetime) -> PodStatus:
    status = replace(
        pod.status,
        phase="Pending",
        start_time=moment,
        host_ip=addresses.host_ip,
        host_ips=(PodIP(ip=addresses.host_ip),),
        pod_ip=addresses.pod_ip,
        pod_ips=(PodIP(ip=addresses.pod_ip),),
        container_statuses=_waiting(pod.spec.containers, "ContainerCreating"),
        init_container_statuses=_waiting(pod.spec.init_containers, "PodInitializing"),
    )
    ready = _unready(pod)
    return with_conditions(
        status, moment, PodScheduled=TRUE, Initialized=_uninitialized(pod), ContainersReady=ready, Ready=ready
    )


def config_error(pod: Pod, addresses: PodAddresses, message: str, moment: datetime) -> PodStatus:
    """Return the status of a pod with invalid annotations; kubectl shows the message."""
    started = pod.status if pod.status.start_time else creating(pod, addresses, moment)
    waiting = _waiting(pod.spec.containers, "CreateContainerConfigError", message)
    return replace(started, container_statuses=waiting)


def running(pod: Pod, moment: datetime, *, restarted: bool) -> PodStatus:
    def run(container: Container) -> ContainerStatus:
        previous = _previous_status(pod, container)
        return replace(
            previous,
            image=container.image,
            ready=True,
            started=True,
            restart_count=previous.restart_count + (1 if restarted else 0),
            state=ContainerState(running=ContainerStateRunning(started_at=moment)),
        )

    def initialise(container: Container) -> ContainerStatus:
        if container.restart_policy == "Always":
            previous = _previous_status(pod, container)
            return previous if previous.state.running else run(container)
        done = ContainerStateTerminated(
            exit_code=0, reason="Completed", started_at=moment, finished_at=moment
        )
        return _status(container, ContainerState(terminated=done), ready=True)

    status = replace(
        pod.status,
        phase="Running",
        container_statuses=tuple(map(run, pod.spec.containers)),
        init_container_statuses=tuple(map(initialise, pod.spec.init_containers)),
    )
    return with_conditions(status, moment, Initialized=TRUE, ContainersReady=TRUE, Ready=TRUE)


def ended(pod: Pod, exit_code: int, moment: datetime) -> PodStatus:
    """Return the status after all containers stopped; a pod that never started has failed too.

    Sidecars stop after the containers, with exit code 0, or together with them when the kubelet stops all.
    """
    phase = "Failed" if exit_code else "Succeeded"
    of_sidecars = exit_code if exit_code == SIGTERM_EXIT_CODE else 0
    status = replace(
        pod.status,
        phase=phase,
        container_statuses=_stopped(pod, exit_code, moment),
        init_container_statuses=_stopped_running(pod.status.init_container_statuses, of_sidecars, moment),
        ephemeral_container_statuses=_stopped_running(
            pod.status.ephemeral_container_statuses, exit_code, moment
        ),
    )
    stopped_value = ConditionValue("False", "PodFailed" if exit_code else "PodCompleted")
    return with_conditions(status, moment, ContainersReady=stopped_value, Ready=stopped_value)


def deadline(pod: Pod) -> float | None:
    """Return when ``activeDeadlineSeconds`` ends, epoch seconds; None without one, or before the start."""
    if pod.spec.active_deadline_seconds is None or pod.status.start_time is None:
        return None
    return pod.status.start_time.timestamp() + pod.spec.active_deadline_seconds


def past_deadline(pod: Pod, moment: datetime) -> PodStatus:
    """Return the status of a pod that its kubelet stopped at its deadline."""
    status = ended(pod, SIGTERM_EXIT_CODE, moment)
    return replace(status, reason=DEADLINE_EXCEEDED, message=DEADLINE_MESSAGE)


def crashed(pod: Pod, exit_code: int, moment: datetime) -> PodStatus:
    """Return the status after the containers crashed and before they restart."""
    waiting = ContainerState(
        waiting=ContainerStateWaiting(reason=CRASH_LOOP_BACK_OFF, message="back-off restarting container")
    )
    restarting = tuple(
        replace(stopped, state=waiting, last_state=stopped.state)
        for stopped in _stopped(pod, exit_code, moment)
    )
    ready = _unready(pod)
    status = replace(pod.status, container_statuses=restarting)
    return with_conditions(status, moment, ContainersReady=ready, Ready=ready)


def has_enough_peers(status: PodStatus) -> bool:
    """Return True unless the status says that the pod waits for its peers."""
    condition = find_condition(status.conditions, PROGRESSING)
    return condition is None or condition.status == "True"


def with_peers_condition(status: PodStatus, running: int, required: int, moment: datetime) -> PodStatus:
    if required <= 1 and find_condition(status.conditions, PROGRESSING) is None:
        return status
    message = f"{running} of {required} pods run"
    enough = running >= required
    values = (
        ConditionValue("True", "PeersRun", message)
        if enough
        else ConditionValue("False", "WaitingForPeers", message)
    )
    return with_conditions(status, moment, **{PROGRESSING: values})


def _stopped(pod: Pod, exit_code: int, moment: datetime) -> tuple[ContainerStatus, ...]:
    return tuple(
        _stopped_status(_previous_status(pod, container), exit_code, moment)
        for container in pod.spec.containers
    )


def _stopped_running(
    statuses: Iterable[ContainerStatus], exit_code: int, moment: datetime
) -> tuple[ContainerStatus, ...]:
    """Return the statuses after the running containers stopped."""
    return tuple(
        _stopped_status(status, exit_code, moment) if status.state.running else status for status in statuses
    )


def _stopped_status(previous: ContainerStatus, exit_code: int, moment: datetime) -> ContainerStatus:
    started_at = previous.state.running.started_at if previous.state.running else moment
    end = ContainerStateTerminated(
        exit_code=exit_code,
        reason="Error" if exit_code else "Completed",
        started_at=started_at,
        finished_at=moment,
    )
    return replace(previous, ready=False, started=False, state=ContainerState(terminated=end))


def _previous_status(pod: Pod, container: Container) -> ContainerStatus:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    previous = next((status for status in statuses if status.name == container.name), None)
    return previous or _status(container, ContainerState())


def _status(container: Container, state: ContainerState, *, ready: bool = False) -> ContainerStatus:
    return ContainerStatus(name=container.name, image=container.image, ready=ready, state=state)


def _waiting(containers: Iterable[Container], reason: str, message: str = "") -> tuple[ContainerStatus, ...]:
    """Return the statuses of containers that wait for ``reason``."""
    state = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))
    return tuple(_status(container, state) for container in containers)


def _unready(pod: Pod) -> ConditionValue:
    names = " ".join(container.name for container in pod.spec.containers)
    return ConditionValue("False", "ContainersNotReady", f"containers with unready status: [{names}]")


def _uninitialized(pod: Pod) -> ConditionValue:
    names = " ".join(container.name for container in pod.spec.init_containers)
    message = f"containers with incomplete status: [{names}]"
    return ConditionValue("False", "ContainersNotInitialized", message) if names else TRUE


def with_conditions(status: S, moment: datetime, **values: ConditionValue) -> S:
    """Return ``status`` with conditions of these types, which have their values since ``moment``."""
    conditions: Iterable[Condition] = status.conditions
    for type_, (value, reason, message) in values.items():
        new = Condition(type=type_, status=value, reason=reason, message=message, last_transition_time=moment)
        conditions = with_condition(conditions, new)
    return replace(status, conditions=tuple(conditions))


RESIZABLE = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """Amounts of a node in nano-units, and what its other pods leave of them."""

    allocatable: Mapping[str, int]
    free: Mapping[str, int]


def with_ephemeral_containers(pod: Pod, status: PodStatus, moment: datetime) -> PodStatus:
    """Return the status in which every ephemeral container has started; they never restart."""
    started_names = {started.name for started in status.ephemeral_container_statuses}
    started = tuple(
        ContainerStatus(
            name=container.name,
            image=container.image,
            state=ContainerState(running=ContainerStateRunning(started_at=moment)),
        )
        for container in pod.spec.ephemeral_containers
        if container.name not in started_names
    )
    if not started or status.phase != "Running":
        return status
    return replace(status, ephemeral_container_statuses=(*status.ephemeral_container_statuses, *started))


def is_resized(pod: Pod) -> bool:
    """Return True if a container that was resized before has other resources than its spec."""
    resources = {container.name: container.resources for container in pod.spec.containers}
    return any(
        isinstance(status.resources, ResourceRequirements) and status.resources != resources.get(status.name)
        for status in pod.status.container_statuses
    )


def with_resized_containers(
    pod: Pod, status: PodStatus, capacity: NodeCapacity, moment: datetime
) -> PodStatus:
    """Return the status after a resize, or with the reason why it does not happen, or not yet."""
    wanted = pod_requests(pod.spec)
    others = tuple(condition for condition in status.conditions if condition.type != RESIZE_PENDING)
    for name in RESIZABLE:
        need = wanted[name].nanos if name in wanted else 0
        for reason, noun, available in (
            ("Infeasible", "capacity", capacity.allocatable),
            ("Deferred", "resource", capacity.free),
        ):
            if need <= available.get(name, 0):
                continue
            condition = Condition(
                type=RESIZE_PENDING,
                status="True",
                reason=reason,
                message=f"Node didn't have enough {noun}: {name}",
                last_transition_time=moment,
            )
            return replace(status, conditions=tuple(with_condition(status.conditions, condition)))
    resources = {container.name: container.resources for container in pod.spec.containers}
    resized = tuple(
        _with_resources(container, resources.get(container.name)) for container in status.container_statuses
    )
    return replace(status, conditions=others, container_statuses=resized)


def _with_resources(status: ContainerStatus, resources: ResourceRequirements | None) -> ContainerStatus:
    if resources is None or not (resources.requests or resources.limits):
        return status
    return replace(status, resources=resources, allocated_resources=resources.requests)

"""What to do next for a pod, as a function of its containers' records: the rules of a kubelet.

Init containers start one after another; an init container with restart policy Always is a sidecar: the next
one starts as soon as it has started, and it is stopped after all other containers have ended. An ephemeral
container starts once, and ends with the main containers.

If a container ends with a code for which its rules restart all containers, the others are killed, and the pod
begins anew with its first init container; its volumes and its addresses stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from quorate.local.nodes.pod_status import deadline
from quorate.local.runtime.containers.files import ContainerRecord, Termination
from quorate.local.runtime.pod_types import Container, Pod
from quorate.local.runtime.pods.probes import Health

FIRST_BACKOFF_S: Final = 10.0
LONGEST_BACKOFF_S: Final = 300.0
BACKOFF_RESET_S: Final = 600.0  # of running
RESTART_ALL: Final = "RestartAllContainers"
RESTARTING_ALL: Final = "RestartingAllContainers"
REMOVED: Final = "The container is removed because RestartAllContainers in place"
REMOVED_EXIT_CODE: Final = 137

Records = Mapping[str, ContainerRecord]


@dataclass(frozen=True, slots=True)
class Ending:
    """Why all containers of a pod are to be stopped."""

    reason: str = ""  # status.reason; empty for a deleted pod
    message: str = ""
    disruption: str = ""  # the reason of a DisruptionTarget condition


@dataclass(frozen=True, slots=True)
class Actions:
    start: tuple[str, ...] = ()  # containers to start, in this order
    stop: Mapping[str, str] = field(default_factory=dict)  # containers to stop: the message of the event
    wake_at: float | None = None  # when a back-off or a deadline ends
    is_finished: bool = False  # no container runs, and none will start
    grace_s: float | None = None  # of the stops; None: the pod's
    reset: tuple[str, ...] = ()  # ended containers that are to begin anew with the pod


def is_sidecar(container: Container) -> bool:
    """Return True for an init container that runs beside the main containers."""
    return container.restart_policy == "Always"


def backoff_left_s(record: ContainerRecord, now: float) -> float:
    """Return the seconds until an ended container may start again; 0 if it may start now."""
    assert record.ended is not None, "a running container has no back-off"
    if _ran_long(record):
        return 0.0
    return max(0.0, record.ended.finished_at + record.backoff_s - now)


def next_attempt(record: ContainerRecord | None) -> ContainerRecord:
    """Return the record of the attempt after ``record``: the delay before each doubles up to 300 s."""
    if record is None:
        return ContainerRecord()
    if record.ended is None:
        return replace(record, is_reset=False)  # its process was never started
    delay_s = 0.0 if _ran_long(record) else record.backoff_s
    return ContainerRecord(
        attempt=record.attempt + 1,
        previous=record.ended,
        backoff_s=min(delay_s * 2, LONGEST_BACKOFF_S) if delay_s else FIRST_BACKOFF_S,
    )


def _ran_long(record: ContainerRecord) -> bool:
    ended = record.ended
    if ended is None or not ended.started_at:  # its command was never started
        return False
    return ended.finished_at - ended.started_at > BACKOFF_RESET_S


def restarts(pod: Pod, container: Container, record: ContainerRecord, *, is_init: bool) -> bool:
    """Return True if a container that has ended is to start again."""
    assert record.ended is not None, "a running container does not start"
    if (is_init and is_sidecar(container)) or _matching_action(container, record):
        return True
    failed = record.ended.exit_code != 0
    match container.restart_policy or pod.spec.restart_policy:
        case "Never":
            return False
        case "OnFailure":
            return failed
        case _:
            return failed or not is_init


def _matching_action(container: Container, record: ContainerRecord) -> str:
    """Return the action of the first rule for the exit code of a container; empty if no rule matches."""
    if record.ended is None:
        return ""
    code = record.ended.exit_code
    return next((rule.action for rule in container.restart_policy_rules if rule.exit_codes.match(code)), "")


def may_restart_all(pod: Pod) -> bool:
    """Return True if the end of some container may restart all containers of the pod."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(rule.action == RESTART_ALL for c in containers for rule in c.restart_policy_rules)


def restarts_all(pod: Pod, records: Records) -> bool:
    """Return True if a container has ended so that all containers of the pod are to begin anew.

    A sidecar that ends after the pod, because it is stopped then, restarts nothing.
    """
    return any(
        (record := records.get(container.name)) is not None
        and record.ended is not None
        and _matching_action(container, record) == RESTART_ALL
        and not _has_ended(pod, _ended_before(records, record.ended.finished_at))
        for container in (*pod.spec.init_containers, *pod.spec.containers)
    )


def _ended_before(records: Records, moment: float) -> Records:
    return {
        name: record
        for name, record in records.items()
        if record.ended is not None and record.ended.finished_at < moment
    }


def reset_record(record: ContainerRecord) -> ContainerRecord:
    """Return the record of a container that begins anew with its pod."""
    return ContainerRecord(
        attempt=record.attempt + 1,
        previous=Termination(REMOVED_EXIT_CODE, RESTARTING_ALL, REMOVED),
        backoff_s=record.backoff_s,
        is_reset=True,
    )


def is_initialized(pod: Pod, records: Records, health: Mapping[str, Health]) -> bool:
    """Return True once the main containers may start, and ever after, until all containers restart."""
    mains = (records.get(container.name) for container in pod.spec.containers)
    if any(record is not None and not record.is_reset for record in mains):
        return True
    return all(
        _is_done(records.get(container.name), container, health.get(container.name, Health()))
        for container in pod.spec.init_containers
    )


def init_failed(pod: Pod, records: Records) -> bool:
    """Return True if an init container has failed for good."""
    return any(
        (record := records.get(container.name)) is not None
        and record.ended is not None
        and not record.has_succeeded
        and not restarts(pod, container, record, is_init=True)
        for container in pod.spec.init_containers
    )


def mains_ended(pod: Pod, records: Records) -> bool:
    """Return True if no main container runs or will start."""
    return _has_ended(pod, records) and not restarts_all(pod, records)


def _has_ended(pod: Pod, records: Records) -> bool:
    """Return True if no main container runs or will start, unless all containers begin anew."""
    if init_failed(pod, records):
        return True
    return all(
        (record := records.get(container.name)) is not None
        and record.ended is not None
        and not restarts(pod, container, record, is_init=False)
        for container in pod.spec.containers
    )


def next_actions(
    pod: Pod, records: Records, health: Mapping[str, Health], ending: Ending | None, now: float
) -> Actions:
    """Return what to start and stop, given the containers' records and what their probes say.

    A container without an entry in ``health`` has no probe or hook that is pending.
    """
    running = {name for name, record in records.items() if record.is_running}
    if ending is not None or mains_ended(pod, records):
        return _stop_in_order(pod, running)
    if restarts_all(pod, records):
        return _restart_all(pod, records)
    actions = _Plan(pod, records, health, now)
    if is_initialized(pod, records, health):
        for container in pod.spec.init_containers:
            if is_sidecar(container):
                actions.keep_running(container, is_init=True)
        for container in pod.spec.containers:
            actions.keep_running(container, is_init=False)
    else:
        actions.initialize()
    for container in pod.spec.ephemeral_containers:
        actions.start_once(container)
    if (end := deadline(pod)) is not None:
        actions.wake(end)
    return Actions(tuple(actions.start), actions.stop, actions.wake_at)


def _restart_all(pod: Pod, records: Records) -> Actions:
    """Kill what runs; then reset the ended containers, last those that caused the restart."""
    containers = [c for c in (*pod.spec.init_containers, *pod.spec.containers) if c.name in records]
    if running := [container.name for container in containers if records[container.name].is_running]:
        return Actions(stop=dict.fromkeys(running, "killing"), grace_s=0.0)
    ended = [container for container in containers if records[container.name].ended is not None]
    ended.sort(key=lambda container: _matching_action(container, records[container.name]) == RESTART_ALL)
    return Actions(reset=tuple(container.name for container in ended))


def _stop_in_order(pod: Pod, running: set[str]) -> Actions:
    """Stop the main containers, then the sidecars from the last to the first."""
    sidecars = [c.name for c in pod.spec.init_containers if is_sidecar(c) and c.name in running]
    others = running - set(sidecars)
    if others:
        return Actions(stop=dict.fromkeys(sorted(others), ""))
    if sidecars:
        return Actions(stop={sidecars[-1]: ""})
    return Actions(is_finished=True)


def _is_done(record: ContainerRecord | None, container: Container, health: Health) -> bool:
    """Return True if the init container after ``container`` may start."""
    if record is None:
        return False
    if is_sidecar(container):
        return record.is_running and health.started
    return record.has_succeeded


class _Plan:
    def __init__(self, pod: Pod, records: Records, health: Mapping[str, Health], now: float) -> None:
        self._pod = pod
        self._records = records
        self._health = health
        self._now = now
        self.start: list[str] = []
        self.stop: dict[str, str] = {}
        self.wake_at: float | None = None

    def wake(self, moment: float) -> None:
        self.wake_at = moment if self.wake_at is None else min(self.wake_at, moment)

    def initialize(self) -> None:
        """Bring the init containers forward, up to the first that is not done."""
        for container in self._pod.spec.init_containers:
            record = self._records.get(container.name)
            done = _is_done(record, container, self._health.get(container.name, Health()))
            if not done or is_sidecar(container):
                self.keep_running(container, is_init=True)
            if not done:
                return

    def start_once(self, container: Container) -> None:
        record = self._records.get(container.name)
        if record is None or not (record.is_running or record.ended is not None):
            self.start.append(container.name)

    def keep_running(self, container: Container, *, is_init: bool) -> None:
        record = self._records.get(container.name)
        if record is None:
            self.start.append(container.name)
        elif record.is_running:
            if failure := self._health.get(container.name, Health()).failure:
                self.stop[container.name] = failure
        elif record.ended is None:  # a kubelet was killed between the record and the process
            self.start.append(container.name)
        elif restarts(self._pod, container, record, is_init=is_init):
            left_s = backoff_left_s(record, self._now)
            if left_s:
                self.wake(self._now + left_s)
            else:
                self.start.append(container.name)

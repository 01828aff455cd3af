"""Running containers of a pod: wait for their end, run their probes and hooks, and stop them."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Final, Protocol

from msgspec.structs import replace

from quorate.kube.log import logger
from quorate.local.controllers.controller import EventType
from quorate.local.runtime.containers.files import ContainerRecord, PodFiles, Termination
from quorate.local.runtime.containers.processes import end_attempt
from quorate.local.runtime.containers.running import ContainerProcess, termination
from quorate.local.runtime.node import NodeServices
from quorate.local.runtime.pod_types import Container, Pod
from quorate.local.runtime.pods.probes import ContainerProber, Health, ProbeTarget, run_handler
from quorate.local.runtime.pods.start import user_and_group

SIGKILLED: Final = 137
SHORTEST_STOP_S: Final = 2.0  # that a container gets even if its hook has used up the grace period

Processes = Mapping[tuple[str, int], int]  # the outermost process of each attempt of a pod's containers


class RecordEvent(Protocol):
    def __call__(self, type_: EventType, reason: str, message: str, container: str = "") -> None:
        """Record an event of the pod, or of one of its containers."""


class PodContainers:
    """The containers of a pod that runs as processes of this machine: starts, probes and stops them.

    ``records`` has the state of each container.  For each running container there are tasks that wait for
    its end, probe it, and stop it.
    """

    def __init__(
        self,
        services: NodeServices,
        files: PodFiles,
        event: RecordEvent,
        on_change: Callable[[], None],
        on_end: Callable[[str], None],
    ) -> None:
        """``on_change`` is called after each change of health, record or stop; ``on_end`` with the name."""
        self.records: dict[str, ContainerRecord] = files.records()
        self.processes: dict[str, ContainerProcess] = {}  # of running containers
        self._services = services
        self._files = files
        self._event = event
        self._on_change = on_change
        self._on_end = on_end
        self._probers: dict[str, ContainerProber] = {}
        self._probing: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Task[None]] = {}
        self._grace_s: dict[str, float] = {}  # of the stops
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = logger(__name__).bind(pod_uid=files.uid)

    @property
    def health(self) -> dict[str, Health]:
        return {name: prober.health for name, prober in self._probers.items()}

    @property
    def is_stopping(self) -> bool:
        return bool(self._stops)

    def save(self, name: str, record: ContainerRecord) -> None:
        """Replace the record of a container.  Raises OSError, and then keeps the old record."""
        self._files.save(name, record)
        self.records[name] = record

    def save_if_possible(self, name: str, record: ContainerRecord) -> None:
        """Replace the record of a container that has been started, even if the disk is full.

        The next kubelet then reads the old record, and sees by the process or its exit code what came after.
        """
        try:
            self._files.save(name, record)
        except OSError as error:
            self._log.warning("record of a container not written", container=name, problem=str(error))
        self.records[name] = record

    def adopt(self, pod: Pod, processes: Processes) -> None:
        """Take over the containers of an earlier kubelet, and record the end of ended containers."""
        for name, record in list(self.records.items()):
            container = pod.container(name)
            if container is None or record.ended is not None:
                continue
            attempt = self._files.attempt(name, record.attempt)
            process = processes.get((name, record.attempt))
            now = self._services.clock.now()
            started_at = record.started_at or now
            if process is not None:
                self.save_if_possible(name, replace(record, started_at=started_at))
                self._services.devices.adopt(pod.metadata.uid, name, record.devices)
                adopted = ContainerProcess.adopt(attempt, container, process, self._services.clock)
                adopted.user, adopted.group = user_and_group(pod, container, is_root=self._services.is_root)
                self.watch(container, adopted, pod.status.pod_ip, hook=False)
            elif record.started_at is not None or attempt.has_started():
                ended_at = attempt.ended_at() or now
                ended = termination(attempt, started_at, ended_at, from_log=_reads_log(container))
                ended = self._with_message(container, ended)
                self.save_if_possible(name, replace(record, started_at=started_at, ended=ended))

    def watch(self, container: Container, process: ContainerProcess, address: str, *, hook: bool) -> None:
        """Await the end of a container, and run its probes and, for a new one, its postStart hook."""
        name = container.name
        started_at = self.records[name].started_at
        assert started_at is not None, "recorded at the start"
        self.processes[name] = process
        self._spawn(self._await_end(container, process, started_at))
        target = self._probe_target(container, process, address)
        if target is None:
            return  # it has ended at once
        prober = ContainerProber(
            target,
            self._services.clock,
            started_at,
            self._on_change,
            lambda reason, message: self._event("Warning", reason, message, name),
        )
        self._probers[name] = prober
        self._probing[name] = asyncio.create_task(prober.run())
        if hook and container.lifecycle.post_start is not None:
            self._spawn(self._post_start(container, prober, target))
        else:
            prober.hook_ended = True

    def stop(self, container: Container, grace_s: float, address: str, message: str) -> None:
        """Begin to stop a container, unless that has begun; a shorter grace period replaces a longer one."""
        name, process = container.name, self.processes.get(container.name)
        if process is None:
            return
        if name in self._stops:
            if grace_s >= self._grace_s[name]:
                return
            self._stops.pop(name).cancel()
        else:
            self._event("Normal", "Killing", message or f"Stopping container {name}", name)
        self._grace_s[name] = grace_s
        task = asyncio.create_task(self._stop(container, process, grace_s, address))
        self._stops[name] = task
        task.add_done_callback(lambda done: self._on_stopped(name, done))

    def close(self) -> None:
        """Leave the processes to the next kubelet."""
        for task in (*self._tasks, *self._probing.values(), *self._stops.values()):
            task.cancel()
        for process in self.processes.values():
            process.release()

    def _probe_target(
        self, container: Container, process: ContainerProcess, address: str
    ) -> ProbeTarget | None:
        """Return the target of the probes and hooks of a container, or None if the container has ended."""
        running = process.describe(container.working_dir or "/")
        if running is None:
            return None
        return ProbeTarget(container, running, address, self._services.network)

    async def _post_start(self, container: Container, prober: ContainerProber, target: ProbeTarget) -> None:
        assert container.lifecycle.post_start is not None
        result = await run_handler(container.lifecycle.post_start, target, float(2**31))
        prober.hook_ended = True
        if not result.succeeded:
            message = f"PostStartHook failed: {result.output}"
            self._event("Warning", "FailedPostStartHook", message, container.name)
            prober.fail("FailedPostStartHook")
        self._on_change()

    async def _await_end(self, container: Container, process: ContainerProcess, started_at: float) -> None:
        name = container.name
        ended = await process.ended(started_at, from_log=_reads_log(container))
        if process.joined:
            await asyncio.to_thread(end_attempt, process.attempt)
        self.processes.pop(name, None)
        self._probers.pop(name, None)
        if (probing := self._probing.pop(name, None)) is not None:
            probing.cancel()
        cgroups = self._services.cgroups
        if ended.exit_code == SIGKILLED and cgroups.killed_for_memory(process.attempt):
            ended = replace(ended, reason="OOMKilled")
        cgroups.remove(process.attempt)
        self.save_if_possible(name, replace(self.records[name], ended=self._with_message(container, ended)))
        self._on_end(name)
        self._on_change()

    def _with_message(self, container: Container, ended: Termination) -> Termination:
        """Return ``ended`` with the content of the container's termination log, if there is any."""
        message = self._files.termination_message(container.name) or ended.message
        return replace(ended, message=message)

    async def _stop(
        self, container: Container, process: ContainerProcess, grace_s: float, address: str
    ) -> None:
        clock = self._services.clock.steady
        began = clock.now()
        hook = container.lifecycle.pre_stop
        if hook is not None and grace_s > 0:
            target = self._probe_target(container, process, address)
            result = await run_handler(hook, target, grace_s) if target else None
            if result is not None and not result.succeeded:
                message = f"PreStopHook failed: {result.output}"
                self._event("Warning", "FailedPreStopHook", message, container.name)
        left_s = grace_s - (clock.now() - began)
        await process.stop(max(left_s, min(grace_s, SHORTEST_STOP_S)))

    def _on_stopped(self, name: str, task: asyncio.Task[None]) -> None:
        if self._stops.get(name) is task:
            del self._stops[name]
            self._grace_s.pop(name, None)
            self._on_change()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _reads_log(container: Container) -> bool:
    return container.termination_message_policy == "FallbackToLogsOnError"

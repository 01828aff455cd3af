"""The task of one pod: looks at the pod and its containers, decides, acts, and reports the status.

Decisions are functions of ``lifecycle`` and ``status``; this module only carries them out.
"""

import asyncio
import dataclasses
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from quorate.api.meta import Uid
from quorate.kube.client import PatchKind
from quorate.kube.controller.reconcile import RETRY
from quorate.kube.errors import Conflict, NotFound, RequestFailed
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.resources import reference
from quorate.local.controllers.controller import EventType
from quorate.local.nodes.pod_status import DEADLINE_EXCEEDED, DEADLINE_MESSAGE, PodAddresses, deadline
from quorate.local.nodes.pod_types import ContainerStateWaiting
from quorate.local.runtime.containers.console import Console
from quorate.local.runtime.containers.environment import ConfigError, PodFacts
from quorate.local.runtime.containers.files import PodFiles, Termination
from quorate.local.runtime.containers.processes import is_running, signal_processes
from quorate.local.runtime.containers.running import (
    PAUSE,
    START_FAILED,
    ContainerLogs,
    ContainerProcess,
    RunningContainer,
    StartFailed,
    namespace_of,
    start_pause,
)
from quorate.local.runtime.network.types import PodNetworkError, PodNetworkNamespace
from quorate.local.runtime.node import NVIDIA, NodeServices
from quorate.local.runtime.objects import VolumeError
from quorate.local.runtime.pod_types import PODS, Container, EphemeralContainer, Pod
from quorate.local.runtime.pods.containers import PodContainers, Processes
from quorate.local.runtime.pods.lifecycle import (
    Actions,
    Ending,
    mains_ended,
    next_actions,
    next_attempt,
    reset_record,
    restarts,
    restarts_all,
)
from quorate.local.runtime.pods.start import ContainerStart, ignored_fields, why_refused
from quorate.local.runtime.pods.status import (
    ALL_RESTARTING,
    CONDITIONS,
    TERMINAL,
    PodObservation,
    full_name,
    pod_status,
)
from quorate.local.runtime.pods.volumes import (
    PodVolumes,
    VolumeContext,
    downward_facts,
    prepare_volumes,
    remove_volumes,
    with_service_account,
)

IGNORED: Final = "these fields have no effect on pods that run as processes"
OWN_CONDITIONS: Final = frozenset({*CONDITIONS, ALL_RESTARTING, "PodScheduled", "DisruptionTarget"})
FIRST_RETRY_S: Final = 0.25
LONGEST_RETRY_S: Final = 10.0
SHUTDOWN: Final = Ending(
    "Terminated", "Pod was terminated in response to imminent node shutdown.", "TerminationByKubelet"
)
DEADLINE: Final = Ending(DEADLINE_EXCEEDED, DEADLINE_MESSAGE)


class PodWorker:
    def __init__(self, services: NodeServices, pod: Pod) -> None:
        self.pod = pod  # the newest version, from the watch or from our own writes
        self.files = PodFiles(services.state, pod.metadata.uid)
        self.is_gone = False  # deleted from the API
        self.is_settled = False  # no container runs, and the status says so
        self._services = services
        self._containers = PodContainers(services, self.files, self._event, self.wake, self._note_backoff)
        self._waiting: dict[str, ContainerStateWaiting] = {}
        self._failures = 0  # to start a container, or to reach the API server, in a row
        self._retry_at = 0.0
        self._network: PodNetworkNamespace | None = None
        self._pause: int | None = None  # the process that holds a shared PID namespace
        self._volumes = PodVolumes(self.files.volumes)
        self._are_volumes_current = False
        self._mounts_account = False  # the token of the service account
        self._ended_by: Ending | None = None
        self._is_cleaned = False
        self._wake = asyncio.Event()
        self._log = logger(__name__).bind(pod=str(pod.metadata.key))

    def update(self, pod: Pod) -> None:
        """Take a version of the pod from the watch."""
        self._take(pod)
        self._wake.set()

    def remove(self) -> None:
        """The pod is deleted from the API: end what still runs at once."""
        self.is_gone = True
        self._wake.set()

    def refresh_volumes(self) -> None:
        self._are_volumes_current = False
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    async def run(self, processes: Processes) -> None:
        """Work until the pod is deleted and nothing of it is left, or until cancelled."""
        try:
            self._containers.adopt(self.pod, processes)
            self._pause = processes.get((PAUSE, 0))
            while not (self.is_gone and self._is_cleaned):
                self._wake.clear()
                wake_at = await self._run_step()
                with suppress(TimeoutError):
                    async with asyncio.timeout(
                        None if wake_at is None else max(0.0, wake_at - self._services.clock.now())
                    ):
                        await self._wake.wait()
        finally:
            self._containers.close()

    async def _run_step(self) -> float | None:
        """Return when to look again; an error of the API server is retried."""
        try:
            wake_at = await self._step()
        except (RequestFailed, OSError) as error:
            self._failures += 1
            retry_in_s = RETRY.delay_s(self._failures)
            if not isinstance(error, Conflict):
                self._log.warning("retrying", problem=str(error), retry_in_s=retry_in_s)
            return self._services.clock.now() + retry_in_s
        except Exception as error:  # a bug, which must not end the work on other pods
            self._failures += 1
            self._log.fault("pod worker raised", error)
            return self._services.clock.now() + RETRY.delay_s(self._failures)
        return wake_at

    async def _step(self) -> float | None:
        now = self._services.clock.now()
        actions = self._decide()
        if actions.reset:
            for name in actions.reset:
                self._containers.save(name, reset_record(self._containers.records[name]))
            self._waiting.clear()
            actions = self._decide()
        for name, message in actions.stop.items():
            self._stop(name, message, actions.grace_s)
        ended_by = self._ended_by
        refresh_at = self._token_refresh_at()
        if refresh_at is not None and now >= refresh_at:
            self._are_volumes_current = False
        if now >= self._retry_at:
            await self._start_or_refresh(actions)
        actions = self._decide()
        if not (actions.is_finished and self._services.is_stopping and self._ending() == Ending()):
            await self._report(actions)
        self.is_settled = actions.is_finished
        if actions.is_finished:
            await self._finish()
            return None
        if self._ended_by is not ended_by:
            return now  # the deadline has passed in this step: the next one stops the containers
        moments = (actions.wake_at, self._token_refresh_at(), self._retry_at)
        return min((moment for moment in moments if moment is not None and moment > now), default=None)

    async def _start_or_refresh(self, actions: Actions) -> None:
        """Start containers, or bring the volumes of running containers up to date.

        The network of containers that an earlier kubelet started is taken over as well.
        """
        if actions.start:
            if await self._prepare():
                for name in actions.start:
                    await self._start(name)
        elif self._containers.processes and (self._network is None or not self._are_volumes_current):
            await self._prepare()

    def _token_refresh_at(self) -> float | None:
        return self._services.objects.token_refresh_at(self.pod.metadata.uid)

    def _decide(self) -> Actions:
        now = self._services.clock.now()
        containers = self._containers
        actions = next_actions(self.pod, containers.records, containers.health, self._ending(), now)
        if actions.is_finished and containers.is_stopping:
            return dataclasses.replace(actions, is_finished=False)
        return actions

    def _ending(self) -> Ending | None:
        """Return why the pod is to end, if it is; a reason stays."""
        if self._ended_by is not None:
            return self._ended_by
        now = self._services.clock.now()
        end = deadline(self.pod)
        if self.pod.status.phase in TERMINAL:
            return Ending()
        if mains_ended(self.pod, self._containers.records):
            return None
        if self.pod.metadata.deletion_timestamp is not None or self.is_gone:
            return Ending()
        if end is not None and now >= end:
            self._ended_by = DEADLINE
            self._event("Normal", DEADLINE.reason, DEADLINE.message)
        elif self._services.is_stopping:
            # Pods that may restart do so with the next kubelet, as after a reboot of a machine.
            self._ended_by = SHUTDOWN if self.pod.spec.restart_policy == "Never" else Ending()
        return self._ended_by

    def expects(self, container: str, number: int) -> bool:
        """Return True if an attempt of a container may run."""
        if container == PAUSE:
            return True
        record = self._containers.records.get(container)
        return record is not None and record.attempt == number and record.ended is None

    async def _prepare(self) -> bool:
        """Make the network and the volumes; if that fails, return False and set the time of the next try."""
        pod, services = self.pod, self._services
        try:
            if self._network is None:
                self._network = await services.network.create(pod)
                if ignored := ignored_fields(pod, is_root=services.is_root):
                    self._event("Warning", "FieldsIgnored", f"{IGNORED}: {', '.join(ignored)}")
            if not self._are_volumes_current:
                self._are_volumes_current = True  # a change from now on is one more run
                try:
                    await self._prepare_volumes()
                except BaseException:
                    self._are_volumes_current = False
                    raise
        except PodNetworkError as error:
            self._event("Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
        except VolumeError as error:
            self._event("Warning", "FailedMount", str(error))
        else:
            return True
        self._retry_later()
        creating = ContainerStateWaiting(reason="ContainerCreating")
        for container in pod.spec.containers:
            if container.name not in self._containers.records:
                self._waiting.setdefault(container.name, creating)
        return False

    async def _prepare_volumes(self) -> None:
        pod, services = self.pod, self._services
        wanted = pod.spec.automount_service_account_token
        if wanted is None:
            wanted = await services.objects.automounts(pod)
        self._mounts_account = wanted
        if wanted:
            self.pod = with_service_account(self.pod)
        claims = {}
        for volume in self.pod.spec.volumes:
            if (claim := volume.persistent_volume_claim) is not None:
                path = await services.objects.claim_path(pod.metadata.namespace, claim.claim_name)
                if path is not None:
                    claims[claim.claim_name] = path
        context = VolumeContext(self.pod, self._facts(), services.objects)
        await prepare_volumes(self._volumes, context, claims, services.clock)

    def _retry_later(self) -> None:
        self._failures += 1
        delay_s = min(FIRST_RETRY_S * 2 ** min(self._failures - 1, 10), LONGEST_RETRY_S)
        self._retry_at = self._services.clock.now() + delay_s

    def _facts(self) -> PodFacts:
        address = self._network.address if self._network else ""
        return PodFacts(self._services.network.node_address, address, self._services.allocatable)

    async def _start(self, name: str) -> None:
        """Start a container, or note why it cannot be started; the next step follows from either."""
        container = self.pod.container(name)
        assert container is not None, f"{name} is not in the pod"
        assert self._network is not None, "containers start after the network"
        services = self._services
        now = services.clock.now()
        record = next_attempt(self._containers.records.get(name))
        attempt = self.files.attempt(name, record.attempt)
        try:
            if refusal := why_refused(self.pod, container):
                raise ConfigError(refusal)
            record = replace(record, devices=self._devices(container))
            plan = ContainerStart(
                services,
                self.pod,
                container,
                self._network,
                self._volumes,
                self._facts(),
                attempt,
                record.devices,
                await self._joined_namespace(container),
            )
            environment = await plan.environment()
            sandbox = plan.sandbox(environment, *self.files.prepare(attempt))
        except (ConfigError, VolumeError, OSError, ValueError) as error:
            # ValueError: of a character that no path has
            self._event("Warning", "Failed", f"Error: {error}")
            subject = "ContainerConfig" if isinstance(error, ConfigError) else "Container"
            self._wait(name, f"Create{subject}Error", str(error))
            return
        self._waiting.pop(name, None)
        self._containers.save(name, record)  # before the process: a later kubelet looks for it
        self._event("Normal", "Pulled", plan.image_message, name)
        self._event("Normal", "Created", f"Created container: {name}", name)
        try:
            process = await ContainerProcess.start(
                attempt, container, sandbox, environment, services.tools, services.clock
            )
        except (StartFailed, OSError, ValueError) as error:
            self._event("Warning", "Failed", f"Error: {error}", name)
            services.cgroups.remove(attempt)
            ended = Termination(START_FAILED, "StartError", str(error), 0.0, services.clock.now())
            self._containers.save_if_possible(name, replace(record, started_at=now, ended=ended))
            return
        self._failures = 0
        self._event("Normal", "Started", f"Started container {name}", name)
        self._containers.save_if_possible(name, replace(record, started_at=services.clock.now()))
        self._containers.watch(container, process, self._network.address, hook=True)

    async def _joined_namespace(self, container: Container) -> Path | None:
        """Return the PID namespace of the pod or of the target of a container; None if it has its own.

        Raises ``ConfigError`` if the target does not run, or OSError.
        """
        if self.pod.spec.share_process_namespace:
            if self._pause is None or not is_running(self._pause):
                self._pause = await start_pause(self._services.state, self.pod.metadata.uid)
            return namespace_of(self._pause)
        target = container.target_container_name if isinstance(container, EphemeralContainer) else ""
        if not target:
            return None
        running = self.running(target)
        if running is None:
            raise ConfigError(f"unable to find target container {target}")
        return Path(f"/proc/{running.pid}/ns/pid")

    def _devices(self, container: Container) -> tuple[int, ...]:
        """Return the devices of a container.  Raises ``ConfigError`` if too few are free."""
        wanted = container.resources.limits.get(NVIDIA)
        if wanted is None:
            return ()
        taken = self._services.devices.take(self.pod.metadata.uid, container.name, wanted.units)
        if taken is None:
            raise ConfigError(f"fewer than {wanted.units} devices {NVIDIA} are free")
        return taken

    def _wait(self, name: str, reason: str, message: str) -> None:
        self._waiting[name] = ContainerStateWaiting(reason=reason, message=message)
        self._are_volumes_current = False
        self._retry_later()

    def _note_backoff(self, name: str) -> None:
        pod, container, records = self.pod, self.pod.container(name), self._containers.records
        if container is None or self._ending() is not None or mains_ended(pod, records):
            return
        if container in pod.spec.ephemeral_containers or restarts_all(pod, records):
            return
        is_init = container in pod.spec.init_containers
        if records[name].backoff_s and restarts(pod, container, records[name], is_init=is_init):
            message = f"Back-off restarting failed container {name} in pod {full_name(pod)}"
            self._event("Warning", "BackOff", message, name)

    def _stop(self, name: str, message: str, grace_s: float | None) -> None:
        container = self.pod.container(name)
        if container is not None:
            address = self._network.address if self._network else self.pod.status.pod_ip
            grace_s = self._grace_period_s(container, message) if grace_s is None else grace_s
            self._containers.stop(container, grace_s, address, message)

    def _grace_period_s(self, container: Container, failure: str) -> float:
        grace_s = float(self.pod.spec.termination_grace_period_seconds)
        if self.is_gone:
            return 0.0
        if self.pod.metadata.deletion_grace_period_seconds is not None:
            grace_s = float(self.pod.metadata.deletion_grace_period_seconds)
        elif failure:
            for probe in (container.startup_probe, container.liveness_probe):
                if probe is not None and probe.termination_grace_period_seconds is not None:
                    grace_s = float(probe.termination_grace_period_seconds)
        if self._services.is_stopping:
            grace_s = min(grace_s, self._services.stop_grace_s)
        return grace_s

    async def _report(self, actions: Actions) -> None:
        """Write the status, if it has changed."""
        if self.is_gone or self.pod.status.phase in TERMINAL:
            return
        addresses = None
        if self._network is not None:
            addresses = PodAddresses(self._services.network.node_address, self._network.address)
        containers = self._containers
        seen = PodObservation(
            containers.records,
            containers.health,
            self._waiting,
            addresses,
            self._ending(),
            actions.is_finished,
        )
        pod = self.pod
        status = pod_status(pod, seen, self._services.clock.now())
        changed = merge_patch(pod.status, status)
        if not changed:
            return
        if "conditions" in changed:  # merged by type: those of other clients stay as they are
            changed["conditions"] = [
                {"reason": None, "message": None, **condition}
                for condition in changed["conditions"]
                if condition["type"] in OWN_CONDITIONS
            ]
        for name in ("hostIPs", "podIPs"):  # merged by address: one of an earlier start would stay
            if changed.get(name):
                changed[name].insert(0, {"$patch": "replace"})
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": changed}
        with suppress(NotFound):
            written = await self._services.client.patch(
                PODS, pod.metadata.key, patch, subresource="status", kind=PatchKind.STRATEGIC
            )
            self._take(written)

    def _take(self, pod: Pod) -> None:
        """Keep a newer version of the pod, with the volume of its service account."""
        if int(pod.metadata.resource_version) > int(self.pod.metadata.resource_version):
            if downward_facts(pod) != downward_facts(self.pod):
                self._are_volumes_current = False
            self.pod = with_service_account(pod) if self._mounts_account else pod

    async def _finish(self) -> None:
        """Release what a pod without running containers needs no more; let the API delete a deleted one."""
        services = self._services
        uid = self.pod.metadata.uid
        if not self._is_cleaned:
            if self._pause is not None:
                signal_processes([self._pause], signal.SIGKILL)
                self._pause = None
            await services.network.release(uid)
            await asyncio.to_thread(remove_volumes, self._volumes)
            services.objects.forget(uid)
            services.devices.release(uid)
            self._is_cleaned = True
        if self.is_gone:
            await asyncio.to_thread(self.files.remove)
        elif self.pod.metadata.deletion_timestamp is not None:
            with suppress(NotFound, Conflict):
                await services.client.delete(PODS, self.pod.metadata.key, uid=uid, grace_period_s=0)

    def _event(self, type_: EventType, reason: str, message: str, container: str = "") -> None:
        regarding = reference(PODS, self.pod.metadata.key, Uid(self.pod.metadata.uid))
        if container:
            regarding = replace(regarding, field_path=self.pod.field_path(container))
        self._services.recorder.event(regarding, type_, reason, message)

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    def running(self, container: str) -> RunningContainer | None:
        """Return a running container, or None."""
        process, declared = self._containers.processes.get(container), self.pod.container(container)
        if process is None or declared is None:
            return None
        return process.describe(declared.working_dir or "/")

    def console(self, container: str) -> Console | None:
        """Return the standard streams of a running container, or None."""
        process = self._containers.processes.get(container)
        return None if process is None else process.console

    def logs(self, container: str) -> ContainerLogs | None:
        """Return the logs of a container, or None if the pod has no such container."""
        if self.pod.container(container) is None:
            return None
        record = self._containers.records.get(container)
        number = record.attempt if record else -1
        status = self.pod.status
        statuses = (*status.init_container_statuses, *status.container_statuses)
        waiting = next((one.state.waiting for one in statuses if one.name == container), None)
        return ContainerLogs(
            latest=self.files.log(container, number),
            previous=self.files.log(container, number - 1),
            is_running=container in self._containers.processes,
            waiting=waiting.reason if waiting else "ContainerCreating",
        )

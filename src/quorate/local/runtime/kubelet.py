"""The kubelet of this machine: one worker for each pod that is bound to its node."""

import asyncio
import signal
from typing import Final

from quorate.api.meta import Key, Uid
from quorate.kube.cancellation import start_task
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.local.runtime.containers.files import PodFiles, pods_with_files
from quorate.local.runtime.containers.processes import marked_processes, signal_processes
from quorate.local.runtime.node import NodeServices
from quorate.local.runtime.pod_types import PODS, Pod
from quorate.local.runtime.pods.containers import Processes
from quorate.local.runtime.pods.volumes import PodVolumes, refers_to, remove_volumes
from quorate.local.runtime.pods.worker import PodWorker

MARGIN_S: Final = 3.0  # to end containers, beyond the grace period


class Kubelet:
    """A ``PodIndex``; ``run`` serves until ``stop`` or cancellation."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._cache: Informer[Pod] = Informer(
            services.client, PODS, field_selector=f"spec.nodeName={services.name}"
        )
        self._workers: dict[Uid, PodWorker] = {}
        self._uids: dict[Key, Uid] = {}
        # Processes that an earlier kubelet started, until a worker takes them over.
        self._found: dict[str, dict[tuple[str, int], list[int]]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._worker_tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._log = logger(__name__).bind(node=services.name)

    async def run(self) -> None:
        """Take over running containers, end the containers of deleted pods, and run pods until stopped."""
        for (uid, container, number), pids in (
            await asyncio.to_thread(marked_processes, self._services.state)
        ).items():
            self._found.setdefault(uid, {})[container, number] = pids
        self._services.objects.subscribe(self._on_object)
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            background = [
                tasks.create_task(self._services.objects.run()),
                tasks.create_task(self._services.recorder.run()),
            ]
            await self._services.objects.synced()
            self._cache.subscribe(self._on_pod)
            background.append(tasks.create_task(self._cache.run()))
            await self._cache.synced.wait()
            await self._end_leftovers()
            await self._stopped.wait()
            for task in (*background, *self._worker_tasks):
                task.cancel()

    async def stop(self) -> None:
        """End all containers, with a short grace period, and let ``run`` return."""
        self._services.is_stopping = True
        for worker in self._workers.values():
            worker.wake()
        deadline = self._services.clock.now() + self._services.stop_grace_s + MARGIN_S
        while not all(worker.is_settled for worker in self._workers.values()):
            if self._services.clock.now() > deadline:
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        self._stopped.set()

    def _on_pod(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        is_replaced = old is not None and (new is None or new.metadata.uid != old.metadata.uid)
        if old is not None and is_replaced and old.metadata.uid in self._workers:
            self._workers[old.metadata.uid].remove()
        if new is None:
            return
        self._uids[new.metadata.key] = new.metadata.uid
        worker = self._workers.get(new.metadata.uid)
        if worker is not None:
            worker.update(new)
        else:
            self._begin(new)

    def _begin(self, pod: Pod) -> None:
        assert self._tasks is not None, "pods are delivered while the kubelet runs"
        uid = pod.metadata.uid
        worker = self._workers[uid] = PodWorker(self._services, pod)
        task = start_task(self._tasks, self._run_worker(worker, self._take_processes(uid, worker)))
        self._worker_tasks.add(task)
        task.add_done_callback(self._worker_tasks.discard)

    async def _run_worker(self, worker: PodWorker, processes: Processes) -> None:
        metadata = worker.pod.metadata
        await worker.run(processes)
        self._workers.pop(metadata.uid, None)
        if self._uids.get(metadata.key) == metadata.uid:
            del self._uids[metadata.key]

    def _take_processes(self, uid: Uid, worker: PodWorker) -> Processes:
        """Return the outermost process of each attempt that the worker knows; kill its other processes."""
        taken: dict[tuple[str, int], int] = {}
        for (container, number), pids in self._found.pop(uid, {}).items():
            if worker.expects(container, number):
                taken[container, number] = pids[0]
            else:
                signal_processes(pids, signal.SIGKILL)
        return taken

    async def _end_leftovers(self) -> None:
        """End the processes and delete the files of pods that no longer exist."""
        for uid, attempts in self._found.items():
            self._log.info("processes of a deleted pod ended", uid=uid)
            for pids in attempts.values():
                signal_processes(pids, signal.SIGKILL)
        self._found.clear()
        for uid in await asyncio.to_thread(pods_with_files, self._services.state):
            if Uid(uid) not in self._workers:
                files = PodFiles(self._services.state, uid)
                await self._services.network.release(uid)
                await asyncio.to_thread(remove_volumes, PodVolumes(files.volumes))
                await asyncio.to_thread(files.remove)

    def _on_object(self, kind: str, key: Key) -> None:
        """Refresh the volumes of the pods that refer to a ConfigMap or Secret."""
        for worker in self._workers.values():
            pod = worker.pod
            if pod.metadata.namespace != key.namespace:
                continue
            for volume in pod.spec.volumes:
                config_maps, secrets = refers_to(volume)
                if key.name in (config_maps if kind == "ConfigMap" else secrets):
                    worker.refresh_volumes()
                    break

    def pod(self, namespace: str, name: str) -> PodWorker | None:
        uid = self._uids.get(Key(namespace, name))
        return None if uid is None else self._workers.get(uid)

    def pod_key(self, uid: str) -> Key | None:
        worker = self._workers.get(Uid(uid))
        return None if worker is None else worker.pod.metadata.key

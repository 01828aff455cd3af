"""Clusters with pods that run as processes of this machine."""

import asyncio
import functools
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.resources import Resource, untyped
from quorate.kube.rest.config import load_rest_config
from quorate.local.cluster import Settings, run_cluster
from quorate.local.directory import ClusterDirectory
from quorate.local.runtime.containers.processes import marked_processes
from quorate.local.runtime.containers.sandbox import RuntimeUnavailable, find_tools
from quorate.local.runtime.supervisor import DIRECTORY, ProcessRuntime
from quorate.local.server.apiserver import NO_CONVERTERS
from quorate.processes.local.pod_runtime import why_no_pod_networks

Json = dict[str, Any]

NODE: Final = "this-machine"
DEADLINE_S: Final = 60.0
PODS: Final = untyped("", "v1", "pods", "Pod", True)
CONFIG_MAPS: Final = untyped("", "v1", "configmaps", "ConfigMap", True)
SECRETS: Final = untyped("", "v1", "secrets", "Secret", True)
EVENTS: Final = untyped("", "v1", "events", "Event", True)
NODES: Final = untyped("", "v1", "nodes", "Node", False)
JOBS: Final = untyped("batch", "v1", "jobs", "Job", True)
SERVICES: Final = untyped("", "v1", "services", "Service", True)
WEBHOOKS: Final = untyped(
    *("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
    *("ValidatingWebhookConfiguration", False),
)
CREATED: Final = (
    WEBHOOKS,
    JOBS,
    PODS,
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
)  # by stories, in the order of deletion
KEPT: Final = {"kubernetes", "kube-root-ca.crt"}  # of each cluster


@functools.cache
def unavailable_reason() -> str:
    """Return why pods cannot run as processes on this machine, or an empty string."""
    try:
        find_tools()
    except RuntimeUnavailable as reason:
        return str(reason)
    return ""


runs_processes = pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason() or "pods can run")


why_no_namespaces = functools.cache(why_no_pod_networks)
runs_in_namespaces = pytest.mark.skipif(
    bool(why_no_namespaces()), reason=why_no_namespaces() or "pods can run"
)


class World:
    """A cluster with the node of this machine."""

    def __init__(self, client: Client, directory: Path) -> None:
        self.client = client
        self.directory = directory

    @property
    def state(self) -> Path:
        return self.directory / DIRECTORY

    async def run_pod(self, name: str, spec: Json, **metadata: Any) -> Json:
        return await self.client.create(
            PODS, {"metadata": {"name": name, **metadata}, "spec": spec}, "default"
        )

    async def pod(self, name: str) -> Json:
        return await self.client.get(PODS, Key("default", name))

    async def until(self, name: str, holds: Callable[[Json], object]) -> Json:
        """Return the pod once ``holds`` is true of it; fail at the deadline with what it is then."""
        pod: Json = {}
        try:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    pod = await self.pod(name)
                    if holds(pod):
                        return pod
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{name}: {pod.get('status')} {await self.messages(name)}") from None

    async def pod_of(self, job: str, index: int) -> str:
        """Return the name of the pod of an Indexed Job with this index, once there is one."""
        selector = f"batch.kubernetes.io/job-name={job},batch.kubernetes.io/job-completion-index={index}"
        async with asyncio.timeout(DEADLINE_S):
            while True:
                pods = (await self.client.list(PODS, "default", selector)).items
                if pods:
                    return str(pods[0]["metadata"]["name"])
                await asyncio.sleep(0.05)

    async def ended(self, name: str) -> Json:
        return await self.until(name, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"))

    async def running(self, name: str) -> Json:
        return await self.until(name, lambda pod: pod["status"]["phase"] == "Running")

    async def log(self, name: str, container: str = "main", attempt: int = 0) -> str:
        """Return the lines of a log without their times."""
        uid = (await self.pod(name))["metadata"]["uid"]
        path = self.state / "pods" / uid / "containers" / container / f"{attempt}.log"
        return "".join(line.split(" ", 3)[3] for line in path.read_text().splitlines(keepends=True))

    async def messages(self, name: str) -> set[tuple[str, str]]:
        """Return the reasons and messages of the events of a pod."""
        events = await self.client.list(EVENTS, "default")
        return {(e["reason"], e["message"]) for e in events.items if e["involvedObject"]["name"] == name}

    async def until_event(self, name: str, reason: str, message: str) -> None:
        """Return once a pod has an event with this reason and message."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if (reason, message) in await self.messages(name):
                    return
                await asyncio.sleep(0.05)

    def processes(self) -> dict[tuple[str, str, int], list[int]]:
        return marked_processes(self.state)

    def programs(self) -> set[str]:
        """Return the arguments of the processes of all containers."""
        pids = (pid for pids in self.processes().values() for pid in pids)
        programs = set()
        for pid in pids:
            with suppress(OSError):  # it has ended since
                programs.add(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip())
        return programs


Story = Callable[[World], Awaitable[None]]
_tellers: Final[list[Callable[[Story], None]]] = []  # one for the cluster that the module shares, if any


@asynccontextmanager
async def running_world(
    directory: Path, images: Mapping[str, Path] | None = None, **resources: str
) -> AsyncIterator[World]:
    """Run a cluster in a directory; using the same one again is a restart."""
    clock, ids = WallClock(), random.Random()
    settings = Settings((), runtime=ProcessRuntime(NODE, resources, images or {}))
    with ClusterDirectory(directory).lock(clock.now()) as locked:
        async with (
            run_cluster(
                locked, settings, clock, random.Random(), lambda: str(uuid.UUID(int=ids.getrandbits(128))),
                NO_CONVERTERS,
            ),
            Client(await load_rest_config(locked.kubeconfig), random.Random()) as client,
        ):  # fmt: skip
            yield World(client, locked.path)


def run_story(
    directory: Path, story: Story, images: Mapping[str, Path] | None = None, **resources: str
) -> None:
    """Run a story on the cluster of the module, if that has one, or on a new cluster.

    A story with images or resources of a node needs a new one.  Afterwards no process of a container may be
    left.
    """
    if _tellers and not (images or resources):
        _tellers[-1](story)
        return

    async def tell() -> None:
        async with running_world(directory, images, **resources) as world:
            await story(world)

    asyncio.run(tell())
    assert not marked_processes(directory / DIRECTORY)


@contextmanager
def shared_cluster(directory: Path) -> Iterator[None]:
    """Run a cluster for all stories, of which each deletes what it created: a start takes 1 s of CPU time.

    Between stories its event loop stands still.
    """
    with asyncio.Runner() as runner:
        world, ended, cluster = runner.run(_start(directory))
        _tellers.append(lambda story: runner.run(_tell(world, story)))
        try:
            yield
        finally:
            _tellers.pop()
            ended.set()
            runner.run(asyncio.wait_for(cluster, DEADLINE_S))
    assert not marked_processes(directory / DIRECTORY)


async def _start(directory: Path) -> tuple[World, asyncio.Event, asyncio.Task[None]]:
    """Return a cluster that runs until the event is set, and its task."""
    started: asyncio.Queue[World] = asyncio.Queue()
    ended = asyncio.Event()

    async def run() -> None:
        async with running_world(directory) as world:
            started.put_nowait(world)
            await ended.wait()

    cluster = asyncio.create_task(run())
    first = asyncio.create_task(started.get())
    await asyncio.wait((cluster, first), return_when=asyncio.FIRST_COMPLETED)
    if not first.done():
        first.cancel()
        await cluster
    return first.result(), ended, cluster


async def _tell(world: World, story: Story) -> None:
    try:
        await story(world)
    finally:
        await _clear(world)


async def _clear(world: World) -> None:
    """Delete what a story created, and return when no pod, and no process of a container, is left."""
    async with asyncio.timeout(DEADLINE_S):
        await _delete_all(world, *CREATED)
        while world.processes() or await _delete_all(world, PODS):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await _delete_all(world, EVENTS)


async def _delete_all(world: World, *kinds: Resource[Json]) -> int:
    """Delete the objects of these kinds, and return how many there were."""
    count = 0
    for kind in kinds:
        for obj in (await world.client.list(kind, "default" if kind.namespaced else "")).items:
            metadata = obj["metadata"]
            if metadata["name"] not in KEPT:
                count += 1
                key = Key(metadata.get("namespace", ""), metadata["name"])
                with suppress(NotFound):
                    await world.client.delete(kind, key, propagation="Background", grace_period_s=0)
    return count


def container(*command: str, name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": "host", "command": list(command), **fields}


def script(text: str, name: str = "main", **fields: Any) -> Json:
    return container("sh", "-c", text, name=name, **fields)


def one_container(text: str, restart_policy: str = "Never", **fields: Any) -> Json:
    return {"restartPolicy": restart_policy, "containers": [script(text, **fields)]}


def state_of(pod: Json, name: str = "main") -> Json:
    statuses = pod["status"].get("containerStatuses", []) + pod["status"].get("initContainerStatuses", [])
    return next((dict(status["state"]) for status in statuses if status["name"] == name), {})

"""One run: a server, nodes, pods bound by bare calls, and as many pods bound by the scheduler."""

import asyncio
import os
import random
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.admission.processes import UsageSampler, running
from bench.admission.run import NotDone, within
from bench.admission.server import local_server
from bench.binding.bare import NAMESPACE
from quorate.api.core.pod import Pod
from quorate.api.names.volcano import GROUP_NAME
from quorate.install.crds import gang_definitions
from quorate.kube.client import Client
from quorate.kube.errors import AlreadyExists
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import (
    NAMESPACES,
    NATIVE_POD_GROUPS,
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    POD_GROUPS,
    QUEUES,
    Resource,
)
from quorate.kube.rest.config import load_rest_config
from quorate.processes.local.apply import install_definitions

PODS_OF_A_NODE: Final = 110
LOG: Final = "scheduler.log"
NO_SCHEDULER: Final = "none"  # the schedulerName of pods that are bound by bare calls


@dataclass(frozen=True, slots=True)
class Plan:
    gangs: int
    members: int
    at_once: int  # concurrent bind calls
    within_s: float
    directory: Path
    kubeconfig: Path | None = None  # of an empty cluster; None: run a local server
    bound: int = 0  # further pods that have nodes before the scheduler starts
    native: bool = False  # gangs are pod groups of Kubernetes, not Volcano's

    @property
    def pods(self) -> int:
        return self.gangs * self.members

    @property
    def nodes(self) -> int:
        """Nodes for all pods, and a tenth more."""
        return -(-(2 * self.pods + self.bound) * 11 // (10 * PODS_OF_A_NODE))


class Outcome(msgspec.Struct):
    bare_per_s: float
    bare_cpu_s: float  # of the process that sends the bare binds, without its start
    scheduler_per_s: float
    first_bind_s: float  # from the start of the process
    first_bind_cpu_s: float  # of the scheduler until then
    scheduler_cpu_s: float
    peak_bytes: int

    @property
    def ratio(self) -> float:
        return self.scheduler_per_s / self.bare_per_s

    def summary(self, pods: int) -> str:
        """Return the figures of a run of ``pods`` pods; CPU time of the scheduler is since its first bind."""
        bare_ms, ms = (
            1000 * cpu_s / pods for cpu_s in (self.bare_cpu_s, self.scheduler_cpu_s - self.first_bind_cpu_s)
        )
        return (
            f"bare {self.bare_per_s:,.0f}/s ({bare_ms:.2f} ms CPU each), scheduler "
            f"{self.scheduler_per_s:,.0f}/s ({ms:.2f} ms CPU each), {self.ratio:.2f} of bare binds; "
            f"first bind {self.first_bind_s:.2f} s after the process started "
            f"({self.first_bind_cpu_s:.2f} s CPU), {self.scheduler_cpu_s:.1f} s CPU, "
            f"{self.peak_bytes / 2**20:.0f} MiB"
        )


async def run(plan: Plan, on_progress: Callable[[int], None]) -> Outcome:
    """Run the measurement; raise ``NotDone`` if it does not complete in time."""
    async with AsyncExitStack() as stack:
        kubeconfig = plan.kubeconfig
        if kubeconfig is None:
            kubeconfig = await stack.enter_async_context(local_server(plan.directory))
        config = await load_rest_config(kubeconfig)
        client = await stack.enter_async_context(Client(config, random.Random(), concurrency=plan.at_once))
        await _prepare(client, plan)
        pods = Informer(client, PLACEABLE_PODS)
        bound = Bound(on_progress)
        pods.subscribe(bound.on_change)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(pods.run())
            await pods.synced.wait()
            bare_per_s, bare_cpu_s = await _bare(kubeconfig, plan, bound)
            outcome = await _scheduled(kubeconfig, plan, bound, bare_per_s, bare_cpu_s)
            watching.cancel()
    return outcome


def _ignore() -> None:
    pass


class Bound:
    """The times at which pods were observed bound, since the last ``count_to``."""

    def __init__(self, on_progress: Callable[[int], None]) -> None:
        self._on_progress = on_progress
        self._clock = asyncio.get_running_loop().time
        self._wanted = 0
        self._on_first: Callable[[], object] = _ignore
        self._done = asyncio.Event()
        self.moments: list[float] = []

    def count_to(self, pods: int, on_first: Callable[[], object] = _ignore) -> None:
        self._wanted, self.moments, self._on_first = pods, [], on_first
        self._done.clear()

    def on_change(self, change: Change[Pod]) -> None:
        if change.new is None or not change.new.node_name:
            return
        if change.old is None or not change.old.node_name:
            self.moments.append(self._clock())
            if len(self.moments) == 1:
                self._on_first()
            self._on_progress(len(self.moments))
            if len(self.moments) == self._wanted:
                self._done.set()

    async def all(self) -> float:
        """Wait until all pods are bound, and return pods a second."""
        await self._done.wait()
        return (len(self.moments) - 1) / (self.moments[-1] - self.moments[0])


async def _prepare(client: Client, plan: Plan) -> None:
    await install_definitions(client, gang_definitions())
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await client.create(QUEUES, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": str(PODS_OF_A_NODE)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    nodes = [
        {"metadata": {"name": f"node-{n:05}"}, "status": {"allocatable": allocatable, "conditions": [ready]}}
        for n in range(plan.nodes)
    ]
    await _concurrently(plan.at_once, (_add_node(client, node) for node in nodes))
    resource: Resource[Any] = NATIVE_POD_GROUPS if plan.native else POD_GROUPS
    native_spec = {"schedulingPolicy": {"gang": {"minCount": plan.members}}}
    spec = native_spec if plan.native else {"minMember": plan.members, "queue": "default"}
    groups = [{"metadata": {"name": f"gang-{gang}"}, "spec": spec} for gang in range(plan.gangs)]
    await _concurrently(plan.at_once, (client.create(resource, group, NAMESPACE) for group in groups))
    bodies = [
        _pod(f"{kind}-{gang}", member, scheduler, native=plan.native)
        for kind, scheduler in (("bare", NO_SCHEDULER), ("gang", "quorate"))
        for gang in range(plan.gangs)
        for member in range(plan.members)
    ]
    bodies += [
        _pod(f"bound-{n % 50}", n, NO_SCHEDULER, f"node-{n % plan.nodes:05}") for n in range(plan.bound)
    ]
    await _concurrently(plan.at_once, (client.create(PLACEABLE_PODS, pod, NAMESPACE) for pod in bodies))


async def _add_node(client: Client, node: dict[str, Any]) -> None:
    created = await client.create(PLACEABLE_NODES, node)
    # An API server taints new nodes, and no controller here removes the taint from ready ones.
    await client.patch(PLACEABLE_NODES, created.metadata.key, {"spec": {"taints": None}})


def _pod(gang: str, member: int, scheduler: str, node: str = "", *, native: bool = False) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}
    group = {"schedulingGroup": {"podGroupName": gang}} if native else {}
    return {
        "metadata": {
            "name": f"{gang}-{member}",
            "annotations": {} if native else {GROUP_NAME: gang},
        },
        "spec": {"schedulerName": scheduler, "containers": [container]}
        | ({"nodeName": node} if node else {})
        | group,
    }


async def _bare(kubeconfig: Path, plan: Plan, bound: Bound) -> tuple[float, float]:
    """Return the pods bound a second, and the CPU seconds of the process that sent the binds."""
    bound.count_to(plan.pods)
    names = [f"bare-{gang}-{member}" for gang in range(plan.gangs) for member in range(plan.members)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.binding.bare", str(plan.at_once), str(plan.nodes)),
        stdin=PIPE,
        stdout=PIPE,
        env=os.environ | {"KUBECONFIG": str(kubeconfig)},
    )
    assert process.stdin is not None
    process.stdin.write("\n".join(names).encode())
    process.stdin.close()
    per_s = await within(plan.within_s, "not all bare binds were observed", bound.all())
    cpu_s, _ = await process.communicate()
    return per_s, float(cpu_s)


async def _scheduled(
    kubeconfig: Path, plan: Plan, bound: Bound, bare_per_s: float, bare_cpu_s: float
) -> Outcome:
    clock = asyncio.get_running_loop().time
    began = clock()
    command = (sys.executable, "-m", "quorate", "scheduler", "--binds-at-once", str(plan.at_once))
    async with running(command, kubeconfig, plan.directory / LOG) as process, asyncio.TaskGroup() as tasks:
        sampler = UsageSampler(process.pid)
        first_bind_cpu_s = 0.0

        def on_first() -> None:
            nonlocal first_bind_cpu_s
            sampler.sample()
            first_bind_cpu_s = sampler.usage.cpu_s

        bound.count_to(plan.pods, on_first)
        parts = [tasks.create_task(sampler.follow()), tasks.create_task(_alive(process))]
        per_s = await within(plan.within_s, "the scheduler did not bind all pods", bound.all())
        sampler.sample()
        usage = sampler.usage
        for part in parts:
            part.cancel()
    first_bind_s = bound.moments[0] - began
    return Outcome(
        bare_per_s, bare_cpu_s, per_s, first_bind_s, first_bind_cpu_s, usage.cpu_s, usage.peak_bytes
    )


async def _alive(process: asyncio.subprocess.Process) -> None:
    """Wait until cancelled; raise ``NotDone`` if the process ends."""
    code = await process.wait()
    raise NotDone(f"the scheduler exited with status {code}: see {LOG}")


async def _concurrently(at_once: int, work: Iterable[Awaitable[Any]]) -> None:
    """Await all of ``work``, ``at_once`` at a time."""
    waiting = iter(work)

    async def do() -> None:
        for each in waiting:
            await each

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(do())

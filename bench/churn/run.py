"""One run: a server, nodes and bound pods, the processes under test, and the changes of pods."""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from bench.admission.processes import ProcessUsage, UsageSampler, running
from bench.admission.server import local_server
from quorate.api.meta import Key, at_epoch
from quorate.api.names.kueue import POD_SET, WORKLOAD_ANNOTATION
from quorate.install.crds import gang_definitions, queueing_definitions
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import WallClock
from quorate.kube.errors import AlreadyExists
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    NAMESPACES,
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    Json,
    Resource,
)
from quorate.kube.rest.config import load_rest_config
from quorate.processes.local.apply import install_definitions

NAMESPACE: Final = "churn"
AT_ONCE: Final = 100
NODES_OF_A_RACK: Final = 20
PODS_OF_A_JOB: Final = 50
SETTLE_S: Final = 5.0  # with less than ``CALM`` of a core: the process has read the cluster
CALM: Final = 0.05
WITHIN_S: Final = 600.0


class Stage(StrEnum):
    NODES = "nodes"
    PODS = "pods"
    START = "processes read the cluster"
    CHANGES = "changes"


Show = Callable[[Stage, int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    nodes: int
    pods: int
    rate: int  # changes a second
    seconds: int
    directory: Path
    kubeconfig: Path | None  # of an empty cluster; None: run a local server
    commands: Mapping[str, Sequence[str]]  # of the processes under test, which run one after the other


async def run(plan: Plan, show: Show) -> dict[str, ProcessUsage]:
    """Return the usage of each process while the pods changed, with its peak memory since its start."""
    async with AsyncExitStack() as stack:
        kubeconfig = plan.kubeconfig
        if kubeconfig is None:
            kubeconfig = await stack.enter_async_context(local_server(plan.directory))
        config = await load_rest_config(kubeconfig)
        client = await stack.enter_async_context(Client(config, random.Random(), concurrency=AT_ONCE))
        await _prepare(client)
        await _create_all(client, PLACEABLE_NODES, _nodes(plan), plan.nodes, Stage.NODES, show)
        await _create_all(client, PLACEABLE_PODS, _pods(plan), plan.pods, Stage.PODS, show)
        usages: dict[str, ProcessUsage] = {}
        for name, command in plan.commands.items():
            log = plan.directory / f"{name}.log"
            async with running(command, kubeconfig, log) as process:
                usages[name] = await _measure(client, plan, process.pid, show)
                if process.returncode is not None:
                    raise RuntimeError(
                        f"{name} ended with code {process.returncode}: {log.read_text()[-2000:]}"
                    )
        return usages


async def _prepare(client: Client) -> None:
    await install_definitions(client, [*queueing_definitions(), *gang_definitions()])
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    flavors = [{"name": "nodes", "resources": [{"name": "cpu", "nominalQuota": "1M"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    objects: tuple[tuple[Resource[Any], str, Json], ...] = (
        (NAMESPACES, NAMESPACE, {}),
        (TOPOLOGIES, "racks", {"levels": levels}),
        (RESOURCE_FLAVORS, "nodes", {"nodeLabels": {"pool": "main"}, "topologyName": "racks"}),
        (CLUSTER_QUEUES, "research", {"namespaceSelector": {}, "resourceGroups": groups}),
        (QUEUES, "default", {"weight": 1}),
    )
    for resource, name, spec in objects:
        with suppress(AlreadyExists):
            await client.create(resource, {"metadata": {"name": name}, "spec": spec})


def _nodes(plan: Plan) -> Iterator[Json]:
    status = {
        "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
    }
    for number in range(plan.nodes):
        name = f"node-{number}"
        labels = {"pool": "main", "rack": f"rack-{number // NODES_OF_A_RACK}", "kubernetes.io/hostname": name}
        yield {
            "metadata": {"name": name, "labels": labels},
            "status": {**status, "capacity": status["allocatable"]},
        }


def _pods(plan: Plan) -> Iterator[Json]:
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "env": [{"name": f"VARIABLE_{number}", "value": "value"} for number in range(20)],
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
    }
    for number in range(plan.pods):
        job = number // PODS_OF_A_JOB
        metadata: Json = {"name": f"pod-{number}", "labels": {"app": f"job-{job}"}}
        if job % 2:
            metadata["labels"][POD_SET] = "main"
            metadata["annotations"] = {WORKLOAD_ANNOTATION: f"job-{job}"}
        yield {
            "metadata": metadata,
            "spec": {"nodeName": f"node-{number % plan.nodes}", "containers": [container]},
        }


async def _create_all(
    client: Client, resource: Resource[Any], bodies: Iterator[Json], count: int, stage: Stage, show: Show
) -> None:
    done = 0

    async def create() -> None:
        nonlocal done
        for body in bodies:
            with suppress(AlreadyExists):
                await client.create(resource, body, NAMESPACE if resource.namespaced else "")
            done += 1
            show(stage, done, count)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(create())


async def _measure(client: Client, plan: Plan, pid: int, show: Show) -> ProcessUsage:
    sampler = UsageSampler(pid)
    sampling = asyncio.create_task(sampler.follow())
    try:
        show(Stage.START, 0, 1)
        await asyncio.wait_for(sampler.settled(SETTLE_S, CALM), WITHIN_S)
        sampler.begin()
        await _change_pods(client, plan, show)
        await sampler.settled(SETTLE_S, CALM)
        return sampler.usage
    finally:
        sampling.cancel()


async def _change_pods(client: Client, plan: Plan, show: Show) -> None:
    """Let the kubelets report that containers become ready and not ready, at an even rate."""
    clock, rng = WallClock(), random.Random(1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    total = plan.rate * plan.seconds
    async with asyncio.TaskGroup() as tasks:
        for done in range(total):
            number = rng.randrange(plan.pods)
            tasks.create_task(_change(client, number, clock.now(), is_ready=bool(rng.getrandbits(1))))
            show(Stage.CHANGES, done + 1, total)
            await asyncio.sleep(began + (done + 1) / plan.rate - loop.time())


async def _change(client: Client, number: int, now: float, *, is_ready: bool) -> None:
    status = "True" if is_ready else "False"
    conditions = [
        {"type": type_, "status": status, "lastTransitionTime": at_epoch(now)}
        for type_ in ("Ready", "ContainersReady")
    ]
    body = {"status": {"phase": "Running", "startTime": at_epoch(now), "conditions": conditions}}
    await client.patch(
        PLACEABLE_PODS, Key(NAMESPACE, f"pod-{number}"), body, kind=PatchKind.MERGE, subresource="status"
    )

"""A local cluster for scenarios: server, controllers and optionally nodes, all over HTTP."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from quorate.api.meta import Key
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.resources import Resource, untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.controllers.start import run_controllers
from quorate.local.nodes import NodePool, run_nodes
from tests.local.clusters import api_server

T = TypeVar("T")

WITHIN_S = 20.0
JOBS = untyped("batch", "v1", "jobs", "Job", True)
PODS = untyped("", "v1", "pods", "Pod", True)
CONFIG_MAPS = untyped("", "v1", "configmaps", "ConfigMap", True)


class LocalCluster:
    def __init__(self, client: Client, tasks: asyncio.TaskGroup) -> None:
        self.client = client
        self._tasks = tasks
        self._nodes: asyncio.Task[None] | None = None
        self.registered = asyncio.Event()  # the nodes of the last start

    def start_nodes(self, *pools: NodePool, speed: float = 10.0) -> None:
        self.registered = asyncio.Event()
        nodes = run_nodes(self.client, WallClock(), pools, speed, self.registered)
        self._nodes = self._tasks.create_task(nodes)

    async def stop_nodes(self) -> None:
        """Stop the nodes as a crash of their process would."""
        assert self._nodes is not None, "no nodes run"
        self._nodes.cancel()
        await asyncio.wait([self._nodes])

    async def run_job(self, name: str, pods: int, script: dict[str, str] | None = None, **spec: Any) -> None:
        annotations = {f"simulate.quorate.dev/{what}": value for what, value in (script or {}).items()}
        requests, tolerations = spec.pop("requests", {}), spec.pop("tolerations", [])
        limits = {name: amount for name, amount in requests.items() if "/" in name}
        template = {
            "metadata": {"annotations": annotations},
            "spec": {
                "restartPolicy": "Never",
                "tolerations": tolerations,
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox",
                        "resources": {"requests": requests, "limits": limits},
                    }
                ],
            },
        }
        spec = {"parallelism": pods, "completions": pods, "template": template, **spec}
        await self.client.create(JOBS, {"metadata": {"name": name}, "spec": spec}, "default")

    async def job(self, name: str) -> dict[str, Any]:
        return await self.client.get(JOBS, Key("default", name))

    async def pods(self, job: str = "") -> list[dict[str, Any]]:
        selector = f"batch.kubernetes.io/job-name={job}" if job else ""
        return list((await self.client.list(PODS, "default", selector)).items)

    async def phases(self, job: str = "") -> list[str]:
        return sorted(pod["status"]["phase"] for pod in await self.pods(job))

    async def patch_job(self, name: str, spec: dict[str, Any]) -> None:
        await self.client.patch(JOBS, Key("default", name), {"spec": spec})

    async def set_phase(self, pod: dict[str, Any], phase: str) -> None:
        key = Key("default", pod["metadata"]["name"])
        status = {"status": {"phase": phase}}
        await self.client.patch(PODS, key, status, subresource="status", kind=PatchKind.STRATEGIC)

    async def gone(self, resource: Resource[Any], name: str, namespace: str = "default") -> bool:
        try:
            await self.client.get(resource, Key(namespace, name))
        except NotFound:
            return True
        return False

    async def until(self, what: str, find: Callable[[], Awaitable[T | bool | None]]) -> T:
        """Return the first true result of ``find``."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while True:
                    found = await find()
                    if found:
                        return found  # type: ignore[return-value]
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"not within {WITHIN_S:g} s: {what}; {await self.describe()}") from None

    async def until_finished(self, job: str, condition: str = "Complete") -> dict[str, Any]:
        async def finished() -> dict[str, Any] | None:
            status = (await self.job(job))["status"]
            types = [each["type"] for each in status.get("conditions", ()) if each["status"] == "True"]
            return status if condition in types else None

        return await self.until(f"{job} is {condition}", finished)

    async def describe(self) -> str:
        jobs = {job["metadata"]["name"]: job.get("status") for job in (await self.client.list(JOBS)).items}
        return f"jobs {jobs}, pods {await self.phases()}"


@asynccontextmanager
async def local_cluster(
    fleet: NodePool | None = None,
    speed: float = 10.0,
    volumes: Path | None = None,
    *,
    with_job_pod_groups: bool = False,
    authority: bytes = b"",
) -> AsyncIterator[LocalCluster]:
    """Run a cluster, connected as ``quorate local up`` is.

    Any part that ends on its own ends the scenario with its exception.
    """
    async with api_server() as server:
        cluster = RestConfig(server.url, credentials=Token(server.token), connect=server.connect)
        async with (
            Client(cluster, random.Random(1), streams_lists=True) as client,
            asyncio.TaskGroup() as tasks,
        ):
            controllers = tasks.create_task(
                run_controllers(
                    client,
                    WallClock(),
                    random.Random(2),
                    volumes,
                    with_job_pod_groups=with_job_pod_groups,
                    authority=authority,
                )
            )
            local = LocalCluster(client, tasks)
            if fleet is not None:
                local.start_nodes(fleet, speed=speed)
            yield local
            controllers.cancel()
            if fleet is not None:
                await local.stop_nodes()

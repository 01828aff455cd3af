"""A small cluster with many gangs, generated from a seed, and the operator that creates their pods.

Each gang fits into the empty cluster, so all gangs must complete.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.kube.client import Client
from quorate.kube.errors import AlreadyExists, Conflict, NotFound
from quorate.kube.resources import POD_GROUPS, PODS
from quorate.local.nodes import NodePool
from tests.faults.scene import NAMESPACE

Json = dict[str, Any]

FLEET: Final = NodePool(3, cpu="4")
OF_GROUP: Final = "scheduling.k8s.io/group-name"
# Timeouts are short enough for a run of some seconds.
CONFIGURATION: Final = """
actions: "enqueue, allocate, backfill"
configurations:
- name: enqueue
  arguments: {inqueue-timeout: 3s, requeue-backoff-base: 200ms, requeue-backoff-max: 1s}
- name: allocate
  arguments: {repair-within: 2s}
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
POLL_INTERVAL_S: Final = 0.03


@dataclass(frozen=True, slots=True)
class Gang:
    """A pod group to create ``at_s`` after the start, of ``members`` pods that need ``cpu`` each."""

    name: str
    at_s: float
    members: int
    minimum: int
    cpu: int
    duration_ms: int

    @property
    def pods(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-{index}" for index in range(self.members))

    def group(self) -> Json:
        resources = {"cpu": str(self.minimum * self.cpu)}
        return {
            "metadata": {"name": self.name},
            "spec": {"minMember": self.minimum, "minResources": resources},
        }

    def pod(self, name: str) -> Json:
        simulated = {
            "simulate.quorate.dev/duration": f"{self.duration_ms}ms",
            "simulate.quorate.dev/start-delay": "20ms",
        }
        container = {
            "name": "main",
            "image": "busybox",
            "resources": {"requests": {"cpu": str(self.cpu)}},
        }
        return {
            "metadata": {"name": name, "annotations": {OF_GROUP: self.name, **simulated}},
            "spec": {"schedulerName": "quorate", "restartPolicy": "Never", "containers": [container]},
        }


def generate_gangs(seed: int) -> tuple[Gang, ...]:
    rng = random.Random(f"gangs {seed}")
    gangs = []
    for number in range(rng.randint(6, 10)):
        cpu = rng.choice((1, 1, 2))
        members = rng.randint(1, 12 // cpu)
        minimum = members if rng.random() < 0.7 else rng.randint(1, members)
        duration_ms = rng.choice((100, 300, 600))
        gangs.append(Gang(f"gang-{number}", rng.uniform(0, 2.5), members, minimum, cpu, duration_ms))
    return tuple(gangs)


class Operator:
    """Create the pods of a group when it is admitted, and delete unplaced pods when it is Pending.

    The operator is a foreign client without faults.  It recreates evicted pods.
    """

    def __init__(self, client: Client, gangs: tuple[Gang, ...]) -> None:
        self._client = client
        self._gangs = {gang.name: gang for gang in gangs}

    async def submit(self) -> None:
        async with asyncio.TaskGroup() as users:
            for gang in self._gangs.values():
                users.create_task(self._submit(gang))

    async def _submit(self, gang: Gang) -> None:
        await asyncio.sleep(gang.at_s)  # sleeps: the schedule of a trial
        await self._client.create(POD_GROUPS, gang.group(), NAMESPACE)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            pods = {pod.metadata.name: pod for pod in (await self._client.list(PODS, NAMESPACE)).items}
            for group in (await self._client.list(POD_GROUPS, NAMESPACE)).items:
                gang = self._gangs[group.metadata.name]
                if group.status.phase in ("Inqueue", "Running", "Unknown"):
                    await self._create_pods(gang, [name for name in gang.pods if name not in pods])
                elif group.status.phase == "Pending":
                    unplaced = [
                        pods[name].metadata.key
                        for name in gang.pods
                        if name in pods and not pods[name].spec.node_name
                    ]
                    await self._delete(unplaced)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _create_pods(self, gang: Gang, names: list[str]) -> None:
        for name in names:
            try:
                await self._client.create(PODS, gang.pod(name), NAMESPACE)
            except AlreadyExists:
                continue  # the evicted pod is terminating

    async def _delete(self, keys: list[Key]) -> None:
        for key in keys:
            try:
                await self._client.delete(PODS, key)
            except (NotFound, Conflict):
                continue


async def unfinished_gangs(client: Client, gangs: tuple[Gang, ...]) -> list[str]:
    """Return a finding for each gang that is not Completed."""
    groups: dict[str, PodGroup] = {
        group.metadata.name: group for group in (await client.list(POD_GROUPS, NAMESPACE)).items
    }
    return [
        f"{gang.name} is {groups[gang.name].status.phase or 'new'}, not Completed"
        for gang in gangs
        if groups[gang.name].status.phase != "Completed"
    ]

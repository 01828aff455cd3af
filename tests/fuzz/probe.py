"""Probes in a namespace of their own: a job that must be admitted and a gang that must be bound."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.api.meta import Key, find_condition
from quorate.kube.client import Client
from quorate.kube.errors import ApiError, NotFound, Unreachable
from quorate.kube.resources import JOBS, POD_GROUPS, PODS, WORKLOADS, Resource
from tests.e2e.hostile import pod_template
from tests.fuzz.findings import Findings

PROBE: Final = "probe"  # namespace and queues
INTERVAL_S: Final = 1.0
GIVE_UP_S: Final = 60.0
NODE: Final = {"kubernetes.io/hostname": "node-1"}

Json = dict[str, Any]


@dataclass
class Probe:
    client: Client
    findings: Findings
    deadline_s: float
    admissions_s: list[float] = field(default_factory=list)
    bindings_s: list[float] = field(default_factory=list)
    _ended: asyncio.Condition = field(default_factory=asyncio.Condition)  # of each round

    async def run(self) -> None:
        number = 0
        while True:
            number += 1
            try:
                await asyncio.gather(self._admission(f"probe-{number}"), self._binding(f"gang-{number}"))
            except (ApiError, Unreachable) as error:
                self.findings.add(
                    "probe", f"the API server refuses probes: {type(error).__name__}", str(error)
                )
            async with self._ended:
                self._ended.notify_all()
            await asyncio.sleep(INTERVAL_S)

    async def after(self, rounds: int) -> None:
        """Return after that many rounds from now, the current one included."""
        async with self._ended:
            for _ in range(rounds):
                await self._ended.wait()

    async def _admission(self, name: str) -> None:
        spec = {"suspend": True, "template": pod_template("1m")}
        metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": PROBE}}
        job = await self.client.create(JOBS, {"metadata": metadata, "spec": spec}, PROBE)

        async def is_admitted() -> bool:
            selector = f"kueue.x-k8s.io/job-uid={job.metadata.uid}"
            for workload in (await self.client.list(WORKLOADS, PROBE, label_selector=selector)).items:
                admitted = find_condition(workload.status.conditions, "Admitted")
                return admitted is not None and admitted.status == "True"
            return False

        self.admissions_s.append(await self._measure("the probe job is admitted", is_admitted))
        await self.client.delete(JOBS, Key(PROBE, name), propagation="Background")

    async def _binding(self, name: str) -> None:
        group = {"metadata": {"name": name}, "spec": {"minMember": 1, "queue": PROBE}}
        await self.client.create(POD_GROUPS, group, PROBE)
        spec = pod_template("1m", schedulerName="quorate", nodeSelector=NODE)["spec"]
        annotations = {"scheduling.k8s.io/group-name": name, "simulate.quorate.dev/duration": "1s"}
        await self.client.create(
            PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}, PROBE
        )

        async def is_bound() -> bool:
            return bool((await self.client.get(PODS, Key(PROBE, name))).spec.node_name)

        self.bindings_s.append(await self._measure("the probe gang is bound", is_bound))
        created: tuple[Resource[Any], ...] = (PODS, POD_GROUPS)
        for resource in created:
            with contextlib.suppress(NotFound):
                await self.client.delete(resource, Key(PROBE, name), grace_period_s=0)

    async def _measure(self, what: str, holds: Any) -> float:
        clock = asyncio.get_running_loop().time
        began = clock()
        while not await holds():
            if clock() - began > GIVE_UP_S:
                self.findings.add("probe", f"{what}: not within {GIVE_UP_S:g} s", "", GIVE_UP_S)
                return GIVE_UP_S
            await asyncio.sleep(0.03)
        took_s = clock() - began
        if took_s > self.deadline_s:
            self.findings.add("probe", f"{what}: not within {self.deadline_s:g} s", f"{took_s:.2f} s", took_s)
        return took_s

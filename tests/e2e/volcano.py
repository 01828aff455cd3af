"""A test cluster with pod groups, Volcano Jobs and queues, and without a gang scheduler.

The test sets the phases of pod groups as the scheduler would; the controllers under test react.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from quorate.api.configuration import Configuration, default_configuration
from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job
from quorate.install.crds import gang_definitions, queueing_definitions
from quorate.kube.resources import COMMANDS, POD_GROUPS, PODS, VOLCANO_JOBS
from tests.e2e import shared_clusters
from tests.e2e.world import NAMESPACE, World, running_cluster

DEFINITIONS: Final = (*queueing_definitions(), *gang_definitions())


class Gangs:
    def __init__(self, world: World) -> None:
        self.world = world
        self.client = world.client

    async def job(self, name: str, tasks: str = "worker=2", cpu: str = "1", **spec: Any) -> None:
        """Create a Volcano Job; ``tasks``: ``name=replicas``."""
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        listed = [
            {"name": task, "replicas": int(count), "template": template}
            for task, _, count in (word.partition("=") for word in tasks.split())
        ]
        await self.world.create(VOLCANO_JOBS, name, NAMESPACE, spec={"tasks": listed, **spec})

    def metric(self, name: str, **labels: str) -> float | None:
        return self.world.replica.recorder.registry.get_sample_value(f"volcano_{name}", labels)

    async def get_job(self, name: str) -> Job:
        return await self.client.get(VOLCANO_JOBS, Key(NAMESPACE, name))

    async def until_job(self, name: str, phase: str, **counts: int) -> Job:
        async def find() -> Job | None:
            job = await self.get_job(name)
            found = {count: getattr(job.status, count) for count in counts}
            return job if job.status.state.phase == phase and found == counts else None

        return await self.world.until(f"{name} is {phase} with {counts}", find)

    async def until_group(self, owner: str) -> PodGroup:
        async def find() -> PodGroup | None:
            for group in (await self.client.list(POD_GROUPS, NAMESPACE)).items:
                reference = group.metadata.controller
                if reference is not None and reference.name == owner:
                    return group
            return None

        return await self.world.until(f"the pod group of {owner}", find)

    async def pods(self) -> dict[str, Pod]:
        return {pod.metadata.name: pod for pod in (await self.client.list(PODS, NAMESPACE)).items}

    async def until_pods(self, *names: str) -> dict[str, Pod]:
        """Return all pods once their names are exactly ``names`` and none is terminating."""

        async def find() -> dict[str, Pod] | None:
            pods = await self.pods()
            return (
                pods
                if sorted(pods) == sorted(names) and not any(map(_is_terminating, pods.values()))
                else None
            )

        if not names:
            await self.world.until("no pods", self._none)
            return {}
        return await self.world.until(f"the pods {names}", find)

    async def _none(self) -> bool:
        return not await self.pods()

    # Writes of the scheduler and of the nodes.

    async def set_group_phase(self, group: PodGroup, phase: str, reason: str = "") -> None:
        condition = {"type": "Unschedulable", "status": "True", "reason": reason, "message": "short of cpu"}
        status = {"phase": phase, "conditions": [condition] if reason else []}
        await self.client.patch(POD_GROUPS, group.metadata.key, {"status": status})

    async def bind(self, *names: str) -> None:
        """Bind pods to a node without a kubelet."""
        for name in names:
            path = PODS.path(NAMESPACE, name, "binding")
            body = b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":"%s"},"target":{"name":"node-1"}}'
            await self.client.request("POST", path, body=body % name.encode())

    async def set_pod_phase(self, phase: str, *names: str, exit_code: int = 0) -> None:
        terminated = {"terminated": {"exitCode": exit_code, "reason": "Error", "finishedAt": None}}
        state = terminated if phase in ("Failed", "Succeeded") else {"running": {}}
        status = {"name": "main", "ready": phase == "Running", "restartCount": 0, "image": "", "imageID": ""}
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        for name in names:
            body = {"phase": phase, "conditions": [ready], "containerStatuses": [{**status, "state": state}]}
            await self.client.patch(PODS, Key(NAMESPACE, name), {"status": body}, subresource="status")

    async def command(self, action: str, job: Job) -> None:
        target = {
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "name": job.metadata.name, "uid": job.metadata.uid,
        }  # fmt: skip
        body = {"metadata": {"generateName": "command-"}, "action": action, "target": target}
        await self.client.create(COMMANDS, body, NAMESPACE)


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def run_story(
    scenario: Callable[[Gangs], Awaitable[None]], configuration: Configuration | None = None
) -> None:
    """Run ``scenario`` with running controllers, by default with the default configuration."""

    async def run() -> None:
        async with running_cluster(definitions=DEFINITIONS) as world:
            await world.start_queueing(configuration or default_configuration())
            await scenario(Gangs(world))

    shared_clusters.run(run())

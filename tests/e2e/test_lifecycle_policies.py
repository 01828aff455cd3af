"""Policies of Volcano Jobs follow what happens to a pod, whichever way it goes."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest

from quorate.api.meta import Key, Uid
from quorate.kube.client import PatchKind
from quorate.kube.resources import EVENTS, POD_GROUPS, PODS
from tests.e2e.volcano import Gangs, run_story
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow


async def delete_gracefully(gangs: Gangs, pod: str) -> None:
    await gangs.client.delete(PODS, Key(NAMESPACE, pod))
    await stop(gangs, pod)


async def delete_by_force(gangs: Gangs, pod: str) -> None:
    await gangs.client.delete(PODS, Key(NAMESPACE, pod), grace_period_s=0)


async def evict(gangs: Gangs, pod: str) -> None:
    body = b'{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s"}}' % pod.encode()
    await gangs.client.request("POST", PODS.path(NAMESPACE, pod, "eviction"), body=body)
    await stop(gangs, pod)


async def preempt(gangs: Gangs, pod: str) -> None:
    """Write what a scheduler writes that preempts the pod."""
    await disrupt(gangs, pod, "PreemptionByScheduler")
    await delete_gracefully(gangs, pod)


async def lose_the_node(gangs: Gangs, pod: str) -> None:
    """Write what the garbage collection of pods writes about a pod of a node that no longer exists."""
    await disrupt(gangs, pod, "DeletionByPodGC", phase="Failed")
    await delete_by_force(gangs, pod)


async def disrupt(gangs: Gangs, pod: str, reason: str, **status: str) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    body = {"status": {**status, "conditions": [condition]}}
    await gangs.client.patch(PODS, Key(NAMESPACE, pod), body, subresource="status", kind=PatchKind.STRATEGIC)


async def stop(gangs: Gangs, pod: str) -> None:
    """Let the node stop a terminating pod: it fails by the signal, and is removed."""

    async def terminating() -> bool:
        return (await gangs.pods())[pod].metadata.deletion_timestamp is not None

    await gangs.world.until(f"{pod} terminates", terminating)
    await gangs.set_pod_phase("Failed", pod, exit_code=143)
    await delete_by_force(gangs, pod)


WAYS: Final[Mapping[str, Callable[[Gangs, str], Awaitable[None]]]] = {
    "graceful": delete_gracefully,
    "forced": delete_by_force,
    "eviction": evict,
    "preemption": preempt,
    "node-loss": lose_the_node,
}


async def uids(gangs: Gangs, *names: str) -> Mapping[str, Uid]:
    """Return the UIDs of the pods, once all of them exist and none terminates."""

    async def find() -> Mapping[str, Uid] | None:
        pods = await gangs.pods()
        found = {name: pods[name] for name in names if name in pods}
        if len(found) < len(names) or any(pod.metadata.deletion_timestamp for pod in found.values()):
            return None
        return {name: pod.metadata.uid for name, pod in found.items()}

    return await gangs.world.until(f"the pods {names}", find)


async def run_pods(gangs: Gangs, *names: str) -> None:
    await uids(gangs, *names)
    pods = await gangs.pods()
    await gangs.bind(*(name for name in names if not pods[name].spec.node_name))
    await gangs.set_pod_phase("Running", *names)


async def until_removed(gangs: Gangs, *names: str) -> None:
    """Remove pods that the controller deletes, as their node would; return once they are gone or new."""
    before = {name: pod.metadata.uid for name, pod in (await gangs.pods()).items() if name in names}

    async def removed() -> bool:
        pods = await gangs.pods()
        same = [pods[name] for name, uid in before.items() if name in pods and pods[name].metadata.uid == uid]
        for pod in same:
            if pod.metadata.deletion_timestamp is not None:
                await delete_by_force(gangs, pod.metadata.name)
        return not same

    await gangs.world.until(f"the pods {names} are deleted", removed)


@pytest.mark.parametrize("way", WAYS)
def test_a_pod_is_evicted_whichever_way_it_is_deleted(way: str) -> None:
    """One deletion restarts its task once; the pods that the restart deletes restart nothing."""

    async def scenario(gangs: Gangs) -> None:
        policies = [
            {"event": "PodEvicted", "action": "RestartTask"},
            {"event": "PodFailed", "action": "AbortJob"},
        ]
        await gangs.job("train", "ps=1 worker=2", policies=policies, maxRetry=9)
        group = await gangs.until_group("train")
        await gangs.set_group_phase(group, "Running")
        ps, *workers = names = ("train-ps-0", "train-worker-0", "train-worker-1")
        await run_pods(gangs, *names)
        await gangs.until_job("train", "Running", running=3)
        before = await uids(gangs, *names)

        await WAYS[way](gangs, workers[1])
        await until_removed(gangs, workers[0])
        await run_pods(gangs, *names)
        job = await gangs.until_job("train", "Running", running=3)
        after = await uids(gangs, *names)
        assert job.status.retry_count == 1
        assert {name for name in names if after[name] == before[name]} == {ps}

        await WAYS[way](gangs, ps)  # a pod that the first restart has retained
        await run_pods(gangs, ps)
        job = await gangs.until_job("train", "Running", running=3)
        assert job.status.retry_count == 2
        assert await uids(gangs, *workers) == {name: after[name] for name in workers}
        actions = [
            event.note
            for event in (await gangs.client.list(EVENTS, NAMESPACE)).items
            if event.reason == "ExecuteAction"
        ]
        assert sorted(note.partition(" because")[0] for note in actions) == [
            "RestartTask ps", "RestartTask worker",
        ]  # fmt: skip
        groups = (await gangs.client.list(POD_GROUPS, NAMESPACE)).items
        assert [each.metadata.uid for each in groups] == [group.metadata.uid]

    run_story(scenario)

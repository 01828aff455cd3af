"""Nodes are lost, tainted and deleted under workloads with places."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration import default_configuration, load_configuration
from quorate.api.core import Pod
from quorate.api.kueue.topology import topology_assignment
from quorate.api.meta import Key, find_condition
from quorate.kube.resources import EVENTS, JOBS, NODES, PODS, WORKLOADS
from quorate.observe.queueing_metrics import metrics
from tests.api.configuration.files import a_file
from tests.e2e.test_metrics import scrape
from tests.e2e.topologies import HOST, RACK, READY, REQUIRED, create_host, create_topology, places_of
from tests.e2e.world import NAMESPACE, World, run_story
from tests.observe.listening import listening

pytestmark = pytest.mark.slow

# Workloads without a replacement for a failed node stay, and can be looked at.
PATIENT = load_configuration(a_file("featureGates: {TASFailedNodeReplacementFailFast: false}")).configuration
GATE = "kueue.x-k8s.io/topology"


async def create_job(world: World, name: str, pods: int, level: str = HOST, **pod_spec: Any) -> None:
    """Create a job of pods with 1 cpu each that requires one domain of ``level``."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {REQUIRED: level}},
        "spec": {"restartPolicy": "Never", "containers": [container], **pod_spec},
    }
    spec = {"parallelism": pods, "completions": pods, "suspend": True, "template": template}
    labels = {"kueue.x-k8s.io/queue-name": "tas"}
    await world.client.create(JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, NAMESPACE)


async def pods_of(world: World, job: str) -> tuple[Pod, ...]:
    return (await world.client.list(PODS, NAMESPACE, f"job-name={job}")).items


async def until_selected(world: World, job: str, hosts: list[str]) -> None:
    """Wait until the pods of a job that have not ended are ungated for these hosts."""

    async def found() -> bool:
        pods = [pod for pod in await pods_of(world, job) if pod.status.phase == "Pending"]
        selected = [pod.spec.node_selector.get(HOST, "") for pod in pods if not pod.spec.scheduling_gates]
        return len(pods) == len(hosts) and sorted(selected) == hosts

    await world.until(f"{job} on {hosts}", found)


async def until_unhealthy(world: World, job: str, *nodes: str) -> None:
    async def found() -> bool:
        workload = await world.workload(job)
        assert workload is not None
        return tuple(node.name for node in workload.status.unhealthy_nodes) == nodes

    await world.until(f"unhealthy nodes of {job}: {nodes}", found)


async def set_ready(world: World, node: str, status: str) -> None:
    conditions = {"status": {"conditions": [{**READY, "status": status}]}}
    await world.client.patch(NODES, Key("", node), conditions, subresource="status")


async def waiting_pods_end(world: World) -> None:
    """Pods that wait for a node which does not take them end, and their replacements stay gated."""
    await create_host(world, "x2", "r1", cpu="4")
    await create_job(world, "waiting", pods=3, schedulerName="none")
    await until_selected(world, "waiting", ["x2", "x2", "x2"])
    waiting = {pod.metadata.name: pod for pod in await pods_of(world, "waiting")}
    taint = {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}}
    await world.client.patch(NODES, Key("", "x2"), taint)

    async def ended() -> bool:
        pods = {pod.metadata.name: pod for pod in await pods_of(world, "waiting")}
        return all(pods[name].status.phase == "Failed" for name in waiting)

    await world.until("the waiting pods end", ended)
    await until_unhealthy(world, "waiting", "x2")
    for pod in await pods_of(world, "waiting"):
        if pod.metadata.name in waiting:
            condition = find_condition(pod.status.conditions, "TerminatedByKueue")
            assert condition is not None
            assert condition.reason == "UnschedulableOnAssignedNode"
        else:
            assert [gate.name for gate in pod.spec.scheduling_gates] == [GATE]

    async def reported() -> bool:
        events = (await world.client.list(EVENTS, NAMESPACE)).items
        about = [each.regarding for each in events if each.reason == "PodTerminatedByKueue"]
        return {pod.name for pod in about if pod is not None} >= waiting.keys()

    await world.until("the end of each pod is reported", reported)
    await world.client.delete(JOBS, Key(NAMESPACE, "waiting"))  # it would get the next node


async def create_member(world: World, job: str, name: str, *, is_labelled: bool = True, **spec: Any) -> None:
    """Create one more pod of the workload of a job, which no scheduler binds."""
    workload = await world.workload(job)
    assert workload is not None
    metadata = {
        "name": name,
        "labels": {"kueue.x-k8s.io/podset": "main"} if is_labelled else {},
        "annotations": {"kueue.x-k8s.io/workload": workload.metadata.name, REQUIRED: HOST},
    }
    containers = [{"name": "main", "image": "i"}]
    body = {"metadata": metadata, "spec": {"schedulerName": "none", "containers": containers, **spec}}
    await world.client.create(PODS, body, NAMESPACE)


async def until_ended(world: World, name: str) -> None:
    async def has_ended() -> bool:
        return (await world.client.get(PODS, Key(NAMESPACE, name))).status.phase == "Failed"

    await world.until(f"{name} has ended", has_ended)


async def pods_without_the_label_count(world: World) -> None:
    """The annotation is enough: a pod keeps its node from being replaced, or ends as it waits for a node."""
    await create_member(world, "bound", "running", is_labelled=False, nodeName="x1")
    await set_ready(world, "x1", "Unknown")
    (pod,) = await pods_of(world, "bound")
    await world.client.delete(PODS, pod.metadata.key, grace_period_s=0)
    await create_member(world, "bound", "late", is_labelled=False, nodeSelector={HOST: "x1"})
    await until_ended(world, "late")
    workload = await world.workload("bound")
    assert workload is not None
    assert workload.status.unhealthy_nodes == ()
    await world.client.delete(PODS, Key(NAMESPACE, "running"), grace_period_s=0)

    # A pod of a workload that has no node ends too.
    await create_job(world, "large", pods=1_000)
    await world.until_condition("large", "QuotaReserved", "False")
    await create_member(world, "large", "stray", is_labelled=False, nodeSelector={HOST: "x1"})
    await until_ended(world, "stray")


async def gated_pods_wait_for_a_node(world: World) -> None:
    """While a pod still runs on a node that takes no more, others of its workload stay gated."""
    await create_host(world, "x7", "r7", cpu="6")
    await create_job(world, "shared", pods=6)

    async def are_bound() -> bool:
        return [pod.spec.node_name for pod in await pods_of(world, "shared")] == ["x7"] * 6

    async def get(name: str) -> Pod:
        return await world.client.get(PODS, Key(NAMESPACE, name))

    await world.until("the pods are bound", are_bound)
    await create_member(world, "shared", "first", nodeSelector={HOST: "x7"})
    taint = {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}}
    await world.client.patch(NODES, Key("", "x7"), taint)
    await until_ended(world, "first")
    await create_member(world, "shared", "gated", schedulingGates=[{"name": GATE}])
    for pod in (await pods_of(world, "shared"))[:3]:
        await world.client.delete(PODS, pod.metadata.key, grace_period_s=0)
    for name in ("second", "third"):
        await create_member(world, "shared", name, nodeSelector={HOST: "x7"})
        await until_ended(world, name)
    await world.client.patch(NODES, Key("", "x7"), {"spec": {"taints": None}})

    async def is_ungated() -> bool:
        return not (await get("gated")).spec.scheduling_gates

    await world.until("the pod is ungated", is_ungated)
    assert (await get("gated")).status.phase == "Pending"


async def the_eviction_is_counted(world: World) -> None:
    """The eviction has its own reason; the attempt that found no place in the topology is inadmissible."""

    async def found() -> bool:
        got = await scrape(url)
        evicted = [got[f"kueue_{name}_total"] for name in ("evicted_workloads", "evicted_workloads_once")]
        attempts = got["kueue_admission_attempts_total"]
        return (
            [value for values in evicted for labels, value in values.items() if "NodeFailures" in labels]
            == [1.0, 1.0]
            and attempts.get(("inadmissible",), 0.0) >= 1.0
            and got["kueue_pod_scheduling_gate_removal_seconds_count"].get(
                ("kueue.x-k8s.io/topology", "placing", "false"), 0.0
            )
            >= 4.0
        )

    async with listening("metrics.bindAddress", metrics(world.replica)) as url:
        await world.until("the eviction, the attempt and the ungated pods are counted", found)


@pytest.mark.parametrize("host", ["x", "host-"])
def test_pods_of_a_failed_node_get_another_one(host: str) -> None:
    """``host``: the beginning of the label with the host's name, which need not be the name of the node."""

    async def story(world: World) -> None:
        async def create_node(number: int) -> None:
            await create_host(world, f"x{number}", "r1", "2", {HOST: f"{host}{number}"})

        for number in (1, 2):
            await create_node(number)
        await create_topology(world, cpu="100")
        await create_job(world, "train", pods=2, level=RACK, schedulerName="none")
        await until_selected(world, "train", [f"{host}1"] * 2)
        await world.client.delete(NODES, Key("", "x1"))
        await until_selected(world, "train", [f"{host}2"] * 2)
        await until_unhealthy(world, "train")
        assert await places_of(world, "train") == {f"{host}2": 2}

        # Without another host the workload waits again.
        await world.client.delete(NODES, Key("", "x2"))
        evicted = await world.until_condition("train", "Requeued", "True", "NodeFailures")
        condition = find_condition(evicted.status.conditions, "Requeued")
        assert condition is not None
        assert condition.message.endswith(f"there was no replacement for unhealthy node(s): {host}2")
        await the_eviction_is_counted(world)
        await create_node(3)
        await world.until_condition("train", "Evicted", "False")
        assert await places_of(world, "train") == {f"{host}3": 2}

    run_story(story, default_configuration())


def test_failed_nodes_are_recorded_and_their_pods_end() -> None:
    async def story(world: World) -> None:
        await create_host(world, "x1", "r1", cpu="2")
        await create_topology(world, cpu="100")

        # A node that is not ready has failed once no pod runs there; it can heal.
        await create_job(world, "bound", pods=1)
        await until_selected(world, "bound", ["x1"])

        async def is_bound() -> bool:
            return [pod.spec.node_name for pod in await pods_of(world, "bound")] == ["x1"]

        await world.until("the pod is bound", is_bound)
        await pods_without_the_label_count(world)
        await until_unhealthy(world, "bound", "x1")
        await set_ready(world, "x1", "True")
        await until_unhealthy(world, "bound")

        await waiting_pods_end(world)
        await gated_pods_wait_for_a_node(world)

        # So does a pod on a healthy node that its workload is not assigned to any more.
        for name in ("x5", "x6"):
            await create_host(world, name, "r5", cpu="5")
        await create_job(world, "moved", pods=5, schedulerName="none")
        await until_selected(world, "moved", ["x5"] * 5)
        moved = await world.workload("moved")
        assert moved is not None
        assert moved.status.admission is not None
        admission = codec.to_builtins(moved.status.admission)
        assignment = topology_assignment((HOST,), [(("x6",), 5)])
        admission["podSetAssignments"][0]["topologyAssignment"] = codec.to_builtins(assignment)
        await world.client.patch(
            WORKLOADS, moved.metadata.key, {"status": {"admission": admission}}, subresource="status"
        )

        async def replaced() -> bool:
            return all(
                pod.status.phase == "Failed"
                for pod in await pods_of(world, "moved")
                if pod.spec.node_selector.get(HOST) == "x5"
            )

        await world.until("the pods on the other node end", replaced)

        # Two lost nodes evict the workload, which gets other places.
        for name in ("x3", "x4"):
            await create_host(world, name, "r2", cpu="1")
        await create_job(world, "spread", pods=2, level=RACK)
        await until_selected(world, "spread", ["x3", "x4"])
        for name in ("x3", "x4"):
            await world.client.delete(NODES, Key("", name))
        await world.until_condition("spread", "Requeued", "True", "NodeFailures")
        again = await world.until_condition("spread", "Admitted")
        assert again.status.unhealthy_nodes == ()
        assert not {"x3", "x4"} & (await places_of(world, "spread")).keys()

    run_story(story, PATIENT)


def test_a_node_on_which_all_pods_have_ended_does_not_fail() -> None:
    """An autoscaler removes two of three nodes; the third is lost later, and one lost node evicts nothing."""

    async def story(world: World) -> None:
        for name in ("x1", "x2", "x3"):
            await create_host(world, name, "r1", cpu="1")
        await create_topology(world, cpu="100")
        await create_job(world, "train", pods=3, level=RACK)
        await until_selected(world, "train", ["x1", "x2", "x3"])
        for pod in await pods_of(world, "train"):
            if pod.spec.node_selector[HOST] != "x3":
                status = {"status": {"phase": "Succeeded"}}
                await world.client.patch(PODS, pod.metadata.key, status, subresource="status")

        async def have_ended() -> bool:
            workload = await world.workload("train")
            return workload is not None and [each.count for each in workload.status.reclaimable_pods] == [2]

        await world.until("two pods have ended", have_ended)
        for name in ("x1", "x2", "x3"):
            await world.client.delete(NODES, Key("", name))
        await until_unhealthy(world, "train", "x3")
        assert "train" in await world.admitted()

    run_story(story, PATIENT)

"""A small cluster with racks, generated from a seed: jobs request places, and nodes die and return."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from quorate.api.configuration import default_configuration
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)
from quorate.local.nodes import FleetLevel, NodePool
from quorate.local.nodes.fleet import register
from tests.faults.scene import ENDLESS_DURATION, NAMESPACE, PRIORITIES, Scene, Submission

Json = dict[str, Any]

RACK: Final = "example.com/rack"
HOST: Final = "kubernetes.io/hostname"
CPUS: Final = 3  # of each node
FLEET: Final = NodePool(4, cpu=str(CPUS), labels={"pool": "tas"}, levels=(FleetLevel(RACK, "rack", 2),))
LOSSES: Final = 6
Way = Literal["deleted", "not ready", "tainted", "cordoned"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)


def generate_topology_scene(seed: int) -> Scene:
    """Return two queues of one topology flavor, with room for each job once all nodes are there."""
    rng = random.Random(f"topology scene {seed}")
    queues = ["team-a", "team-b"][: rng.choice((1, 2))]
    submissions = [_submission(rng, number, queues) for number in range(rng.randint(5, 8))]
    submissions.append(_submission(rng, len(submissions), queues, endless=True))
    submissions.append(_unmanaged("stranger"))
    return Scene(default_configuration(), tuple(_objects(rng, queues)), tuple(submissions), has_check=False)


def _objects(rng: random.Random, queues: list[str]) -> Iterator[tuple[Resource[Any], Json]]:
    levels = [{"nodeLabel": RACK}, {"nodeLabel": HOST}]
    yield TOPOLOGIES, {"metadata": {"name": "tree"}, "spec": {"levels": levels}}
    flavor = {"topologyName": "tree", "nodeLabels": {"pool": "tas"}}
    yield RESOURCE_FLAVORS, {"metadata": {"name": "tas"}, "spec": flavor}
    for name, value in PRIORITIES.items():
        yield WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value}
    for queue in queues:
        quota = {"name": "cpu", "nominalQuota": str(rng.choice((5, 8)))}
        spec = {
            "namespaceSelector": {},
            "cohortName": "whole",
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [{"name": "tas", "resources": [quota]}]}
            ],
            "queueingStrategy": rng.choice(("BestEffortFIFO", "StrictFIFO")),
            "preemption": {
                "withinClusterQueue": rng.choice(("Never", "LowerPriority")),
                "reclaimWithinCohort": "Any",
            },
        }
        yield CLUSTER_QUEUES, {"metadata": {"name": queue}, "spec": spec}
        yield LOCAL_QUEUES, {"metadata": {"name": queue}, "spec": {"clusterQueue": queue}}


def _submission(rng: random.Random, number: int, queues: list[str], *, endless: bool = False) -> Submission:
    pods = 1 if endless else rng.choice((1, 2, 3, 4))
    name, queue = f"job-{number}", rng.choice(queues)
    labels = {"kueue.x-k8s.io/queue-name": queue}
    if not endless and rng.random() < 0.5:
        labels["kueue.x-k8s.io/priority-class"] = rng.choice(tuple(PRIORITIES))
    runs, request = f"{rng.choice((50, 300, 800))}ms", _request(rng, pods)
    annotations = {}
    if pods > 1 and rng.random() < 0.3:
        annotations["kueue.x-k8s.io/job-min-parallelism"] = "1"
    body = _job(name, pods, ENDLESS_DURATION if endless else runs, labels, annotations, request)
    return Submission(name, rng.choice((0.0, 0.0, 0.1, 0.3)), queue, body, endless=endless)


def _request(rng: random.Random, pods: int) -> Json:
    prefix = "kueue.x-k8s.io/podset"
    kinds = ["required", "preferred", "unconstrained", "slices", "none"]
    match rng.choice(kinds):
        case "required":
            level = rng.choice((RACK, HOST)) if pods <= CPUS - 1 else RACK
            return {f"{prefix}-required-topology": level}
        case "preferred":
            return {f"{prefix}-preferred-topology": rng.choice((RACK, HOST))}
        case "unconstrained":
            return {f"{prefix}-unconstrained-topology": "true"}
        case "slices" if pods % 2 == 0:
            return {
                f"{prefix}-slice-required-topology": rng.choice((RACK, HOST)),
                f"{prefix}-slice-size": "2",
            }
        case _:
            return {}


def _unmanaged(name: str) -> Submission:
    body = _job(name, 1, "150ms", {}, {}, {})
    body["spec"]["suspend"] = False
    return Submission(name, 0.0, "", body)


def _job(
    name: str, pods: int, runs: str, labels: dict[str, str], annotations: dict[str, str], request: Json
) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed" if pods % 2 else "NonIndexed",
            "backoffLimit": 1000,  # a pod of a lost node has failed
            "suspend": True,
            "template": {
                "metadata": {"annotations": {"simulate.quorate.dev/duration": runs, **request}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


@dataclass(frozen=True, slots=True)
class Loss:
    """A node that leaves ``after_s`` after the previous one has returned, and how."""

    after_s: float
    node: str  # empty: the one with the most pods
    way: Way
    away_s: float


def losses(seed: int) -> Iterator[Loss]:
    rng = random.Random(f"losses {seed}")
    for _ in range(LOSSES):
        yield Loss(
            rng.uniform(0.05, 0.3),
            rng.choice(("", "", "", *FLEET.node_names)),
            rng.choice(WAYS),
            rng.uniform(0.05, 0.5),
        )


async def lose_nodes(client: Client, seed: int, lost_pods: set[Key]) -> None:
    """Take nodes away, with their pods unless they are only cordoned, and bring each back.

    Adds to ``lost_pods``.
    """
    for loss in losses(seed):
        await asyncio.sleep(loss.after_s)
        node = loss.node or await _busiest_node(client)
        key = Key("", node)
        match loss.way:
            case "deleted":
                await client.delete(NODES, key)
            case "not ready":
                condition = {"type": "Ready", "status": "Unknown", "reason": "Lost", "message": ""}
                await client.patch(NODES, key, {"status": {"conditions": [condition]}}, subresource="status")
            case "tainted":
                taint = {"key": "broken", "effect": "NoExecute"}
                await client.patch(NODES, key, {"spec": {"taints": [taint]}})
            case "cordoned":
                await client.patch(NODES, key, {"spec": {"unschedulable": True}})
        if loss.way != "cordoned":
            await _remove_pods(client, node, lost_pods)
        await asyncio.sleep(loss.away_s)
        if loss.way == "deleted":
            await _remove_pods(client, node, lost_pods)  # those that were bound meanwhile
        await register(client, WallClock(), FLEET, node, "10.0.1.1")
        await client.patch(NODES, key, {"spec": {"taints": None, "unschedulable": None}})


async def _busiest_node(client: Client) -> str:
    pods = Counter(pod.spec.node_name for pod in (await client.list(PODS, NAMESPACE)).items)
    return max(FLEET.node_names, key=lambda name: pods[name])


async def _remove_pods(client: Client, node: str, lost_pods: set[Key]) -> None:
    """Remove the pods of a node without a trace: a failed pod would delay the next ones of its job."""
    for pod in (await client.list(PODS, NAMESPACE)).items:
        if pod.spec.node_name == node:
            lost_pods.add(pod.metadata.key)
            try:
                await client.patch(PODS, pod.metadata.key, {"metadata": {"finalizers": None}})
                await client.delete(PODS, pod.metadata.key, grace_period_s=0)
            except NotFound:
                continue

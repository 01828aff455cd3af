"""The status of PodDisruptionBudgets, by table and on the local cluster."""

import asyncio

import pytest

from quorate.api import codec
from quorate.api.core import Pod
from quorate.api.meta import Key, at_epoch
from quorate.kube.errors import ApiError
from quorate.kube.resources import Json, untyped
from quorate.local.controllers.disruption import Budget, budget_status
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import LocalCluster, local_cluster

DEPLOYMENTS = untyped("apps", "v1", "deployments", "Deployment", True)
BUDGETS = untyped("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
NOW = at_epoch(2_000_000_000)
RECENT, LONG_AGO = (at_epoch(2_000_000_000 - age).isoformat() for age in (60, 180))


def a_pod(text: str) -> Pod:
    """``text``: name and ready, waiting or gone."""
    name, state = text.split("/")
    metadata: Json = {"name": name}
    if state == "gone":
        metadata["deletionTimestamp"] = LONG_AGO
    ready = {"type": "Ready", "status": "False" if state == "waiting" else "True"}
    return codec.convert(Pod, {"metadata": metadata, "status": {"phase": "Running", "conditions": [ready]}})


@pytest.mark.parametrize(
    ("pods", "expected", "desired", "disrupted", "want"),
    [
        ("a/ready b/ready c/ready", 3, 2, {}, (3, 1, "SufficientPods")),
        ("a/ready b/ready", 3, 2, {}, (2, 0, "InsufficientPods")),
        ("a/ready b/ready c/waiting", 3, 1, {}, (2, 1, "SufficientPods")),
        ("a/ready b/ready c/gone", 3, 1, {}, (2, 1, "SufficientPods")),
        ("a/ready b/ready c/ready", 3, 1, {"a": RECENT}, (2, 1, "SufficientPods")),
        ("a/ready b/ready c/ready", 3, 1, {"a": LONG_AGO, "x": RECENT}, (3, 2, "SufficientPods")),
        ("a/ready", 3, 3, {}, (1, 0, "InsufficientPods")),
        ("", 0, 0, {}, (0, 0, "InsufficientPods")),
    ],
)
def test_the_status_of_a_budget(
    pods: str, expected: int, desired: int, disrupted: dict[str, str], want: tuple[int, int, str]
) -> None:
    metadata = {"name": "web", "generation": 4}
    budget = codec.convert(Budget, {"metadata": metadata, "status": {"disruptedPods": disrupted}})
    status = budget_status(budget, [a_pod(text) for text in pods.split()], expected, desired, NOW)
    (condition,) = status.conditions
    assert (status.current_healthy, status.disruptions_allowed, condition.reason) == want
    assert status.observed_generation == condition.observed_generation == 4


async def story(cluster: LocalCluster) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    await cluster.client.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, "default")
    budget = {"selector": {"matchLabels": labels}, "maxUnavailable": "25%"}
    await cluster.client.create(BUDGETS, {"metadata": {"name": "web"}, "spec": budget}, "default")

    async def allows(count: int) -> bool:
        status = (await cluster.client.get(BUDGETS, Key("default", "web"))).get("status", {})
        return (status.get("disruptionsAllowed"), status.get("expectedPods")) == (count, 4)

    async def evict(pod: Json) -> None:
        body = {"metadata": {"name": pod["metadata"]["name"]}}
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/eviction"
        await cluster.client.request(
            "POST", path, body=codec.encode(body), headers={"Content-Type": "application/json"}
        )

    await cluster.until("one of four may be evicted", lambda: allows(1))
    first, second, *_ = await cluster.pods()
    await evict(first)
    with pytest.raises(ApiError, match="disruption budget"):
        await evict(second)
    await cluster.until("it is replaced", lambda: allows(1))
    await evict(second)


@pytest.mark.slow
def test_evictions_stay_within_a_budget() -> None:
    async def run() -> None:
        async with local_cluster(NodePool(1), speed=5.0) as cluster:
            await story(cluster)

    asyncio.run(run())

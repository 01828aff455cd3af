"""Deployments, ReplicaSets and StatefulSets on the local cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Pod
from quorate.api.meta import Key, at_epoch
from quorate.kube.errors import Conflict, Invalid
from quorate.kube.resources import Json, untyped
from quorate.local.controllers.apps.replica_set import pods_to_delete
from quorate.local.controllers.apps.rollout import (
    COMPLETE,
    TIMED_OUT,
    Sizes,
    deployment_status,
    is_scaled,
    recreate_sizes,
    rolling_sizes,
    scaled_sizes,
    size_of_new,
)
from quorate.local.controllers.apps.stateful_set import PodChanges, next_changes, revision_name
from quorate.local.controllers.apps.types import Deployment, ReplicaSet, StatefulSet
from quorate.local.controllers.pod_control import BURST_REPLICAS, REVISION_LABEL
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import PODS, LocalCluster, local_cluster

DEPLOYMENTS = untyped("apps", "v1", "deployments", "Deployment", True)
REPLICA_SETS = untyped("apps", "v1", "replicasets", "ReplicaSet", True)
STATEFUL_SETS = untyped("apps", "v1", "statefulsets", "StatefulSet", True)


def a_pod(name: str, state: str = "ready", node: str = "node-1", revision: str = "") -> Pod:
    """``state``: ready, waiting, failed, or one of them with ``-gone`` for a terminating pod."""
    phase, _, gone = state.partition("-")
    metadata: Json = {"name": name, "labels": {REVISION_LABEL: revision}}
    if gone:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True"}] if phase == "ready" else []
    status = {"phase": "Failed" if phase == "failed" else "Running", "conditions": conditions}
    return codec.convert(Pod, {"metadata": metadata, "spec": {"nodeName": node}, "status": status})


def test_a_replica_set_that_shrinks_keeps_ready_pods() -> None:
    pods = [a_pod("a"), a_pod("b", "waiting"), a_pod("c", "waiting", node=""), a_pod("d")]
    assert [pod.metadata.name for pod in pods_to_delete(pods, 2)] == ["c", "b"]
    assert pods_to_delete(pods, 4) == []


def a_deployment(replicas: int, strategy: Json | None = None, **fields: Any) -> Deployment:
    spec = {"replicas": replicas, "strategy": strategy or {}, **fields}
    return codec.convert(Deployment, {"metadata": {"name": "web"}, "spec": spec})


def a_replica_set(
    size: int, available: int, present: int | None = None, maximum: int = 0, desired: int = 0
) -> ReplicaSet:
    status = {"replicas": size if present is None else present, "availableReplicas": available}
    annotations = {
        f"deployment.kubernetes.io/{name}-replicas": str(amount)
        for name, amount in (("max", maximum), ("desired", desired))
        if amount
    }
    metadata = {"name": "web-1", "annotations": annotations}
    return codec.convert(ReplicaSet, {"metadata": metadata, "spec": {"replicas": size}, "status": status})


def _of_five(size: int, available: int, desired: int = 0) -> ReplicaSet:
    return a_replica_set(size, available, maximum=5, desired=desired)


def exact(surge: int, unavailable: int) -> Json:
    return {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


@pytest.mark.parametrize(
    ("strategy", "new", "old", "want"),
    [
        ({}, a_replica_set(0, 0), [a_replica_set(4, 4)], Sizes(1, (4,))),
        ({}, a_replica_set(1, 0), [a_replica_set(4, 4)], Sizes(1, (3,))),
        ({}, a_replica_set(1, 0), [a_replica_set(3, 3)], Sizes(2, (3,))),
        ({}, a_replica_set(2, 0), [a_replica_set(3, 3)], Sizes(2, (3,))),
        ({}, a_replica_set(2, 2), [a_replica_set(3, 3)], Sizes(2, (1,))),
        ({}, a_replica_set(1, 0), [a_replica_set(4, 0)], Sizes(1, (3,))),
        ({}, a_replica_set(4, 4), [a_replica_set(1, 0), a_replica_set(1, 1)], Sizes(4, (0, 0))),
        ({}, a_replica_set(6, 6), [], Sizes(4, ())),
        (exact(0, 1), a_replica_set(0, 0), [a_replica_set(4, 4)], Sizes(0, (3,))),
        (exact(1, 0), a_replica_set(1, 0), [a_replica_set(4, 4)], Sizes(1, (4,))),
        (exact(0, 0), a_replica_set(0, 0), [a_replica_set(4, 4)], Sizes(0, (3,))),
    ],
)  # fmt: skip
def test_the_steps_of_a_rolling_update(
    strategy: Json, new: ReplicaSet, old: list[ReplicaSet], want: Sizes
) -> None:
    assert rolling_sizes(a_deployment(4, strategy), new, old) == want


def test_the_size_with_which_a_new_replica_set_is_created() -> None:
    assert size_of_new(a_deployment(4), None, []) == 4
    assert size_of_new(a_deployment(4), None, [a_replica_set(4, 4)]) == 1
    assert size_of_new(a_deployment(4, exact(0, 1)), None, [a_replica_set(4, 4)]) == 0
    assert size_of_new(a_deployment(4, {"type": "Recreate"}), None, [a_replica_set(4, 4)]) == 4


@pytest.mark.parametrize(
    ("old", "has_old_pods", "want"),
    [
        ([a_replica_set(4, 4)], True, Sizes(None, (0,))),
        ([a_replica_set(0, 0)], True, Sizes(None, (0,))),
        ([a_replica_set(0, 0)], False, Sizes(4, (0,))),
    ],
)
def test_recreate_waits_for_the_end_of_all_old_pods(
    old: list[ReplicaSet], has_old_pods: bool, want: Sizes
) -> None:
    deployment = a_deployment(4, {"type": "Recreate"})
    assert recreate_sizes(deployment, None, old, has_old_pods=has_old_pods) == want


@pytest.mark.parametrize(
    ("replicas", "new", "old", "want"),
    [
        pytest.param(5, a_replica_set(3, 3), [a_replica_set(0, 0)], Sizes(5, (0,)), id="one is active"),
        pytest.param(5, None, [a_replica_set(0, 0), a_replica_set(0, 0)], Sizes(None, (0, 5)), id="newest"),
        pytest.param(10, _of_five(4, 0), [_of_five(1, 1)], Sizes(10, (3,)), id="shares"),
        pytest.param(2, _of_five(4, 0), [_of_five(1, 1)], Sizes(2, (1,)), id="fewer"),
        pytest.param(0, _of_five(4, 0), [_of_five(1, 1)], Sizes(0, (0,)), id="nothing"),
        pytest.param(4, _of_five(4, 4, desired=4), [_of_five(1, 1)], Sizes(4, (0,)), id="saturated"),
    ],
)
def test_a_scaled_deployment_keeps_the_shares_of_its_replica_sets(
    replicas: int, new: ReplicaSet | None, old: list[ReplicaSet], want: Sizes
) -> None:
    assert scaled_sizes(a_deployment(replicas), new, old) == want


def test_a_deployment_is_scaled_when_its_replicas_differ_from_those_of_an_active_replica_set() -> None:
    assert is_scaled(a_deployment(3), [a_replica_set(2, 2, desired=2)])
    assert not is_scaled(a_deployment(2), [a_replica_set(2, 2, desired=2)])
    assert not is_scaled(a_deployment(3), [a_replica_set(0, 0, desired=2)])


def a_stateful_set(replicas: int, management: str = "OrderedReady", **fields: Any) -> StatefulSet:
    spec = {"replicas": replicas, "podManagementPolicy": management, **fields}
    return codec.convert(StatefulSet, {"metadata": {"name": "db"}, "spec": spec})


NOW = 2_000_000_000.0
NOW_REVISION = revision_name(a_stateful_set(0))


@pytest.mark.parametrize(
    ("replicas", "management", "states", "want"),
    [
        pytest.param(2, "OrderedReady", "", "+0", id="the first"),
        pytest.param(2, "OrderedReady", "waiting", "", id="the second waits for the first"),
        pytest.param(2, "OrderedReady", "ready", "+1", id="the second"),
        pytest.param(2, "Parallel", "", "+0 +1", id="parallel creation"),
        pytest.param(
            1, "OrderedReady", "ready ready ready", "-db-2", id="the highest ordinal is deleted first"
        ),
        pytest.param(1, "OrderedReady", "ready ready ready-gone", "", id="one pod is deleted at a time"),
        pytest.param(0, "Parallel", "ready ready", "-db-1 -db-0", id="parallel deletion"),
        pytest.param(2, "OrderedReady", "failed ready", "-db-0", id="a failed pod is replaced"),
    ],
)
def test_a_stateful_set_creates_and_deletes_pods_in_order(
    replicas: int, management: str, states: str, want: str
) -> None:
    pods = [a_pod(f"db-{n}", state, revision=NOW_REVISION) for n, state in enumerate(states.split())]
    todo = next_changes(a_stateful_set(replicas, management), pods, NOW)
    words = [f"+{each}" for each in todo.create] + [f"-{each.metadata.name}" for each in todo.delete]
    assert " ".join(words) == want


def test_a_stateful_set_of_two_billion_replicas_creates_a_burst_of_pods() -> None:
    pods = [a_pod("db-1", "ready", revision=NOW_REVISION)]
    todo = next_changes(a_stateful_set(2**31 - 1, "Parallel"), pods, NOW)
    assert todo.create == (0, *range(2, BURST_REPLICAS + 1))


def test_a_stateful_set_updates_pods_from_the_highest_ordinal() -> None:
    pods = [a_pod("db-0", revision="old"), a_pod("db-1", revision="old")]
    assert [pod.metadata.name for pod in next_changes(a_stateful_set(2), pods, NOW).delete] == ["db-1"]
    pods = [a_pod("db-0", revision="old"), a_pod("db-1", revision=NOW_REVISION)]
    assert [pod.metadata.name for pod in next_changes(a_stateful_set(2), pods, NOW).delete] == ["db-0"]


def test_a_parallel_stateful_set_updates_one_pod_at_a_time() -> None:
    parallel = a_stateful_set(2, "Parallel")
    pods = [a_pod("db-0", "waiting", revision="old"), a_pod("db-1", revision="old")]
    assert [pod.metadata.name for pod in next_changes(parallel, pods, NOW).delete] == ["db-1"]
    pods[1] = a_pod("db-1", "waiting", revision=NOW_REVISION)
    assert next_changes(parallel, pods, NOW) == PodChanges()
    pods[1] = a_pod("db-1", revision=NOW_REVISION)
    assert [pod.metadata.name for pod in next_changes(parallel, pods, NOW).delete] == ["db-0"]
    assert next_changes(parallel, pods[:1], NOW) == PodChanges(create=(1,))


def test_the_ordinals_of_a_stateful_set_begin_where_it_says() -> None:
    shifted = a_stateful_set(2, "Parallel", ordinals={"start": 3})
    assert next_changes(shifted, [], NOW).create == (3, 4)
    pods = [a_pod(f"db-{n}", revision="old") for n in (2, 3, 4, 5)]
    surplus = next_changes(shifted, pods, NOW).delete
    assert [pod.metadata.name for pod in surplus] == ["db-5", "db-2"]


def test_the_partition_of_a_rolling_update_counts_from_the_first_ordinal() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    pods = [a_pod("db-3", revision="old"), a_pod("db-4", revision=NOW_REVISION)]
    updated = a_stateful_set(2, ordinals={"start": 3}, updateStrategy=strategy)
    assert next_changes(updated, pods, NOW).delete == ()
    pods = [a_pod("db-3", revision="old"), a_pod("db-4", revision="old")]
    assert [pod.metadata.name for pod in next_changes(updated, pods, NOW).delete] == ["db-4"]


def body(name: str, replicas: int, image: str = "busybox", **spec: Any) -> Json:
    container = {"name": "main", "image": image}
    scripted = {"simulate.quorate.dev/start-delay": "10ms"}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": scripted},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": selector, "template": template, **spec}
    return {"metadata": {"name": name}, "spec": spec}


def live(story: Callable[[LocalCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with local_cluster(NodePool(count=1)) as cluster:
            await story(cluster)

    asyncio.run(run())


async def until_ready(cluster: LocalCluster, resource: Any, name: str, pods: int) -> Json:
    async def find() -> Json | None:
        found: Json = await cluster.client.get(resource, Key("default", name))
        status = found["status"]
        counts = [status.get(each, 0) for each in ("replicas", "readyReplicas", "updatedReplicas")]
        settled = status.get("observedGeneration") == found["metadata"]["generation"]
        return found if settled and counts == [pods] * 3 else None

    return await cluster.until(f"{name} has {pods} ready pods", find)


@pytest.mark.parametrize(
    ("replicas", "updated", "available", "before", "age_s", "want"),
    [
        (2, 2, 2, "NewReplicaSetCreated", 0, ("True", COMPLETE)),
        (2, 2, 1, "NewReplicaSetCreated", 0, ("True", "ReplicaSetUpdated")),
        (3, 2, 3, "NewReplicaSetCreated", 0, ("True", "ReplicaSetUpdated")),
        (2, 2, 1, COMPLETE, 0, ("True", COMPLETE)),
        (2, 0, 0, "NewReplicaSetCreated", 10, ("True", "NewReplicaSetCreated")),
        (2, 0, 0, "NewReplicaSetCreated", 601, ("False", TIMED_OUT)),
        (2, 0, 0, COMPLETE, 601, ("True", COMPLETE)),
        (2, 2, 2, TIMED_OUT, 601, ("True", COMPLETE)),
    ],
)
def test_the_progress_of_a_rollout(
    replicas: int, updated: int, available: int, before: str, age_s: int, want: tuple[str, str]
) -> None:
    """``before``: the reason of the present condition; ``age_s``: the time since its last update."""
    status = "False" if before == TIMED_OUT else "True"
    condition = {"type": "Progressing", "status": status, "reason": before}
    condition["lastUpdateTime"] = at_epoch(NOW - age_s).isoformat()
    known = {"replicas": 2, "conditions": [condition]}
    deployment = codec.convert(
        Deployment, {"metadata": {"name": "web"}, "spec": {"replicas": 2}, "status": known}
    )
    new, old = a_replica_set(2, available, updated), a_replica_set(0, 0, replicas - updated)
    after = deployment_status(deployment, new, [old], NOW, is_rollout=True)
    (got,) = [each for each in after.conditions if each.type == "Progressing"]
    assert (got.status, got.reason) == want


@pytest.mark.slow
def test_a_deployment_rolls_out_and_is_deleted_with_its_dependents() -> None:
    async def story(cluster: LocalCluster) -> None:
        async def newest_says(note: str) -> None:
            async def find() -> bool:
                sets = (await cluster.client.list(REPLICA_SETS, "default")).items
                said = [each["metadata"]["annotations"] for each in sets if each["spec"]["replicas"]]
                return [(each.get("note"), "kubectl" in str(each)) for each in said] == [(note, False)]

            await cluster.until(f"the newest set has {note}", find)

        web = body("web", 3)
        applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
        web["metadata"]["annotations"] = {"note": "one", **applied}
        await cluster.client.create(DEPLOYMENTS, web, "default")
        await until_ready(cluster, DEPLOYMENTS, "web", 3)
        await newest_says("one")

        async def is_complete() -> bool:
            found = await cluster.client.get(DEPLOYMENTS, Key("default", "web"))
            reasons = {each["type"]: each["reason"] for each in found["status"]["conditions"]}
            return reasons == {"Available": "MinimumReplicasAvailable", "Progressing": COMPLETE}

        await cluster.until("the rollout is complete", is_complete)
        key = Key("default", "web")
        await cluster.client.patch(DEPLOYMENTS, key, {"metadata": {"annotations": {"note": "two"}}})
        await newest_says("two")
        other = body("web", 3, image="other")["spec"]["template"]
        await cluster.client.patch(DEPLOYMENTS, key, {"spec": {"template": other}})
        await until_ready(cluster, DEPLOYMENTS, "web", 3)
        running = [pod for pod in await cluster.pods() if "deletionTimestamp" not in pod["metadata"]]
        assert {pod["spec"]["containers"][0]["image"] for pod in running} == {"other"}
        await cluster.client.request(
            "PATCH",
            DEPLOYMENTS.path("default", "web", "scale"),
            body=b'{"spec": {"replicas": 1}}',
            headers={"Content-Type": "application/merge-patch+json"},
        )
        await until_ready(cluster, DEPLOYMENTS, "web", 1)
        await cluster.client.delete(DEPLOYMENTS, key, propagation="Background")

        async def empty() -> bool:
            sets = (await cluster.client.list(REPLICA_SETS, "default")).items
            return not sets and not await cluster.pods()

        await cluster.until("all gone", empty)

    live(story)


@pytest.mark.slow
def test_a_stateful_set_recreates_pods_with_their_names() -> None:
    async def story(cluster: LocalCluster) -> None:
        await cluster.client.create(STATEFUL_SETS, body("db", 2, serviceName="db"), "default")
        await until_ready(cluster, STATEFUL_SETS, "db", 2)
        first = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await cluster.pods()}
        assert sorted(first) == ["db-0", "db-1"]
        await cluster.client.delete(PODS, Key("default", "db-0"))

        async def is_new() -> bool:
            pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await cluster.pods()}
            return pods.get("db-0") not in (None, first["db-0"])

        await cluster.until("db-0 is created again", is_new)
        await until_ready(cluster, STATEFUL_SETS, "db", 2)
        with pytest.raises(Invalid, match="updates to statefulset spec for fields other than"):
            await cluster.client.patch(STATEFUL_SETS, Key("default", "db"), {"spec": {"serviceName": "x"}})

    live(story)


@pytest.mark.slow
def test_pods_of_a_stateful_set_have_host_names_in_the_domain_of_its_service() -> None:
    async def story(cluster: LocalCluster) -> None:
        created = body("db", 2, serviceName="dbs", ordinals={"start": 1})
        await cluster.client.create(STATEFUL_SETS, created, "default")
        await until_ready(cluster, STATEFUL_SETS, "db", 2)
        names = [(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in await cluster.pods()]
        assert sorted(names) == [("db-1", "dbs"), ("db-2", "dbs")]

    live(story)


@pytest.mark.slow
def test_a_stateful_set_that_is_created_again_adopts_the_pods_of_its_name() -> None:
    async def story(cluster: LocalCluster) -> None:
        created = body("db", 1, serviceName="db")
        await cluster.client.create(STATEFUL_SETS, created, "default")
        await until_ready(cluster, STATEFUL_SETS, "db", 1)
        (before,) = await cluster.pods()
        await cluster.client.delete(STATEFUL_SETS, Key("default", "db"), propagation="Orphan")

        async def is_orphan() -> bool:
            (pod,) = await cluster.pods()
            sets = (await cluster.client.list(STATEFUL_SETS, "default")).items
            return not sets and not pod["metadata"].get("ownerReferences")

        await cluster.until("the set is gone and the pod has no owner", is_orphan)
        await cluster.client.create(STATEFUL_SETS, created, "default")
        await until_ready(cluster, STATEFUL_SETS, "db", 1)
        (after,) = await cluster.pods()
        assert after["metadata"]["uid"] == before["metadata"]["uid"]

    live(story)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"selector": {"matchLabels": {"app": "x"}}}, "`selector` does not match template `labels`"),
        ({"selector": None}, "spec.selector: Required value"),
        ({"replicas": -1}, "must be greater than or equal to 0"),
    ],
    ids=["selector", "no selector", "negative"],
)
def test_invalid_deployments_are_rejected(change: Json, message: str) -> None:
    async def story(cluster: LocalCluster) -> None:
        wrong = body("web", 1)
        wrong["spec"] |= change
        with pytest.raises((Invalid, Conflict)) as rejection:
            await cluster.client.create(DEPLOYMENTS, wrong, "default")
        assert message in str(rejection.value)

    live(story)

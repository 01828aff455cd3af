"""Deployments, StatefulSets and LeaderWorkerSets without webhooks: admission by pod or by group."""

import re
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from msgspec import structs

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.core.pod import Pod
from quorate.api.meta import Key, ObjectMeta, Uid, find_condition, is_true
from quorate.api.names.kueue import JOB_UID
from quorate.controllers.jobframework.construct_workload import workload_name
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import is_gated
from quorate.controllers.serving.kinds import SETS
from quorate.controllers.serving.reconciler import REPLICAS_BEFORE_GATING
from quorate.kube.errors import NotFound
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    PLACEABLE_PODS,
    WORKLOADS,
    Json,
    Resource,
    metadata_of,
    untyped,
)
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import install_definitions
from tests.e2e.minimal_definitions import definition
from tests.e2e.test_pods import more_cpu, no_workloads, pods_of, until_event
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

T = TypeVar("T")

FRAMEWORKS = ("batch/job", "deployment", "statefulset")
QUEUED = Configuration(integrations=Integrations(frameworks=FRAMEWORKS))
FLEET = NodePool(count=1, cpu="8", memory="16Gi")
DEPLOYMENTS = untyped("apps", "v1", "deployments", "Deployment", True)
STATEFUL_SETS = untyped("apps", "v1", "statefulsets", "StatefulSet", True)
WEB = Key(NAMESPACE, "web")


def a_set(replicas: int, queue: str = "queue") -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {
            "labels": {"app": "web"},
            "annotations": {"simulate.quorate.dev/start-delay": "200ms"},
        },
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {"name": "web", "labels": labels}, "spec": spec}


async def until_ready(world: World, resource: Any, pods: int) -> None:
    async def find() -> bool:
        try:
            found: Json = await world.client.get(resource, WEB)
        except NotFound:
            return False  # a copy is created after its cluster was chosen
        ready: int = found["status"].get("readyReplicas", 0)
        return ready == pods

    await world.until(f"{pods} pods are ready", find)


async def live_pods(world: World) -> list[Pod]:
    return [each for each in (await pods_of(world)).values() if each.metadata.deletion_timestamp is None]


def test_each_pod_of_a_deployment_waits_for_its_own_quota() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await world.client.create(DEPLOYMENTS, a_set(3), NAMESPACE)

        async def one_is_gated() -> bool:
            return sorted(map(is_gated, await live_pods(world))) == [False, False, True]

        # Pods from before the first reconcile, without gates, may be ready for a moment.
        await world.until("one of three pods is gated", one_is_gated)
        await until_ready(world, DEPLOYMENTS, 2)
        workloads = (await world.client.list(WORKLOADS, NAMESPACE)).items
        deployment = await world.client.get(DEPLOYMENTS, WEB)
        assert [each.metadata.labels[JOB_UID] for each in workloads] == [deployment["metadata"]["uid"]] * 3
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), more_cpu("3"))
        await until_ready(world, DEPLOYMENTS, 3)
        await world.client.delete(DEPLOYMENTS, WEB, propagation="Background")
        await world.until("the workloads are deleted", no_workloads(world))

    run_story(story, QUEUED, FLEET)


def test_a_running_deployment_keeps_its_pods_and_gets_an_event() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await world.client.create(DEPLOYMENTS, a_set(1, queue=""), NAMESPACE)
        await until_ready(world, DEPLOYMENTS, 1)
        label = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "queue"}}}
        await world.client.patch(DEPLOYMENTS, WEB, label)
        note = await until_event(world, "NotGated", "web")
        assert note.startswith("pods of the set run outside of all quota")
        assert len(await live_pods(world)) == 1

    run_story(story, QUEUED, FLEET)


def test_a_stateful_set_is_admitted_as_a_group_and_releases_quota_at_zero_replicas() -> None:
    async def story(world: World) -> None:
        await world.queues("1")
        await world.client.create(STATEFUL_SETS, a_set(2), NAMESPACE)
        waiting = await world.until_condition("web", "QuotaReserved", "False")
        assert [(each.name, each.count) for each in waiting.spec.pod_sets] == [("main", 2)]
        assert waiting.metadata.annotations[constants.OWNER_NAME] == "web"
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), more_cpu("2"))
        await until_ready(world, STATEFUL_SETS, 2)
        await world.client.patch(STATEFUL_SETS, WEB, {"spec": {"replicas": 0}})
        on_hold = await world.until_condition("web", "QuotaReserved", "False", "OnHold")
        condition = find_condition(on_hold.status.conditions, "QuotaReserved")
        assert condition is not None
        assert condition.message == "StatefulSet scaled to zero; workload on hold"
        await world.until("no pods", lambda: no_pods(world))
        await world.client.patch(STATEFUL_SETS, WEB, {"spec": {"replicas": 1}})
        await until_ready(world, STATEFUL_SETS, 1)
        again = await world.until_condition("web", "Admitted")
        assert [each.count for each in again.spec.pod_sets] == [1]
        await world.client.delete(STATEFUL_SETS, WEB, propagation="Background")
        await world.until("its workload is deleted", no_workloads(world))

    run_story(story, QUEUED, FLEET)


def test_a_stateful_set_adopts_the_workload_that_an_earlier_version_named_without_uid() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        older = workload_name("StatefulSet", "apps", "web", Uid(""))
        template = a_set(2)["spec"]["template"]["spec"]
        await world.client.create(
            WORKLOADS,
            {
                "metadata": {"name": older, "annotations": {constants.IS_GROUP: "true"}},
                "spec": {
                    "queueName": "queue",
                    "podSets": [{"name": "main", "count": 2, "template": {"spec": template}}],
                },
            },
            NAMESPACE,
        )
        await world.client.create(STATEFUL_SETS, a_set(2), NAMESPACE)
        await until_ready(world, STATEFUL_SETS, 2)
        (adopted,) = (await world.client.list(WORKLOADS, NAMESPACE)).items
        owner = adopted.metadata.job_owner
        assert owner is not None
        assert (adopted.metadata.name, owner.kind, owner.name) == (older, "StatefulSet", "web")
        assert is_true(adopted.status.conditions, "Admitted")

    run_story(story, QUEUED, FLEET)


def test_a_set_that_cannot_be_gated_says_so() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        world.queueing_client.refuses["PATCH statefulsets"] = "no"
        await world.client.create(STATEFUL_SETS, a_set(0), NAMESPACE)
        note = await until_event(world, "UpdateRefused", "web")
        assert note == "the set or its pods cannot be changed: no"
        world.queueing_client.refuses.clear()
        await world.client.patch(STATEFUL_SETS, WEB, {"spec": {"replicas": 1}})
        await until_ready(world, STATEFUL_SETS, 1)

    run_story(story, QUEUED, FLEET)


async def no_pods(world: World) -> bool:
    return not await pods_of(world)


def test_an_evicted_stateful_set_recreates_its_pods_and_waits() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await world.client.create(STATEFUL_SETS, a_set(2), NAMESPACE)
        await until_ready(world, STATEFUL_SETS, 2)
        workload = await world.until_condition("web", "Admitted")
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
        evicted = await world.until_condition("web", "QuotaReserved", "False")
        assert is_true(evicted.status.conditions, "Evicted")

        async def waits() -> bool:
            pods = await live_pods(world)
            return bool(pods) and all(map(is_gated, pods))

        await world.until("its pods wait again", waits)
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": True}})
        await until_ready(world, STATEFUL_SETS, 2)

    run_story(story, QUEUED, FLEET)


def test_each_serving_kind_has_an_integration_name() -> None:
    assert set(SETS) == {"deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"}


SERVE = Key(NAMESPACE, "serve")
LWS = SETS["leaderworkerset.x-k8s.io/leaderworkerset"].resource


async def imitate(world: World, surge: int = 0) -> None:
    """Imitate the controller of LeaderWorkerSets: create the pods and scale the groups.

    ``surge``: the groups of a rolling update beyond the replicas.
    """
    found = await world.client.get(LWS, SERVE)
    templates = found.spec["leaderWorkerTemplate"]
    present = await pods_of(world)
    count = found.spec["replicas"] + surge
    for group in range(count):
        for worker in range(templates["size"]):
            name = f"serve-{group}-{worker}"
            if name in present:
                continue
            leader = worker == 0 and "leaderTemplate" in templates
            template = templates["leaderTemplate" if leader else "workerTemplate"]
            labels = {
                "leaderworkerset.sigs.k8s.io/name": "serve",
                "leaderworkerset.sigs.k8s.io/group-index": str(group),
                "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
            }
            own = template.get("metadata", {})
            metadata = {**own, "name": name, "labels": own.get("labels", {}) | labels}
            await world.client.create(
                PLACEABLE_PODS, {"metadata": metadata, "spec": template["spec"]}, NAMESPACE
            )
    status = {"observedGeneration": found.metadata.generation, "replicas": count}
    await world.client.patch(LWS, SERVE, {"status": status}, subresource="status")


async def until_woken(world: World, replicas: int) -> None:
    async def find() -> bool:
        found = await world.client.get(LWS, SERVE)
        return bool(
            found.spec["replicas"] == replicas and REPLICAS_BEFORE_GATING not in found.metadata.annotations
        )

    await world.until(f"{replicas} replicas are wanted", find)


async def groups(world: World) -> dict[str, list[tuple[str, int]]]:
    """Return the pod sets of each workload by the index of its group."""
    return {
        each.metadata.annotations[constants.COMPONENT_INDEX]: [
            (it.name, it.count) for it in each.spec.pod_sets
        ]
        for each in (await world.client.list(WORKLOADS, NAMESPACE)).items
        if each.metadata.deletion_timestamp is None
    }


ONLY_LWS = Configuration(integrations=Integrations(frameworks=("leaderworkerset.x-k8s.io/leaderworkerset",)))


def pod_template() -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}


async def create_set(world: World, templates: Json, taken: int | None = None, **spec: Any) -> None:
    """Create a LeaderWorkerSet of two groups of two pods and wait until its pods are gated.

    ``taken``: the group of which another workload has the name.
    """
    body = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, **templates}, **spec}
    metadata = {"name": "serve", "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
    await world.client.create(LWS, {"metadata": metadata, "spec": body}, NAMESPACE)

    async def is_on_hold() -> bool:
        found = await world.client.get(LWS, SERVE)
        return REPLICAS_BEFORE_GATING in found.metadata.annotations

    await world.until("the set is on hold", is_on_hold)
    if taken is not None:
        serving = SETS["leaderworkerset.x-k8s.io/leaderworkerset"].serving
        assert serving is not None
        found = await world.client.get(LWS, SERVE)
        two = structs.replace(found, spec={**found.spec, "replicas": 2})
        name = serving.groups(two, ONLY_LWS.gates.short_workload_names)[taken].workload
        pods = {"name": "main", "count": 1, "template": pod_template()}
        await world.create(WORKLOADS, name, NAMESPACE, spec={"queueName": "none", "podSets": [pods]})
    await imitate(world)
    await until_woken(world, 2)


async def create_groups(world: World, templates: Json, taken: int | None = None, **spec: Any) -> None:
    await install_definitions(world.client, [definition(LWS)])
    await world.start_queueing(ONLY_LWS)
    await create_set(world, templates, taken, **spec)


def test_each_group_of_a_leader_worker_set_is_admitted_separately() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await create_groups(world, {"leaderTemplate": pod_template(), "workerTemplate": pod_template()})
        both = [("leader", 1), ("worker", 1)]
        await world.until("workloads", lambda: equals(groups(world), {"0": both, "1": both}))
        await imitate(world)
        await world.until("one group runs", lambda: gated_are(world, 2))
        started = {name for name, each in (await pods_of(world)).items() if not is_gated(each)}
        assert len({name.split("-")[1] for name in started}) == 1, "all pods of the group start"
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), more_cpu("4"))
        await world.until("both groups run", lambda: gated_are(world, 0))
        await world.client.patch(LWS, SERVE, {"spec": {"replicas": 1}})
        await imitate(world)
        await world.until("one workload", lambda: equals(groups(world), {"0": both}))

    run_story(story, None, FLEET)


async def shrink(world: World) -> None:
    """Imitate the controller of LeaderWorkerSets: delete the pods of the groups beyond the replicas."""
    replicas = (await world.client.get(LWS, SERVE)).spec["replicas"]

    async def are_gone() -> bool:
        surplus = [name for name in await pods_of(world) if int(name.split("-")[1]) >= replicas]
        for name in surplus:
            with suppress(NotFound):
                await world.client.delete(PLACEABLE_PODS, Key(NAMESPACE, name))
        return not surplus

    await world.until("surplus pods are gone", are_gone)
    await imitate(world)


def test_a_leader_worker_set_that_is_stopped_and_scaled_to_0_at_once_comes_back_with_any_size() -> None:
    async def story(world: World) -> None:
        async def are_used(cpu: str) -> bool:
            status = (await world.client.get(CLUSTER_QUEUES, Key("", "research"))).status
            return [
                str(each.total) for flavor in status.flavors_reservation for each in flavor.resources
            ] == [cpu]

        async def all_run() -> bool:
            await imitate(world)
            pods = (await pods_of(world)).values()
            return len(pods) == 6 and not any(map(is_gated, pods))

        async def its_pods_wait() -> bool:
            await imitate(world)
            return await gated_are(world, 2)

        await world.queues("6")
        await create_groups(world, {"leaderTemplate": pod_template(), "workerTemplate": pod_template()})
        await imitate(world)
        await world.until("both groups run", lambda: gated_are(world, 0))
        await world.client.patch(
            CLUSTER_QUEUES, Key("", "research"), {"spec": {"stopPolicy": "HoldAndDrain"}}
        )
        await world.client.patch(LWS, SERVE, {"spec": {"replicas": 0}})
        await shrink(world)
        await world.until("no cpu is used", lambda: are_used("0"))
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": {"stopPolicy": "None"}})
        await world.client.patch(LWS, SERVE, {"spec": {"replicas": 3}})
        await world.until("all groups run", all_run)
        await world.until("6 cpus are used", lambda: are_used("6"))
        # An evicted group gets pods that wait.
        (evicted, *_) = (await world.client.list(WORKLOADS, NAMESPACE)).items
        await world.client.patch(WORKLOADS, evicted.metadata.key, {"spec": {"active": False}})
        await world.until("its quota is free", lambda: are_used("4"))
        await world.until("its pods wait", its_pods_wait)
        await world.client.patch(WORKLOADS, evicted.metadata.key, {"spec": {"active": True}})
        await world.until("all groups run again", all_run)

    run_story(story, None, FLEET)


def test_a_group_that_cannot_get_its_workload_does_not_delay_the_others() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await create_groups(world, {"workerTemplate": pod_template()}, taken=0)
        await imitate(world)
        note = await until_event(world, "WorkloadNameConflict", "serve")
        assert re.fullmatch(
            r'A Workload named "leaderworkerset-serve-0-\w+" already exists and belongs to another object',
            note,
        )
        await world.until("the other group runs", lambda: gated_are(world, 2))
        started = {name for name, each in (await pods_of(world)).items() if not is_gated(each)}
        assert started == {"serve-1-0", "serve-1-1"}

    run_story(story, None, FLEET)


@pytest.mark.parametrize("surge", ["50%", 1])
def test_the_surge_group_of_a_rolling_update_waits_for_quota_of_its_own(surge: str | int) -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        rolling = {"maxSurge": surge, "maxUnavailable": 0}
        strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": rolling}
        await create_groups(world, {"workerTemplate": pod_template()}, rolloutStrategy=strategy)
        group = [("main", 2)]
        await imitate(world)
        await world.until("both groups run", lambda: gated_are(world, 0))
        await imitate(world, surge=1)
        await world.until("workloads", lambda: equals(groups(world), dict.fromkeys("012", group)))
        await until_waiting(world, "2")
        assert await gated_are(world, 2)
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), more_cpu("6"))
        await world.until("all groups run", lambda: gated_are(world, 0))
        for worker in "01":
            await world.client.delete(PLACEABLE_PODS, Key(NAMESPACE, f"serve-2-{worker}"))
        await imitate(world)
        await world.until("two workloads", lambda: equals(groups(world), {"0": group, "1": group}))

    run_story(story, None, FLEET)


async def until_waiting(world: World, index: str) -> None:
    """Wait until the workload of one group was tried without success."""

    async def find() -> bool:
        found = (await world.client.list(WORKLOADS, NAMESPACE)).items
        (group,) = [each for each in found if each.metadata.annotations[constants.COMPONENT_INDEX] == index]
        reserved = find_condition(group.status.conditions, "QuotaReserved")
        return reserved is not None and "insufficient unused quota" in reserved.message

    await world.until(f"group {index} waits for quota", find)


ALL_SETS = Integrations(frameworks=("leaderworkerset.x-k8s.io/leaderworkerset", "statefulset", "pod"))


async def create(
    world: World, resource: Resource[Any], name: str, labels: Json, spec: Json, *owners: Json
) -> ObjectMeta:
    metadata = {"name": name, "labels": labels, "ownerReferences": owners}
    return metadata_of(await world.client.create(resource, {"metadata": metadata, "spec": spec}, NAMESPACE))


def owned_by(resource: Resource[Any], owner: ObjectMeta) -> Json:
    named = {"apiVersion": resource.api_version, "kind": resource.kind, "name": owner.name}
    return {**named, "uid": owner.uid, "controller": True}


@pytest.mark.parametrize("stamped", [True, False])
def test_the_workers_of_a_leader_worker_set_are_counted_once(stamped: bool) -> None:
    """The operator makes a StatefulSet of leaders, and one of workers for each leader, with all labels."""

    async def story(world: World) -> None:
        await install_definitions(world.client, [definition(LWS)])
        await world.start_queueing(Configuration(integrations=ALL_SETS))
        await world.queues("8")
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        made = labels | {"leaderworkerset.sigs.k8s.io/name": "serve"}
        sets = a_set(0)["spec"]
        stamp = {constants.SUSPENDING_PARENT: ALL_SETS.frameworks[0]} if stamped else {}
        template = {**sets["template"], "metadata": {"labels": {"app": "web"}, "annotations": stamp}}
        sets = {**sets, "template": template}
        spec = {"replicas": 0, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
        top = await create(world, LWS, "serve", labels, spec)
        leaders = await create(world, STATEFUL_SETS, "serve", made, sets, owned_by(LWS, top))
        leader = await create(
            world, PLACEABLE_PODS, "serve-0", made, template["spec"], owned_by(STATEFUL_SETS, leaders)
        )
        await create(
            world, STATEFUL_SETS, "serve-0", made, {**sets, "replicas": 1}, owned_by(PLACEABLE_PODS, leader)
        )
        await create(world, STATEFUL_SETS, WEB.name, labels, a_set(1)["spec"])
        await until_ready(world, STATEFUL_SETS, 1)
        controllers = [each.metadata.job_owner for each in (await world.client.list(WORKLOADS)).items]
        assert [each.name for each in controllers if each is not None] == [WEB.name]

    run_story(story, None, FLEET)


async def equals(found: Awaitable[T], wanted: T) -> bool:
    return await found == wanted


async def gated_are(world: World, count: int) -> bool:
    return sum(map(is_gated, (await pods_of(world)).values())) == count

"""The built-in controllers and simulated nodes with the local API server, over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import NAMESPACES, untyped
from quorate.local.controllers.namespace import NAMESPACES as TERMINATING
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import CONFIG_MAPS, JOBS, PODS, LocalCluster, local_cluster

pytestmark = pytest.mark.slow

DEFINITIONS = untyped(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
TWO_SMALL = NodePool(count=2, cpu="4", memory="1000Mi")


def run_scenario(
    story: Callable[[LocalCluster], Awaitable[None]], fleet: NodePool | None = None, speed: float = 10.0
) -> None:
    async def run() -> None:
        async with local_cluster(fleet, speed) as local:
            await story(local)

    asyncio.run(run())


def test_a_job_runs_to_completion_on_simulated_nodes() -> None:
    async def story(local: LocalCluster) -> None:
        await local.run_job("j", pods=6)
        status = await local.until_finished("j")
        assert (status["succeeded"], status["ready"], status["terminating"]) == (6, 0, 0)
        pods = await local.pods("j")
        assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 6
        assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1", "node-2"}
        assert len({pod["status"]["podIP"] for pod in pods}) == 6
        assert not any(pod["metadata"].get("finalizers") for pod in pods)

    run_scenario(story, TWO_SMALL)


def test_a_failing_job_is_retried_until_its_limit() -> None:
    async def story(local: LocalCluster) -> None:
        await local.run_job("j", pods=1, script={"exit-code": "3"}, backoffLimit=0)
        status = await local.until_finished("j", "Failed")
        assert status["failed"] == 1
        assert [each["reason"] for each in status["conditions"]] == ["BackoffLimitExceeded"] * 2

    run_scenario(story, TWO_SMALL)


def test_the_pods_of_two_jobs_started_together_interleave() -> None:
    async def story(local: LocalCluster) -> None:
        await asyncio.gather(*(local.run_job(name, pods=20) for name in ("one", "two")))
        pods = await local.until("all pods", lambda: _all_there(local, 40))
        pods.sort(key=lambda pod: int(pod["metadata"]["resourceVersion"]))
        jobs = [pod["metadata"]["labels"]["job-name"] for pod in pods]
        assert set(jobs[:20]) == {"one", "two"}, f"one after the other: {jobs}"

    run_scenario(story)


async def _all_there(local: LocalCluster, count: int) -> list[dict[str, Any]] | None:
    pods = await local.pods()
    return pods if len(pods) == count else None


def test_two_gangs_that_fit_one_at_a_time_deadlock() -> None:
    """The deadlock arises by itself: pods are bound one by one, in order of creation."""
    script = {"together": "4", "duration": "1s"}

    async def story(local: LocalCluster) -> None:
        await asyncio.gather(
            *(local.run_job(name, pods=4, script=script, requests={"memory": "400Mi"}) for name in ("a", "b"))
        )

        async def full() -> bool:
            return await local.phases() == ["Pending"] * 4 + ["Running"] * 4

        await local.until("the nodes are full", full)
        running = [pod for pod in await local.pods() if pod["status"]["phase"] == "Running"]
        for pod in running:
            (waiting,) = (
                each
                for each in pod["status"]["conditions"]
                if each["type"] == "simulate.quorate.dev/Progressing"
            )
            assert (waiting["status"], waiting["reason"]) == ("False", "WaitingForPeers")

        async def is_reported() -> bool:
            unbound = [pod for pod in await local.pods() if pod["status"]["phase"] == "Pending"]
            return all(
                _said_of_nodes(pod) == "0/2 nodes are available: 2 Insufficient memory" for pod in unbound
            )

        await local.until("pending pods have a reason", is_reported)
        loser = running[0]["metadata"]["labels"]["job-name"]
        winner = "b" if loser == "a" else "a"
        await local.patch_job(loser, {"suspend": True})
        await local.until_finished(winner)
        await local.patch_job(loser, {"suspend": False})
        await local.until_finished(loser)

    run_scenario(story, TWO_SMALL)


def _said_of_nodes(pod: dict[str, Any]) -> str:
    conditions = pod["status"].get("conditions", ())
    return "".join(each["message"] for each in conditions if each["type"] == "PodScheduled")


def test_suspending_deletes_the_pods_and_resuming_creates_them() -> None:
    async def story(local: LocalCluster) -> None:
        await local.run_job("j", pods=3, script={"duration": "forever"})
        await local.until("running", lambda: _phases_are(local, ["Running"] * 3))
        await local.patch_job("j", {"suspend": True})
        await local.until("no pods", lambda: _phases_are(local, []))
        await local.patch_job("j", {"suspend": False})
        await local.until("running again", lambda: _phases_are(local, ["Running"] * 3))
        assert "failed" not in (await local.job("j"))["status"]

    run_scenario(story, TWO_SMALL)


async def _phases_are(local: LocalCluster, want: list[str]) -> bool:
    return await local.phases() == want


def test_restarted_nodes_continue_with_their_pods() -> None:
    async def story(local: LocalCluster) -> None:
        await local.run_job("j", pods=2, script={"duration": "20s"})
        await local.until("running", lambda: _phases_are(local, ["Running"] * 2))
        await local.stop_nodes()
        local.start_nodes(TWO_SMALL)
        await local.until_finished("j")
        (pod, _) = await local.pods()
        (container,) = pod["status"]["containerStatuses"]
        assert container["restartCount"] == 0

    run_scenario(story, TWO_SMALL)


def test_a_pod_on_a_foreign_node_is_ignored() -> None:
    async def story(local: LocalCluster) -> None:
        spec = {"nodeName": "elsewhere", "containers": [{"name": "main", "image": "busybox"}]}
        await local.client.create(PODS, {"metadata": {"name": "foreign"}, "spec": spec}, "default")
        await local.run_job("j", pods=1)
        await local.until_finished("j")
        foreign = await local.client.get(PODS, Key("default", "foreign"))
        assert foreign["status"]["phase"] == "Pending"
        assert "startTime" not in foreign["status"]

    run_scenario(story, TWO_SMALL)


def test_an_idle_cluster_writes_nothing() -> None:
    async def story(local: LocalCluster) -> None:
        await local.run_job("done", pods=2)
        await local.until_finished("done")
        await local.run_job("busy", pods=2, script={"duration": "forever"})
        await local.run_job("stuck", pods=1, requests={"memory": "2Gi"})

        async def settled() -> bool:
            before = await _version(local)
            await asyncio.sleep(0.5)  # sleeps: that nothing is written shows only over a time
            return await _version(local) == before

        await local.until("nothing is written for half a second", settled)

    run_scenario(story, TWO_SMALL)


async def _version(local: LocalCluster) -> str:
    return (await local.client.list(CONFIG_MAPS)).resource_version


@pytest.mark.parametrize(("propagation", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 2)])
def test_deleting_a_job(propagation: str, left: int) -> None:
    async def story(local: LocalCluster) -> None:
        await local.run_job("j", pods=2, script={"duration": "forever"})
        await local.until("running", lambda: _phases_are(local, ["Running"] * 2))
        await local.client.delete(JOBS, Key("default", "j"), propagation=propagation)
        await local.until("the job is gone", lambda: local.gone(JOBS, "j"))
        await local.until("its pods run", lambda: _phases_are(local, ["Running"] * left))
        for pod in await local.pods():
            assert "ownerReferences" not in pod["metadata"]

    run_scenario(story, TWO_SMALL)


def test_dependents_of_a_custom_resource_are_deleted_with_it() -> None:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    widgets = untyped("example.com", "v1", "widgets", "Widget", True)

    async def story(local: LocalCluster) -> None:
        await local.client.create(DEFINITIONS, definition)

        async def served() -> bool:
            return b'"example.com"' in await local.client.request("GET", "/apis")

        await local.until("the kind is served", served)
        owner = await local.client.create(widgets, {"metadata": {"name": "w"}}, "default")
        reference = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "w",
            "uid": owner["metadata"]["uid"],
        }
        owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        await local.client.create(CONFIG_MAPS, owned, "default")
        await local.client.delete(widgets, Key("default", "w"), propagation="Background")
        await local.until("what it owned is gone", lambda: local.gone(CONFIG_MAPS, "owned"))

    run_scenario(story)


def test_an_owner_is_what_all_of_a_reference_names() -> None:
    async def story(local: LocalCluster) -> None:
        await local.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        owner = await local.client.create(CONFIG_MAPS, {"metadata": {"name": "own"}}, "default")

        async def depend(name: str, namespace: str = "default", /, **fields: str) -> None:
            reference = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "own",
                "uid": owner["metadata"]["uid"],
            }
            body = {"metadata": {"name": name, "ownerReferences": [reference | fields]}}
            await local.client.create(CONFIG_MAPS, body, namespace)

        await depend("unknown-kind", apiVersion="example.com/v1", kind="Absent")
        await depend("owned")
        await depend("other-kind", kind="Secret")
        await depend("other-name", name="elsewhere")
        await depend("other-namespace", "other")
        await local.until("no owner of this kind", lambda: local.gone(CONFIG_MAPS, "other-kind"))
        await local.until("no owner of this name", lambda: local.gone(CONFIG_MAPS, "other-name"))
        await local.until("no owner there", lambda: local.gone(CONFIG_MAPS, "other-namespace", "other"))
        assert not await local.gone(CONFIG_MAPS, "owned")
        await local.client.delete(CONFIG_MAPS, Key("default", "own"), propagation="Foreground")
        await local.until("the owner is gone", lambda: local.gone(CONFIG_MAPS, "own"))
        assert await local.gone(CONFIG_MAPS, "owned")
        assert not await local.gone(CONFIG_MAPS, "unknown-kind")

    run_scenario(story)


def test_a_namespace_is_deleted_with_its_contents() -> None:
    async def story(local: LocalCluster) -> None:
        await local.client.create(NAMESPACES, {"metadata": {"name": "short"}})
        await local.client.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "short")
        await local.client.delete(NAMESPACES, Key("", "short"))
        await local.until("the namespace is gone", lambda: local.gone(NAMESPACES, "short", ""))
        assert not (await local.client.list(CONFIG_MAPS, "short")).items

    run_scenario(story)


def test_a_namespace_says_which_finalizers_keep_it() -> None:
    async def story(local: LocalCluster) -> None:
        await local.client.create(NAMESPACES, {"metadata": {"name": "kept"}})
        held = {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}}
        await local.client.create(CONFIG_MAPS, held, "kept")
        await local.client.delete(NAMESPACES, Key("", "kept"))

        async def messages() -> dict[str, str]:
            conditions = (await local.client.get(TERMINATING, Key("", "kept"))).status.conditions
            return {each.type: each.message for each in conditions if each.status == "True"}

        async def is_reported() -> bool:
            return await messages() == {
                "NamespaceContentRemaining": "Some resources are remaining: "
                "configmaps. has 1 resource instances",
                "NamespaceFinalizersRemaining": "Some content in the namespace has finalizers remaining: "
                "example.com/hold in 1 resource instances",
            }

        await local.until("the namespace says what keeps it", is_reported)
        release = {"metadata": {"finalizers": None}}
        await local.client.patch(CONFIG_MAPS, Key("kept", "c"), release)
        await local.until("the namespace is gone", lambda: local.gone(NAMESPACES, "kept", ""))

    run_scenario(story)


def test_the_pods_of_a_namespace_are_deleted_before_its_other_contents() -> None:
    async def story(local: LocalCluster) -> None:
        await local.client.create(NAMESPACES, {"metadata": {"name": "kept"}})
        await local.client.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "kept")
        pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
        held = {"metadata": {"name": "p", "finalizers": ["example.com/hold"]}, **pod}
        await local.client.create(PODS, held, "kept")
        await local.client.delete(NAMESPACES, Key("", "kept"))

        async def is_terminating() -> bool:
            found = await local.client.get(PODS, Key("kept", "p"))
            return "deletionTimestamp" in found["metadata"]

        await local.until("the pod is deleted", is_terminating)
        assert not await local.gone(CONFIG_MAPS, "c", "kept")
        await local.client.patch(PODS, Key("kept", "p"), {"metadata": {"finalizers": None}})
        await local.until("the namespace is gone", lambda: local.gone(NAMESPACES, "kept", ""))

    run_scenario(story)


def test_a_finished_job_is_deleted_after_its_ttl() -> None:
    async def story(local: LocalCluster) -> None:
        await local.run_job("j", pods=1, ttlSecondsAfterFinished=1)
        await local.until_finished("j")
        await local.until("the job is gone", lambda: local.gone(JOBS, "j"))
        await local.until("and its pods", lambda: _phases_are(local, []))

    run_scenario(story, TWO_SMALL)


def test_every_namespace_keeps_a_config_map_with_the_authority_of_the_server() -> None:
    async def run() -> None:
        async with local_cluster(authority=b"certificate") as local:
            await local.client.create(NAMESPACES, {"metadata": {"name": "later"}})
            for namespace in ("default", "later"):
                key = Key(namespace, "kube-root-ca.crt")

                async def published(key: Key = key) -> bool:
                    maps = (await local.client.list(CONFIG_MAPS, key.namespace)).items
                    return [(each["metadata"]["name"], each["data"]) for each in maps] == [
                        (key.name, {"ca.crt": "certificate"})
                    ]

                await local.until(f"published in {namespace}", published)
                await local.client.patch(CONFIG_MAPS, key, {"data": {"ca.crt": None, "other": "x"}})
                await local.until("restored", published)
                await local.client.delete(CONFIG_MAPS, key)
                await local.until("created again", published)

    asyncio.run(run())

"""The revisions that `kubectl rollout history` lists and `kubectl rollout undo` applies."""

import asyncio

import pytest

from quorate.api.meta import Key
from quorate.kube.client import PatchKind
from quorate.kube.resources import Json, untyped
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import LocalCluster, local_cluster

pytestmark = pytest.mark.slow
PODS = untyped("", "v1", "pods", "Pod", True)
REVISIONS = untyped("apps", "v1", "controllerrevisions", "ControllerRevision", True)
KINDS = {
    "daemonsets": untyped("apps", "v1", "daemonsets", "DaemonSet", True),
    "statefulsets": untyped("apps", "v1", "statefulsets", "StatefulSet", True),
}


async def revisions(cluster: LocalCluster) -> list[Json]:
    listed = (await cluster.client.list(REVISIONS, "default")).items
    return sorted((dict(each) for each in listed), key=lambda each: int(each["revision"]))


def image_of(revision: Json) -> str:
    (container,) = revision["data"]["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


async def story(cluster: LocalCluster, plural: str) -> None:
    kind, key = KINDS[plural], Key("default", "web")

    async def until_images(*wanted: str) -> list[Json]:
        async def find() -> list[Json] | None:
            found = await revisions(cluster)
            return found if [image_of(each) for each in found] == list(wanted) else None

        return await cluster.until(f"revisions {wanted}", find)

    async def set_image(image: str) -> None:
        containers = [{"name": "c", "image": image}]
        change = {"spec": {"template": {"spec": {"containers": containers}}}}
        await cluster.client.patch(kind, key, change, kind=PatchKind.STRATEGIC)

    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"simulate.quorate.dev/start-delay": "10ms"}},
        "spec": {"containers": [{"name": "c", "image": "one"}], "terminationGracePeriodSeconds": 0},
    }
    more = {"serviceName": "web"} if plural == "statefulsets" else {}
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "revisionHistoryLimit": 1,
        "template": template,
        **more,
    }
    await cluster.client.create(kind, {"metadata": {"name": "web"}, "spec": spec}, "default")
    await until_images("one")
    await set_image("two")
    first, second = await until_images("one", "two")
    assert first["data"]["spec"]["template"]["$patch"] == "replace"
    stored = first["data"]["spec"]["template"]["spec"]["containers"][0]
    assert list(stored) == sorted(stored), "clients compare the text"
    assert second["metadata"]["ownerReferences"][0]["kind"] == kind.kind
    assert (first["revision"], second["revision"]) == (1, 2)
    # What kubectl rollout undo sends:
    await cluster.client.patch(kind, key, first["data"], kind=PatchKind.STRATEGIC)
    again = await until_images("two", "one")
    assert again[1]["revision"] == 3
    await set_image("three")
    await until_images("one", "three")
    if plural == "statefulsets":  # a negative limit keeps all revisions
        await cluster.client.patch(kind, key, {"spec": {"revisionHistoryLimit": -1}})
        await set_image("four")
        await until_images("one", "three", "four")


def test_pods_below_the_partition_keep_their_revision_without_a_history() -> None:
    asyncio.run(partitioned_story())


async def partitioned_story() -> None:
    kind, pod = KINDS["statefulsets"], Key("default", "web-0")
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"simulate.quorate.dev/start-delay": "10ms"}},
        "spec": {"containers": [{"name": "c", "image": "one"}], "terminationGracePeriodSeconds": 0},
    }
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "serviceName": "web",
        "revisionHistoryLimit": 0,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
        "template": template,
    }
    async with local_cluster(NodePool(1), speed=50.0) as cluster:

        async def uid_of_ready() -> str | None:
            found = await cluster.client.find(PODS, pod)
            conditions = found["status"].get("conditions", ()) if found is not None else ()
            is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            return str(found["metadata"]["uid"]) if found is not None and is_ready else None

        async def updated() -> bool | None:
            status = (await cluster.client.get(kind, Key("default", "web")))["status"]
            return status["updateRevision"] != status["currentRevision"] or None

        await cluster.client.create(kind, {"metadata": {"name": "web"}, "spec": spec}, "default")
        first = await cluster.until("the pod is ready", uid_of_ready)
        change = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
        await cluster.client.patch(kind, Key("default", "web"), change)
        await cluster.until("there is another revision", updated)
        await cluster.client.delete(PODS, pod)

        async def replaced() -> Json | None:
            found = await cluster.client.find(PODS, pod)
            return dict(found) if found is not None and found["metadata"]["uid"] != first else None

        again = await cluster.until("the pod is there again", replaced)
        assert "v" not in again["metadata"]["annotations"]
        assert len(await revisions(cluster)) == 2


@pytest.mark.parametrize("plural", KINDS)
def test_each_template_is_a_revision_and_old_ones_are_deleted(plural: str) -> None:
    async def run() -> None:
        async with local_cluster(NodePool(1), speed=50.0) as cluster:
            await story(cluster, plural)

    asyncio.run(run())

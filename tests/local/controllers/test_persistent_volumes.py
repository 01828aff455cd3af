"""PersistentVolumes and claims on the local cluster: binding, provisioning and reclaim."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import Json, untyped
from tests.local.controllers.running_cluster import LocalCluster, local_cluster

pytestmark = pytest.mark.slow

CLAIMS = untyped("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
VOLUMES = untyped("", "v1", "persistentvolumes", "PersistentVolume", False)
EVENTS = untyped("", "v1", "events", "Event", True)
CLASSES = untyped("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)


def a_claim(name: str, size: str = "1Gi", **spec: Any) -> Json:
    resources = {"requests": {"storage": size}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }


def a_volume(name: str, size: str = "1Gi", **spec: Any) -> Json:
    source = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    return {"metadata": {"name": name}, "spec": {**source, **spec}}


class Storage:
    """Claims in namespace ``default``, and volumes."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.client = cluster.client

    async def claim(self, name: str, size: str = "1Gi", **spec: Any) -> None:
        await self.client.create(CLAIMS, a_claim(name, size, **spec), "default")

    async def volume(self, name: str, size: str = "1Gi", **spec: Any) -> None:
        await self.client.create(VOLUMES, a_volume(name, size, **spec))

    async def bindings(self) -> dict[str, str]:
        claims = (await self.client.list(CLAIMS, "default")).items
        return {
            claim["metadata"]["name"]: claim["spec"]["volumeName"]
            for claim in claims
            if claim["status"]["phase"] == "Bound"
        }

    async def phases(self) -> dict[str, str]:
        volumes = (await self.client.list(VOLUMES)).items
        return {volume["metadata"]["name"]: volume["status"]["phase"] for volume in volumes}

    async def events(self) -> dict[str, tuple[str, str]]:
        events = (await self.client.list(EVENTS, "default")).items
        return {event["involvedObject"]["name"]: (event["type"], event["reason"]) for event in events}

    async def until(self, read: Callable[[], Awaitable[object]], wanted: object) -> None:
        async def is_so() -> bool:
            return bool(await read() == wanted)

        await self._cluster.until(str(wanted), is_so)


def tell(story: Callable[[LocalCluster, Storage], Awaitable[None]], volumes: Path | None = None) -> None:
    async def run() -> None:
        async with local_cluster(volumes=volumes) as cluster:
            await story(cluster, Storage(cluster))

    asyncio.run(run())


def test_a_claim_binds_to_the_smallest_volume_that_satisfies_it() -> None:
    async def story(cluster: LocalCluster, storage: Storage) -> None:
        await storage.volume("large", "10Gi")
        await storage.volume("small", "2Gi")
        await storage.volume("tiny", "1Mi")
        await storage.volume("other", "2Gi", storageClassName="fast")
        await storage.claim("data", "1Gi", storageClassName="")
        await storage.until(storage.bindings, {"data": "small"})
        wanted = {"large": "Available", "small": "Bound", "tiny": "Available", "other": "Available"}
        await storage.until(storage.phases, wanted)
        claim = await cluster.client.get(CLAIMS, Key("default", "data"))
        assert claim["status"]["capacity"] == {"storage": "2Gi"}

        await cluster.client.delete(CLAIMS, Key("default", "data"))
        await storage.until(storage.phases, wanted | {"small": "Released"})
        await storage.claim("again", "1Gi", storageClassName="")
        await storage.until(storage.bindings, {"again": "large"})

        of_class = {"storageClassName": "slow", "volumeAttributesClassName": "gold"}
        csi = {"driver": "d.example.com", "volumeHandle": "v"}
        await storage.volume("modified", "3Gi", hostPath=None, csi=csi, **of_class)
        await storage.claim("gold", "3Gi", **of_class)
        await storage.until(storage.bindings, {"again": "large", "gold": "modified"})
        claim = await cluster.client.get(CLAIMS, Key("default", "gold"))
        assert claim["status"]["currentVolumeAttributesClassName"] == "gold"

    tell(story)


def test_a_claim_waits_for_a_volume_and_for_the_volume_that_it_names() -> None:
    async def story(cluster: LocalCluster, storage: Storage) -> None:
        await storage.claim("named", volumeName="mine", storageClassName="")
        await storage.claim("any", storageClassName="")
        await storage.volume("a")
        await storage.until(storage.bindings, {"any": "a"})
        reference = {"namespace": "default", "name": "named"}
        await storage.volume("mine", claimRef=reference)
        await storage.until(storage.bindings, {"any": "a", "named": "mine"})

    tell(story)


def test_volumes_of_the_default_class_are_directories(tmp_path: Path) -> None:
    async def story(cluster: LocalCluster, storage: Storage) -> None:

        async def has_default_class() -> bool:
            return bool((await cluster.client.list(CLASSES)).items)

        await cluster.until("there is a default class", has_default_class)
        await storage.claim("data")

        async def is_bound() -> bool:
            return bool(await storage.bindings())

        await cluster.until("the claim is bound", is_bound)
        name = (await storage.bindings())["data"]
        (tmp_path / name / "file").write_text("kept")
        await cluster.client.delete(CLAIMS, Key("default", "data"))
        await storage.until(storage.phases, {})
        assert not (tmp_path / name).exists(), "its class deletes what it provisioned"

    tell(story, tmp_path)


def test_a_claim_gets_a_default_class_that_is_created_after_it() -> None:
    async def story(cluster: LocalCluster, storage: Storage) -> None:
        await storage.claim("early")
        await storage.claim("without", storageClassName="")
        await storage.volume("fast", storageClassName="fast")
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        metadata = {"name": "fast", "annotations": annotations}
        await cluster.client.create(CLASSES, {"metadata": metadata, "provisioner": "example.com/none"})
        await storage.until(storage.bindings, {"early": "fast"})

    tell(story)


def test_a_claim_of_a_class_that_waits_is_bound_for_the_selected_node(tmp_path: Path) -> None:
    async def story(cluster: LocalCluster, storage: Storage) -> None:
        waiting = {"provisioner": "quorate.dev/directory", "volumeBindingMode": "WaitForFirstConsumer"}
        await cluster.client.create(CLASSES, {"metadata": {"name": "late"}, **waiting})
        await storage.claim("first", storageClassName="late")
        await storage.claim("second", storageClassName="late")
        selected = {"volume.kubernetes.io/selected-node": "node-1"}
        patch = {"metadata": {"annotations": selected}}
        await cluster.client.patch(CLAIMS, Key("default", "second"), patch)

        async def is_bound() -> bool:
            return list(await storage.bindings()) == ["second"]

        await cluster.until("the second claim is bound", is_bound)

    tell(story, tmp_path)


def test_an_event_says_why_a_claim_is_not_bound() -> None:
    async def story(cluster: LocalCluster, storage: Storage) -> None:
        for name, mode in (("late", "WaitForFirstConsumer"), ("external", "Immediate")):
            class_ = {"provisioner": "example.com/disks", "volumeBindingMode": mode}
            await cluster.client.create(CLASSES, {"metadata": {"name": name}, **class_})
        await storage.claim("unset", storageClassName="")
        await storage.claim("no-default")
        await storage.claim("unknown", storageClassName="none")
        await storage.claim("waiting", storageClassName="late")
        await storage.claim("provisioned", storageClassName="external")
        wanted = {
            "unset": ("Normal", "FailedBinding"),
            "no-default": ("Normal", "FailedBinding"),
            "unknown": ("Warning", "ProvisioningFailed"),
            "waiting": ("Normal", "WaitForFirstConsumer"),
            "provisioned": ("Normal", "ExternalProvisioning"),
        }
        await storage.until(storage.events, wanted)

    tell(story)

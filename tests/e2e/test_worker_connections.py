"""The connections of a MultiKueue manager to worker clusters, over HTTP."""

import asyncio
import base64
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import AccessPlugin, MultiKueue, MultiKueueGates
from quorate.api.kueue.multikueue import PROFILE_GROUP
from quorate.api.meta import Key
from quorate.controllers.jobs.unstructured import unstructured_resource
from quorate.controllers.multikueue.connection import connection
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_PROFILES,
    KUBECONFIG_SECRETS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
)
from quorate.observe.queueing_metrics import metrics
from quorate.processes.local.apply import install_definitions
from tests.e2e.minimal_definitions import definition
from tests.e2e.test_two_phases import event_note
from tests.e2e.worker_clusters import (
    CONTROLLERS,
    create_check,
    create_cluster,
    create_namespace,
    create_secret,
    forwarder,
    kubeconfig,
    until_active,
    worker_cluster,
)
from tests.e2e.world import World, run_story
from tests.kube.fake_server import Answer, FakeServer, Request, Stream, listing, refusal
from tests.local.clusters import TOKEN

pytestmark = pytest.mark.slow


async def replace_secret(world: World, name: str, content: str) -> None:
    data = {"kubeconfig": base64.b64encode(content.encode()).decode()}
    await world.client.patch(KUBECONFIG_SECRETS, Key(CONTROLLERS, name), {"data": data})


async def until_status(world: World, queue: str, cluster: str, status: str) -> None:
    """Wait until the metric multikueue_cluster_status of a worker cluster has this status."""
    labels = {"cluster_queue": queue, "cluster": cluster, "replica_role": "standalone"}

    async def find() -> bool:
        values = {
            active: world.replica.recorder.registry.get_sample_value(
                "multikueue_cluster_status", {**labels, "active": active}
            )
            for active in ("True", "False", "Unknown")
        }
        return values == {active: float(active == status) for active in values}

    await world.until(f"{cluster} of {queue} is {status}", find)


def test_a_check_follows_its_configuration_clusters_and_secrets() -> None:
    async def scenario(world: World) -> None:
        await create_namespace(world)
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "remote"}
        spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
        await world.create(ADMISSION_CHECKS, "remote", spec=spec)
        await until_active(
            world, ADMISSION_CHECKS, "remote", "False", "BadConfig",
            'Cannot load the AdmissionChecks parameters: MultiKueueConfig.kueue.x-k8s.io "remote" not found',
        )  # fmt: skip
        await world.create(MULTIKUEUE_CONFIGS, "remote", spec={"clusters": ["a", "b"]})
        await until_active(
            world, ADMISSION_CHECKS, "remote", "False", "NoUsableClusters", "Missing clusters: [a b]"
        )
        await create_cluster(world, "a")
        await until_active(
            world, MULTIKUEUE_CLUSTERS, "a", "False", "BadKubeConfig",
            'load client config failed: Secret "a" not found',
        )  # fmt: skip
        await until_active(
            world, ADMISSION_CHECKS, "remote", "False", "NoUsableClusters",
            "Missing clusters: [b], Inactive clusters: [a]",
        )  # fmt: skip
        async with worker_cluster() as worker:
            await create_secret(world, "a", kubeconfig(worker.url))
            active = await until_active(world, MULTIKUEUE_CLUSTERS, "a", "True", "Active", "Connected")
            assert active.observed_generation == 1
            await until_active(
                world, ADMISSION_CHECKS, "remote", "True", "SomeActiveClusters", "Missing clusters: [b]"
            )
            metrics(world.replica)
            rules = {"admissionChecks": [{"name": "remote"}]}
            await world.queues(cpu="2", admissionChecksStrategy=rules)
            await until_status(world, "research", "a", "True")
            await until_status(world, "research", "b", "Unknown")
            await create_cluster(world, "b", locationType="Secret", location="a")
            await until_active(
                world, ADMISSION_CHECKS, "remote", "True", "Active", "The admission check is active"
            )
            await until_status(world, "research", "b", "True")
            await world.client.delete(KUBECONFIG_SECRETS, Key(CONTROLLERS, "a"))
            await until_active(world, ADMISSION_CHECKS, "remote", "False", "NoUsableClusters")
            await until_status(world, "research", "b", "False")

    run_story(scenario, Configuration())


def test_a_lost_worker_is_connected_again() -> None:
    async def scenario(world: World) -> None:
        await create_namespace(world)
        async with AsyncExitStack() as stack, worker_cluster() as other:
            worker = await stack.enter_async_context(worker_cluster())
            port = int(worker.url.rpartition(":")[2])
            for name, url in (("a", worker.url), ("b", other.url)):
                await create_secret(world, name, kubeconfig(url))
                await create_cluster(world, name)
                await until_active(world, MULTIKUEUE_CLUSTERS, name, "True", "Active")
            await stack.aclose()
            lost = await until_active(world, MULTIKUEUE_CLUSTERS, "a", "False", "ClientConnectionFailed")
            assert f"no answer from {worker.url}" in lost.message
            assert "; connection attempts: 1, next connection attempt: 20" in lost.message
            await until_active(world, MULTIKUEUE_CLUSTERS, "b", "True", "Active")
            async with worker_cluster(port=port):
                await until_active(world, MULTIKUEUE_CLUSTERS, "a", "True", "Active", "Connected")

    run_story(scenario, Configuration())


def test_a_worker_that_hangs_without_breaking_its_connections_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "PROBE_S", 0.2)
    monkeypatch.setattr(connection, "REQUEST_S", 1.0)

    async def scenario(world: World) -> None:
        await create_namespace(world)
        async with worker_cluster() as worker, forwarder(worker.url) as (url, freeze):
            await create_secret(world, "a", kubeconfig(url))
            await create_cluster(world, "a")
            await until_active(world, MULTIKUEUE_CLUSTERS, "a", "True", "Active")
            freeze()
            lost = await until_active(world, MULTIKUEUE_CLUSTERS, "a", "False", "ClientConnectionFailed")
            assert "the deadline passed" in lost.message

    run_story(scenario, Configuration())


@pytest.mark.parametrize(
    ("code", "reason", "stays"), [(401, "Unauthorized", False), (403, "Forbidden", True)]
)
def test_a_worker_that_refuses_the_token_meanwhile_is_lost(
    monkeypatch: pytest.MonkeyPatch, code: int, reason: str, stays: bool
) -> None:
    monkeypatch.setattr(connection, "PROBE_S", 0.2)

    async def scenario(world: World) -> None:
        await create_namespace(world)
        hold = asyncio.Event()

        def script(request: Request) -> Answer | Stream:
            if request.path == "/livez":
                return Answer(code, refusal(code, reason))
            return Stream((), hold=hold) if "watch" in request.query else listing(1)

        async with FakeServer(script) as server:
            await create_secret(world, "a", kubeconfig(server.url))
            await create_cluster(world, "a")

            async def is_probed() -> bool:
                return [request.path for request in server.requests].count("/livez") >= (3 if stays else 1)

            await world.until("the worker is probed", is_probed)
            status, want = ("True", "Active") if stays else ("False", "ClientConnectionFailed")
            await until_active(world, MULTIKUEUE_CLUSTERS, "a", status, want)
            hold.set()

    run_story(scenario, Configuration())


def test_a_worker_that_refuses_watches_is_not_connected() -> None:
    async def scenario(world: World) -> None:
        await create_namespace(world)

        def script(request: Request) -> Answer:
            return Answer(403, refusal(403, "Forbidden")) if "watch" in request.query else listing(1)

        async with FakeServer(script) as server:
            await create_secret(world, "a", kubeconfig(server.url))
            await create_cluster(world, "a")
            message = "WATCH /apis/kueue.x-k8s.io/v1beta2/workloads: 403"
            refused = await until_active(
                world, MULTIKUEUE_CLUSTERS, "a", "False", "ClientConnectionFailed", message
            )
            assert "; connection attempts: 1, " in refused.message
            lists = [request for request in server.requests if "watch" not in request.query]
            assert len(lists) == 1

    run_story(scenario, Configuration())


MIB = b" " * 2**20
WITHOUT_END = Stream((MIB,) * 80)


@pytest.mark.parametrize(
    ("in_watch", "message"),
    [
        (False, "GET /apis/kueue.x-k8s.io/v1beta2/workloads: the answer cannot be read: more than 64 MiB"),
        (True, "WATCH /apis/kueue.x-k8s.io/v1beta2/workloads: the answer cannot be read: more than 16 MiB"),
    ],
)
def test_a_worker_that_sends_without_end_is_not_connected(in_watch: bool, message: str) -> None:
    async def scenario(world: World) -> None:
        await create_namespace(world)

        def script(request: Request) -> Answer | Stream:
            return WITHOUT_END if ("watch" in request.query) is in_watch else listing(1)

        async with FakeServer(script) as server, worker_cluster() as worker:
            for name, url in {"a": server.url, "b": worker.url}.items():
                await create_secret(world, name, kubeconfig(url))
                await create_cluster(world, name)
            await until_active(world, MULTIKUEUE_CLUSTERS, "a", "False", "ClientConnectionFailed", message)
            await until_active(world, MULTIKUEUE_CLUSTERS, "b", "True", "Active")

    run_story(scenario, Configuration())


def test_a_changed_secret_is_used_at_once() -> None:
    async def scenario(world: World) -> None:
        await create_namespace(world)
        async with worker_cluster() as worker:
            await create_secret(world, "a", kubeconfig(worker.url, {"token": "expired"}))
            await create_cluster(world, "a")
            refused = await until_active(world, MULTIKUEUE_CLUSTERS, "a", "False", "ClientConnectionFailed")
            assert "401 Unauthorized" in refused.message
            # The next attempt would come after 5 s.
            await replace_secret(world, "a", kubeconfig(worker.url))
            await until_active(world, MULTIKUEUE_CLUSTERS, "a", "True", "Active", within_s=4.0)
            await replace_secret(world, "a", kubeconfig(worker.url, {"tokenFile": "/var/run/token"}))
            await until_active(
                world, MULTIKUEUE_CLUSTERS, "a", "False", "InsecureKubeConfig",
                "load client config failed: tokenFile is not allowed",
            )  # fmt: skip

    run_story(scenario, Configuration())


def test_hostile_kubeconfigs_and_workers_that_hang_stop_no_other() -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scenario(world: World) -> None:
        await create_namespace(world)
        hanging = await asyncio.start_server(hang, "127.0.0.1", 0)
        port = hanging.sockets[0].getsockname()[1]
        hostile = {
            "nested": "[" * 100_000,
            "numbers": "1: 2",
            "proxy": kubeconfig("https://10.0.0.1", proxy="socks5://nowhere"),
            "authority": kubeconfig("https://127.0.0.1:1", authority="!!"),
            "slow": kubeconfig(f"http://127.0.0.1:{port}"),
        }
        async with hanging, worker_cluster() as worker:
            for name, content in hostile.items():
                await create_secret(world, name, content)
                await create_cluster(world, name)
            await create_secret(world, "good", kubeconfig(worker.url))
            await create_cluster(world, "good")
            await until_active(world, MULTIKUEUE_CLUSTERS, "good", "True", "Active", within_s=5.0)
            for name, reason in {
                "nested": "InsecureKubeConfig",
                "numbers": "InsecureKubeConfig",
                "proxy": "ClientConnectionFailed",
                "authority": "ClientConnectionFailed",
                "slow": "ClientConnectionFailed",
            }.items():
                await until_active(world, MULTIKUEUE_CLUSTERS, name, "False", reason)

    run_story(scenario, Configuration())


def test_a_kubeconfig_file_is_followed(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        file = tmp_path / "worker.kubeconfig"
        async with worker_cluster() as worker:
            await create_cluster(world, "a", locationType="Path", location=str(file))
            await until_active(
                world, MULTIKUEUE_CLUSTERS, "a", "False", "BadKubeConfig",
                f"load client config failed: open {file}: no such file or directory",
            )  # fmt: skip
            file.write_text(kubeconfig(worker.url))
            await until_active(world, MULTIKUEUE_CLUSTERS, "a", "True", "Active")
            note = await event_note(world, "MultiKueueCluster", "DeprecatedPathUsage")
            assert "MultiKueueKubeConfigPathValidation" in note

    gates = MultiKueueGates(validate_kubeconfig_path=False)
    run_story(scenario, Configuration(multikueue_gates=gates))


def test_a_path_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await create_cluster(world, "a", locationType="Path", location=str(tmp_path / "worker"))
        refused = await until_active(world, MULTIKUEUE_CLUSTERS, "a", "False", "BadKubeConfig")
        assert "kubeconfig path is not under the allowed prefix" in refused.message

    run_story(scenario, Configuration())


def test_the_check_of_a_deleted_cluster_is_inactive() -> None:
    async def scenario(world: World) -> None:
        await create_namespace(world)
        async with worker_cluster() as worker:
            await create_secret(world, "a", kubeconfig(worker.url))
            await create_cluster(world, "a")
            await create_check(world, "a")
            await until_active(world, ADMISSION_CHECKS, "remote", "True", "Active")
            await world.client.delete(MULTIKUEUE_CLUSTERS, Key("", "a"))
            await until_active(
                world, ADMISSION_CHECKS, "remote", "False", "NoUsableClusters", "Missing clusters: [a]"
            )

    run_story(scenario, Configuration())


PROFILES = unstructured_resource(PROFILE_GROUP, "v1alpha1", "clusterprofiles", "ClusterProfile")


def test_a_cluster_profile_is_reached_with_the_plugin_of_the_configuration(tmp_path: Path) -> None:
    plugin = tmp_path / "get-token"
    version = "client.authentication.k8s.io/v1"
    credential = {"kind": "ExecCredential", "apiVersion": version, "status": {"token": TOKEN}}
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    plugin.chmod(0o755)

    async def scenario(world: World) -> None:
        await create_namespace(world)
        reference = {"clusterSource": {"clusterProfileRef": {"name": "worker"}}}
        await world.create(MULTIKUEUE_CLUSTERS, "a", spec=reference)
        absent = 'load client config failed: ClusterProfile.multicluster.x-k8s.io "worker" not found'
        await until_active(world, MULTIKUEUE_CLUSTERS, "a", "False", "BadClusterProfile", absent)
        await install_definitions(world.client, [definition(PROFILES)])
        async with worker_cluster() as worker:
            await world.create(CLUSTER_PROFILES, "worker", CONTROLLERS)
            await until_active(
                world, MULTIKUEUE_CLUSTERS, "a", "False", "BadClusterProfile",
                "load client config failed: no matching cluster accessor found for cluster profile",
            )  # fmt: skip
            providers = [{"name": "cloud", "cluster": {"server": worker.url}}]
            key = Key(CONTROLLERS, "worker")
            await world.client.patch(
                CLUSTER_PROFILES, key, {"status": {"accessProviders": providers}}, subresource="status"
            )
            await until_active(world, MULTIKUEUE_CLUSTERS, "a", "True", "Active", "Connected")
            await world.client.delete(CLUSTER_PROFILES, key)
            await until_active(world, MULTIKUEUE_CLUSTERS, "a", "False", "BadClusterProfile", absent)

    cloud = AccessPlugin(name="cloud", exec={"command": str(plugin), "apiVersion": version})
    configuration = Configuration(
        multikueue=MultiKueue(access_plugins=(cloud,)), multikueue_gates=MultiKueueGates(cluster_profile=True)
    )
    run_story(scenario, configuration)


def test_without_its_gate_a_cluster_profile_is_not_read() -> None:
    async def scenario(world: World) -> None:
        reference = {"clusterSource": {"clusterProfileRef": {"name": "worker"}}}
        await world.create(MULTIKUEUE_CLUSTERS, "a", spec=reference)
        await until_active(
            world, MULTIKUEUE_CLUSTERS, "a", "False", "MultiKueueClusterProfileFeatureDisabled",
            "load client config failed: MultiKueueClusterProfile feature gate is disabled",
        )  # fmt: skip

    run_story(scenario, Configuration())

"""``kubernetes_asyncio``, the asynchronous form of the official client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.dynamic import DynamicClient

from tests.clients.programs.jobs import config_map, job

NAMESPACE = "default"
Story = Callable[[client.ApiClient], Awaitable[None]]


@asynccontextmanager
async def connected() -> AsyncIterator[client.ApiClient]:
    await config.load_kube_config()
    async with client.ApiClient() as connection:
        yield connection


def story(run: Story) -> Callable[[], None]:
    async def connect() -> None:
        async with connected() as connection:
            await run(connection)

    return lambda: asyncio.run(connect())


@story
async def a_queued_job_waits_runs_and_ends(connection: client.ApiClient) -> None:
    batch = client.BatchV1Api(connection)
    before = (await batch.list_namespaced_job(NAMESPACE)).metadata.resource_version
    await batch.create_namespaced_job(NAMESPACE, job("first", duration="3s"))
    states: list[str] = []
    second_exists = False
    async with watch.Watch() as events:
        async for event in events.stream(
            batch.list_namespaced_job,
            NAMESPACE,
            resource_version=before,
            timeout_seconds=60,
        ):
            current = event["object"]
            if current.metadata.name == "second":
                conditions = current.status.conditions or []
                states += [each.type for each in conditions if each.status == "True"]
            elif current.status.active and not second_exists:
                await batch.create_namespaced_job(NAMESPACE, job("second"))
                second_exists = True
            if "Complete" in states:
                break
    assert states.index("Suspended") < states.index("Complete")
    assert (await batch.read_namespaced_job("second", NAMESPACE)).status.succeeded == 1


@story
async def objects_are_created_changed_and_deleted(connection: client.ApiClient) -> None:
    core = client.CoreV1Api(connection)
    names = [f"map-{index}" for index in range(20)]
    await asyncio.gather(*[core.create_namespaced_config_map(NAMESPACE, config_map(name)) for name in names])
    listed = await core.list_namespaced_config_map(NAMESPACE, label_selector="app=client")
    assert [each.metadata.name for each in listed.items] == sorted(names)
    changed = await core.patch_namespaced_config_map("map-0", NAMESPACE, {"data": {"a": "1"}})
    assert changed.data == {"a": "1"}
    await core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="app=client")
    try:
        await core.read_namespaced_config_map("map-0", NAMESPACE)
    except ApiException as refusal:
        assert refusal.status == 404
    else:
        raise AssertionError("not deleted")


@story
async def the_dynamic_client_finds_custom_resources(connection: client.ApiClient) -> None:
    dynamic = await DynamicClient(connection)
    queues = await dynamic.resources.get(api_version="kueue.x-k8s.io/v1beta2", kind="LocalQueue")
    queue = await queues.get(name="research", namespace=NAMESPACE)
    assert queue.spec.clusterQueue == "research"
    body: dict[str, Any] = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "applied", "namespace": NAMESPACE},
        "spec": {"clusterQueue": "research"},
    }
    applied = await queues.server_side_apply(body=body, namespace=NAMESPACE, field_manager="client")
    assert applied.metadata.managedFields[0].manager == "client"

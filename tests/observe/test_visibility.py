"""Positions of pending workloads, which refer to the whole queue on every page."""

import asyncio
import random
from typing import Any

import aiohttp
import pytest

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.informer import Informer
from quorate.kube.resources import WORKLOADS
from quorate.kube.rest.config import RestConfig
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.replica import Replica
from quorate.observe.view import View
from quorate.observe.visibility import (
    Page,
    page,
    pending_in_cluster_queue,
    pending_in_local_queue,
    visibility,
)
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State
from tests.observe.listening import listening

NOW = 1_000.0
ALL = Page(100, 0)
# Name, local queue, priority, second of creation; the queue has one cpu, each workload requests two.
WAITING = (
    ("late", "b", 0, 30),
    ("early", "a", 0, 10),
    ("urgent", "b", 100, 40),
    ("middle", "a", 0, 20),
)


def a_state(cpu: str = "1") -> State:
    state = State(Configuration())
    state.put_namespace("ns", {})
    state.put_flavor(codec.convert(ResourceFlavor, {"metadata": {"name": "default"}}))
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    state.put_cluster_queue(
        codec.convert(
            ClusterQueue,
            {"metadata": {"name": "research"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}},
        )
    )
    for name, cluster_queue in (("a", "research"), ("b", "research"), ("lost", "gone")):
        queue = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterQueue": cluster_queue}}
        state.put_local_queue(codec.convert(LocalQueue, queue))
    for name, local_queue, priority, second in WAITING:
        state.put_workload(a_workload(name, local_queue, priority, second), NOW)
    return state


def a_workload(name: str, local_queue: str, priority: int, second: int) -> Workload:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "2"}}}
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"{name}-job",
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    body: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": f"1970-01-01T00:00:{second}Z",
            "labels": {"left": "out"},
            "ownerReferences": [owner],
        },
        "spec": {
            "queueName": local_queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
    }
    return codec.decode(Workload, codec.encode(body))


def positions(state: State, local_queue: str = "") -> list[tuple[str, int, int]]:
    found = (
        pending_in_local_queue(state, Key("ns", local_queue), ALL)
        if local_queue
        else pending_in_cluster_queue(state, "research", ALL)
    )
    assert found is not None
    return [
        (each.metadata.name, each.position_in_cluster_queue, each.position_in_local_queue) for each in found
    ]


IN_ORDER = [("urgent", 0, 0), ("early", 1, 0), ("middle", 2, 1), ("late", 3, 1)]


def test_active_and_inadmissible_workloads_have_a_position() -> None:
    state = a_state()
    assert positions(state) == IN_ORDER
    AdmissionCycle(state).run(NOW)  # none fits: all become inadmissible
    assert state.pending("research").active == ()
    assert positions(state) == IN_ORDER


def test_workloads_of_a_local_queue_have_their_position_in_the_cluster_queue() -> None:
    state = a_state()
    assert positions(state, "a") == [("early", 1, 0), ("middle", 2, 1)]
    assert positions(state, "b") == [("urgent", 0, 0), ("late", 3, 1)]
    assert positions(state, "lost") == []


def test_a_queue_that_does_not_exist_has_no_list() -> None:
    state = a_state()
    assert pending_in_cluster_queue(state, "gone", ALL) is None
    assert pending_in_local_queue(state, Key("elsewhere", "a"), ALL) is None


def test_reading_does_not_change_the_state() -> None:
    state, untouched = a_state(), a_state()
    positions(state)
    assert AdmissionCycle(state).run(NOW) == AdmissionCycle(untouched).run(NOW)


@pytest.mark.parametrize(
    ("limit", "offset", "want"),
    [
        pytest.param(0, 0, Page(1000, 0), id="no parameters"),
        pytest.param(5, 10, Page(5, 10), id="both parameters"),
        pytest.param(-1, -1, Page(0, 0), id="negative values count as 0"),
        pytest.param(10**9, 0, Page(100_000, 0), id="the limit is bounded"),
    ],
)
def test_a_page_is_bounded(limit: int, offset: int, want: Page) -> None:
    assert page(limit, offset) == want


def test_pages_are_served_over_http() -> None:
    async def story() -> None:
        replica = Replica("follower")
        async with (
            listening("visibilityServer", visibility(replica)) as url,
            aiohttp.ClientSession(f"{url}/visibility/") as session,
        ):
            all_entries = "clusterqueues/research/pendingworkloads"
            assert await refused(session, all_entries) == (503, "not synced with the API server yet")
            replica.set_view(View(a_state(), a_silent_informer(), CustomLabels()))
            assert await ask(session, f"{all_entries}?limit=1&offset=2") == (
                200,
                {
                    "apiVersion": "visibility.kueue.x-k8s.io/v1beta2",
                    "kind": "PendingWorkloadsSummary",
                    "metadata": {},
                    "items": [
                        {
                            "metadata": {
                                "name": "middle",
                                "namespace": "ns",
                                "creationTimestamp": "1970-01-01T00:00:20Z",
                                "ownerReferences": [
                                    {
                                        "apiVersion": "batch/v1",
                                        "kind": "Job",
                                        "name": "middle",
                                        "uid": "middle-job",
                                    }
                                ],
                            },
                            "priority": 0,
                            "localQueueName": "a",
                            "positionInClusterQueue": 2,
                            "positionInLocalQueue": 1,
                        }
                    ],
                },
            )
            _, of_b = await ask(session, "namespaces/ns/localqueues/b/pendingworkloads?offset=1")
            assert [each["metadata"]["name"] for each in of_b["items"]] == ["late"]
            assert await refused(session, "clusterqueues/gone/pendingworkloads") == (
                404,
                'clusterqueues.visibility.kueue.x-k8s.io "gone" not found',
            )
            assert await refused(session, f"{all_entries}?limit=ten") == (
                400,
                "limit: 'ten' is not a whole number",
            )

    asyncio.run(story())


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_it_is_served_as_an_aggregated_api(version: str) -> None:
    """In the form in which a kube-apiserver forwards requests, discovery included."""

    async def story() -> None:
        replica = Replica("standalone")
        replica.set_view(View(a_state(), a_silent_informer(), CustomLabels()))
        async with (
            listening("visibilityServer", visibility(replica)) as url,
            aiohttp.ClientSession(f"{url}/apis/visibility.kueue.x-k8s.io/") as session,
        ):
            _, resources = await ask(session, version)
            assert {each["name"] for each in resources["resources"] if each["verbs"] == ["get"]} == {
                "clusterqueues/pendingworkloads",
                "localqueues/pendingworkloads",
            }
            _, found = await ask(session, f"{version}/namespaces/ns/localqueues/b/pendingworkloads")
            assert found["apiVersion"] == f"visibility.kueue.x-k8s.io/{version}"
            assert [each["positionInLocalQueue"] for each in found["items"]] == [0, 1]

    asyncio.run(story())


async def refused(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    code, body = await ask(session, path)
    assert body["kind"] == "Status"
    return code, body["message"]


async def ask(session: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    async with session.get(path) as answer:
        is_json = answer.content_type == "application/json"
        return answer.status, await answer.json() if is_json else await answer.text()


def a_silent_informer() -> Informer[Workload]:
    """Return an informer that is never run: the test fills the model."""
    return Informer(Client(RestConfig("http://127.0.0.1:1"), random.Random(1)), WORKLOADS)

"""The definitions of the gang kinds on a server: columns, validation, defaults, and those of Volcano."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

import pytest

from quorate.install.crds import gang_definitions
from quorate.kube.client import Client
from quorate.kube.discovery import served_resources
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.processes.local.apply import DEFINITIONS, install_definitions
from tests.local.api_client import ApiClient, connect
from tests.local.clusters import ListedLate, api_server, api_server_with

pytestmark = pytest.mark.slow

Json = dict[str, Any]

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
RACK: Json = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r1"}}}}
NAMED: Json = {"exactMatch": {"name": "a"}}
TASK: Json = {"template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}}


def run_story(story: Callable[[ApiClient], Awaitable[None]], definitions: tuple[Json, ...] = ()) -> None:
    """Run ``story`` on a server with ``definitions`` of another product, then with ours installed."""

    async def run() -> None:
        async with api_server_with(() if definitions else gang_definitions()) as server:
            cluster = RestConfig(server.url, credentials=Token(server.token))
            async with Client(cluster, random.Random(1)) as client, connect(server) as api_client:
                for definition in definitions:
                    await client.create(DEFINITIONS, definition)
                if definitions:
                    await install_definitions(client, gang_definitions())
                await story(api_client)

    asyncio.run(run())


def new(path: str, name: str, spec: Json) -> Json:
    kinds = {
        GROUPS: ("scheduling.volcano.sh/v1beta1", "PodGroup"),
        JOBS: ("batch.volcano.sh/v1alpha1", "Job"),
        HYPER_NODES: ("topology.volcano.sh/v1alpha1", "HyperNode"),
    }
    version, kind = kinds.get(path, ("scheduling.volcano.sh/v1beta1", "Queue"))
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("path", "body", "status", "columns", "cells"),
    [
        pytest.param(
            GROUPS, {"minMember": 3, "queue": "research"}, {"phase": "Inqueue", "running": 2},
            "Name STATUS minMember RUNNINGS AGE QUEUE", ["a", "Inqueue", 3, 2, "research"], id="podgroup",
        ),
        pytest.param(
            QUEUES, {"parent": "root", "weight": 4}, {"state": "Open"},
            "Name PARENT STATE WEIGHT", ["a", "root", "Open", 4], id="queue",
        ),
        pytest.param(
            JOBS, {"tasks": [TASK]}, {"state": {"phase": "Running"}, "minAvailable": 2, "running": 1},
            "Name STATUS minAvailable RUNNINGS AGE QUEUE", ["a", "Running", 2, 1, "default"], id="vcjob",
        ),
        pytest.param(
            HYPER_NODES, {"tier": 1, "tierName": "rack", "members": [RACK]}, {"nodeCount": 8},
            "Name Tier TierName NodeCount Age", ["a", "1", "rack", 8], id="hypernode",
        ),
    ],
)  # fmt: skip
def test_kubectl_columns(path: str, body: Json, status: Json, columns: str, cells: list[Any]) -> None:
    async def story(api_client: ApiClient) -> None:
        await api_client.create(path, new(path, "a", body))
        # As in Volcano, the status of a pod group is no subresource.
        target = f"{path}/a" if path == GROUPS else f"{path}/a/status"
        code, _ = await api_client.send("PATCH", target, {"status": status})
        assert code == 200
        _, table = await api_client.send("GET", path, Accept=TABLE)
        assert [column["name"] for column in table["columnDefinitions"]] == columns.split()
        ages = [at for at, column in enumerate(table["columnDefinitions"]) if column["name"].upper() == "AGE"]
        shown = [cell for at, cell in enumerate(table["rows"][0]["cells"]) if at not in ages]
        assert shown == cells

    run_story(story)


@pytest.mark.parametrize(
    ("path", "spec", "field"),
    [
        pytest.param(GROUPS, {"minMember": -1}, "spec.minMember", id="a negative minimum"),
        pytest.param(GROUPS, {"minTaskMember": {"ps": -1}}, "spec.minTaskMember.ps", id="a negative task"),
        pytest.param(GROUPS, {"minResources": {"cpu": "-1"}}, "spec.minResources.cpu", id="negative amounts"),
        pytest.param(GROUPS, {"minResources": {"cpu": -1}}, "spec.minResources.cpu", id="written as numbers"),
        pytest.param(
            GROUPS, {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}},
            "spec.networkTopology", id="two highest tiers",
        ),
        pytest.param(QUEUES, {"weight": 0}, "spec.weight", id="no weight"),
        pytest.param(QUEUES, {"weight": 65536}, "spec.weight", id="a weight above the maximum"),
        pytest.param(QUEUES, {"maxPodGroups": -1}, "spec.maxPodGroups", id="a negative limit"),
        pytest.param(QUEUES, {"dequeueStrategy": "lifo"}, "spec.dequeueStrategy", id="an unknown strategy"),
        pytest.param(QUEUES, {"parent": "a"}, "<nil>", id="its own parent"),
        pytest.param(JOBS, {"tasks": []}, "spec.tasks", id="a job without tasks"),
        pytest.param(JOBS, {"tasks": [TASK | {"name": "A b"}]}, "spec.tasks[0].name", id="a task's name"),
        pytest.param(
            JOBS, {"tasks": [TASK], "policies": [{"event": "PodLost", "action": "AbortJob"}]},
            "spec.policies[0].event", id="an unknown event",
        ),
        pytest.param(HYPER_NODES, {"tier": 1, "members": []}, "spec.members", id="no members"),
        pytest.param(HYPER_NODES, {"members": [RACK]}, "spec.tier", id="no tier"),
        pytest.param(HYPER_NODES, {"tier": -1, "members": [RACK]}, "spec.tier", id="a negative tier"),
        pytest.param(
            HYPER_NODES, {"tier": 1, "members": [{"type": "Rack", "selector": NAMED}]},
            "spec.members[0].type", id="an unknown type of member",
        ),
        pytest.param(
            HYPER_NODES, {"tier": 1, "members": [{"type": "Node", "selector": {}}]},
            "spec.members[0].selector", id="a member without a selector",
        ),
        pytest.param(
            HYPER_NODES,
            {"tier": 1, "members": [{"type": "Node", "selector": RACK["selector"] | NAMED}]},
            "spec.members[0].selector", id="a member with two selectors",
        ),
    ],
)  # fmt: skip
def test_invalid_objects_are_refused_without_webhooks(path: str, spec: Json, field: str) -> None:
    async def story(api_client: ApiClient) -> None:
        code, answer = await api_client.send("POST", path, new(path, "a", spec))
        assert code == 422
        # After an unsupported value the server adds that it has not checked the rules.
        assert answer["details"]["causes"][0]["field"] == field

    run_story(story)


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        pytest.param(
            GROUPS, {"networkTopology": {"highestTierAllowed": 1, "highestTierName": ""}},
            id="an empty name of a tier",
        ),
        pytest.param(
            JOBS, {"tasks": [TASK | {"dependsOn": {"name": ["a"], "iteration": "All"}}]},
            id="an iteration that means all",
        ),
    ],
)  # fmt: skip
def test_objects_that_volcano_accepts_are_accepted(path: str, spec: Json) -> None:
    async def story(api_client: ApiClient) -> None:
        code, _ = await api_client.send("POST", path, new(path, "a", spec))
        assert code == 201

    run_story(story)


def test_missing_fields_get_defaults() -> None:
    async def story(api_client: ApiClient) -> None:
        group = await api_client.create(GROUPS, new(GROUPS, "a", {"networkTopology": {}}))
        assert group["spec"] == {"queue": "default", "networkTopology": {"mode": "hard"}}
        queue = await api_client.create(QUEUES, new(QUEUES, "a", {}))
        assert queue["spec"] == {"weight": 1, "reclaimable": True, "dequeueStrategy": "traverse"}

    run_story(story)


def test_empty_fields_are_accepted_like_missing_ones() -> None:
    async def story(api_client: ApiClient) -> None:
        spec = {"queue": "", "priorityClassName": "", "tasks": [TASK | {"maxRetry": -1}]}
        job = await api_client.create(JOBS, new(JOBS, "a", spec))
        assert job["spec"]["queue"] == ""

    run_story(story)


def test_volcanos_own_definitions_stay_as_they_are() -> None:
    kinds = {each["spec"]["names"]["kind"]: each for each in gang_definitions()}
    volcanos = deepcopy(kinds["Queue"])
    volcanos["metadata"]["labels"] = {"app.kubernetes.io/name": "volcano"}
    schema = volcanos["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["maxPodGroups"]

    async def story(api_client: ApiClient) -> None:
        queue = await api_client.create(QUEUES, new(QUEUES, "a", {"maxPodGroups": 3}))
        assert "maxPodGroups" not in queue["spec"], "Volcano's definition has no such field"
        group = await api_client.create(GROUPS, new(GROUPS, "a", {}))
        assert group["spec"] == {"queue": "default"}, "missing definitions are installed"

    run_story(story, (volcanos,))


def test_installation_waits_until_the_server_lists_the_kinds() -> None:
    async def run() -> None:
        async with api_server() as server:
            cluster = RestConfig(server.url, credentials=Token(server.token))
            async with ListedLate(cluster, random.Random(1), groups=".volcano.sh") as client:
                await install_definitions(client, gang_definitions())
                assert len(client.late) == 4
                served = await served_resources(client, "scheduling.volcano.sh/v1beta1")
                assert {each.name for each in served} == {"podgroups", "queues", "queues/status"}

    asyncio.run(run())

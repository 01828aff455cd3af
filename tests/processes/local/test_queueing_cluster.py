"""A local cluster starts whatever is stored in it, and writes only what an earlier start did not."""

import asyncio
import logging
import random
from pathlib import Path

import pytest

from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import NODES, Json
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.cluster import Settings
from quorate.local.directory import ClusterDirectory
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import create_manifests, provide
from quorate.processes.local.manifests import read_manifest_text
from quorate.processes.local.queueing_cluster import CLUSTER_ROLES, run_queueing_cluster
from tests.local.clusters import api_server

pytestmark = pytest.mark.slow

NO_NODES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-nodes}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: ["*"], operations: ["*"], resources: [nodes, nodes/status]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-nodes}
spec: {policyName: no-nodes, validationActions: [Deny]}
"""


def test_a_stored_policy_that_denies_nodes_does_not_stop_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        with ClusterDirectory(tmp_path).lock(0.0) as locked:
            cluster = run_queueing_cluster(locked, Settings(()), None, WallClock(), random.Random(1))
            async with cluster as client:
                await create_manifests(client, read_manifest_text(NO_NODES, "policy"))
            settings = Settings((NodePool(1),))
            again = run_queueing_cluster(
                locked, settings, None, WallClock(), random.Random(2), nodes_within_s=0.5
            )
            async with again as client:
                assert (await client.list(NODES)).items == ()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert "not all nodes are registered yet" in [record.getMessage() for record in caplog.records]


def test_only_an_object_that_an_earlier_release_provided_is_applied_again() -> None:
    names = ("same", "changed", "replaced")
    roles: list[Json] = [{"metadata": {"name": name}, "rules": []} for name in names]
    rules = [{"verbs": ["get"], "nonResourceURLs": ["/"]}]
    newer: list[Json] = [roles[0], *({**role, "rules": rules} for role in roles[1:])]

    async def story() -> None:
        async with (
            api_server() as server,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):

            async def versions() -> dict[str, str]:
                stored = {each["metadata"]["name"]: each for each in (await client.list(CLUSTER_ROLES)).items}
                return {name: stored[name]["metadata"]["resourceVersion"] for name in names}

            await provide(client, CLUSTER_ROLES, roles[:2])
            await client.create(CLUSTER_ROLES, roles[2])  # by an administrator
            before = await versions()
            await provide(client, CLUSTER_ROLES, newer)
            after = await versions()
            assert [name for name in names if before[name] != after[name]] == ["changed"]

    asyncio.run(story())

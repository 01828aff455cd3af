"""A local cluster starts whatever is stored in it."""

import asyncio
import logging
import random
from pathlib import Path

import pytest

from quorate.kube.clock import WallClock
from quorate.kube.resources import NODES
from quorate.local.cluster import Settings
from quorate.local.directory import ClusterDirectory
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import create_manifests
from quorate.processes.local.manifests import read_manifest_text
from quorate.processes.local.queueing_cluster import run_queueing_cluster

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

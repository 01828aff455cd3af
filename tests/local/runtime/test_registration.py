"""The kubelet registers its node; a cluster says why its kubelet cannot start."""

import asyncio
import random
from pathlib import Path

import pytest

from quorate.api.meta import Key, micro_time
from quorate.inspect.errors import user_message
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import LEASES
from quorate.kube.rest.config import load_rest_config
from quorate.local.cluster import Settings, run_cluster
from quorate.local.directory import ClusterDirectory
from quorate.local.nodes.fleet import LEASE_NAMESPACE
from quorate.local.runtime.supervisor import DIRECTORY, STARTS, ProcessRuntime
from quorate.local.server.apiserver import NO_CONVERTERS
from quorate.processes.process_setup import new_uid
from tests.local.runtime.world import DEADLINE_S, NODE, runs_processes

pytestmark = [runs_processes, pytest.mark.slow]


async def last_renewal(directory: Path) -> str:
    """Start a cluster, wait for its node, and return when the lease of the node was renewed."""
    settings = Settings((), runtime=ProcessRuntime(NODE))
    with ClusterDirectory(directory).lock(0.0) as locked:
        cluster = run_cluster(locked, settings, WallClock(), random.Random(), new_uid, NO_CONVERTERS)
        async with (
            cluster as running,
            Client(await load_rest_config(locked.kubeconfig), random.Random()) as client,
            asyncio.timeout(DEADLINE_S),
        ):
            await running.nodes_registered()
            lease = await client.get(LEASES, Key(LEASE_NAMESPACE, NODE))
            (owner,) = lease.metadata.owner_references
            assert (owner.kind, owner.name) == ("Node", NODE)
            return lease.spec.renew_time


def test_a_node_of_an_earlier_start_is_registered_again(tmp_path: Path) -> None:
    for _ in ("the first start", "another"):
        began = micro_time(WallClock().now())
        assert asyncio.run(last_renewal(tmp_path)) > began


def test_a_kubelet_that_cannot_start_ends_the_cluster_with_its_last_line(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).mkdir()
    (tmp_path / DIRECTORY / "network").write_text("a file, where the kubelet needs a directory")
    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(last_renewal(tmp_path))
    message = user_message(raised.value)
    assert message is not None
    assert message.startswith(f"node {NODE}: the kubelet ended {STARTS} times before it registered the node")
    assert "FileExistsError: " in message

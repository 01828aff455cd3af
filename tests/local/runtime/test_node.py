"""The node of this machine, registered by several starts of its kubelet."""

import asyncio
import random
import socket

import pytest

from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.runtime.node import NodeDescription, default_node_name, register
from tests.local.clusters import api_server

NODES = untyped("", "v1", "nodes", "Node", False)


def test_a_node_has_the_resources_of_the_last_start_only() -> None:
    async def run() -> None:
        async with (
            api_server() as server,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            for resources in ({"cpu": "4", "nvidia.com/gpu": "2"}, {"cpu": "8"}):
                node = NodeDescription("here", "10.244.0.1", resources, "bubblewrap", ())
                await register(client, WallClock(), node)
            [stored] = (await client.list(NODES)).items
        assert stored["status"]["capacity"] == stored["status"]["allocatable"] == {"cpu": "8"}
        assert stored["spec"].get("taints") is None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "want"),
    [
        ("Workstation.Example.org", "workstation.example.org"),
        ("a..b", "local"),
        ("", "local"),
        ("my_pc", "local"),
    ],
)
def test_a_node_is_named_after_its_host(host: str, want: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert default_node_name() == want

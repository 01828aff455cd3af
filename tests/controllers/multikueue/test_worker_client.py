"""The client of a worker cluster."""

import asyncio
import random

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import MultiKueueGates
from quorate.api.configuration.process import ClientConnection
from quorate.api.meta import Key
from quorate.controllers.multikueue.connection.connection import worker_client
from quorate.kube.client import Client
from quorate.kube.errors import WriteNotPermitted
from quorate.kube.resources import PODS
from quorate.kube.rest.config import RestConfig
from tests.kube.fake_server import Answer, FakeServer, pod

pytestmark = pytest.mark.slow

LOCAL = RestConfig("http://127.0.0.1:1")


@pytest.mark.parametrize(("reuses", "waits"), [(True, True), (False, False)])
def test_the_limits_of_client_connection_hold_unless_the_gate_is_off(reuses: bool, waits: bool) -> None:
    configuration = Configuration(
        client_connection=ClientConnection(qps=2.0, burst=1),
        multikueue_gates=MultiKueueGates(reuse_client_connection=reuses),
    )

    async def story() -> None:
        clock = asyncio.get_running_loop().time
        async with FakeServer(lambda request: Answer(body=pod("a", 1))) as server:
            local = Client(LOCAL, random.Random(1))
            async with worker_client(RestConfig(server.url), configuration, local) as client:
                began = clock()
                for _ in range(4):
                    await client.get(PODS, Key("default", "a"))
                assert (clock() - began >= 1.4) is waits

    asyncio.run(story())


def test_a_process_that_does_not_lead_writes_to_no_worker_cluster() -> None:
    async def story() -> None:
        async with FakeServer(lambda request: Answer(body=pod("a", 1))) as server:
            local = Client(LOCAL, random.Random(1), permit=lambda: "not the leader")
            async with worker_client(RestConfig(server.url), Configuration(), local) as client:
                await client.get(PODS, Key("default", "a"))
                with pytest.raises(WriteNotPermitted):
                    await client.delete(PODS, Key("default", "a"))

    asyncio.run(story())

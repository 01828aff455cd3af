"""Stories inside the namespaces of a node, run as a process: ``inside STORY DIRECTORY``."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket

from quorate.local.runtime.network.bridge_network import BridgeNetwork
from quorate.local.runtime.network.node_namespaces import end_namespaces, enter, join_or_create
from quorate.local.runtime.network.types import PodNetworkRequest

DEADLINE_S = 20.0


@asynccontextmanager
async def network(state: Path) -> AsyncIterator[BridgeNetwork]:
    opened = BridgeNetwork(state / "network", join_or_create(state))
    await opened.start()
    try:
        yield opened
    finally:
        opened.close()


def request(name: str) -> PodNetworkRequest:
    return PodNetworkRequest(f"uid-{name}", "default", name)


async def listen(pods: BridgeNetwork, name: str, port: int) -> socket:
    opened = await pods.open_socket(f"uid-{name}")
    opened.bind(("0.0.0.0", port))
    opened.listen()
    return opened


async def pods_have_addresses_of_their_own(state: Path) -> None:
    loop = asyncio.get_running_loop()
    async with network(state) as pods:
        one, two = await asyncio.gather(pods.create(request("one")), pods.create(request("two")))
        assert one.address != two.address
        for name, made, peer in (("one", one, "uid-two"), ("two", two, None)):
            server = await listen(pods, name, 80)
            client = await pods.open_socket(peer)
            await loop.sock_connect(client, (made.address, 80))
            accepted, _ = await loop.sock_accept(server)
            assert accepted.getsockname() == (made.address, 80)
            for each in (server, client, accepted):
                each.close()


async def a_network_survives_the_kubelet_and_is_released(state: Path) -> None:
    async with network(state) as pods:
        made = await pods.create(request("one"))
    async with network(state) as pods:
        assert await pods.create(request("one")) == made
        assert (await pods.create(request("two"))).address != made.address
        await pods.release("uid-one")
        assert not (state / "network" / "uid-one").exists()
        again = await pods.create(request("one"))
        assert again.address != made.address, "an address is not reused at once"
        await pods.release("uid-one")
        await pods.release("uid-one")


async def many_pods_at_once(state: Path) -> None:
    async with network(state) as pods:
        made = await asyncio.gather(*(pods.create(request(str(number))) for number in range(60)))
        assert len({one.address for one in made}) == 60
        await asyncio.gather(*(pods.release(f"uid-{number}") for number in range(60)))


async def what_a_crash_left_is_removed(state: Path) -> None:
    async with network(state) as pods:
        made = await pods.create(request("one"))
        (state / "network" / "uid-one" / "address").unlink()
    async with network(state) as pods:
        assert not (state / "network" / "uid-one").exists()
        assert (await pods.create(request("two"))).address == made.address


STORIES: dict[str, Callable[[Path], Awaitable[None]]] = {
    story.__name__: story
    for story in (
        pods_have_addresses_of_their_own,
        a_network_survives_the_kubelet_and_is_released,
        many_pods_at_once,
        what_a_crash_left_is_removed,
    )
}


async def run(story: str, state: Path) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await STORIES[story](state)


if __name__ == "__main__":
    state = Path(sys.argv[2])
    reason = enter(state, [sys.executable, "-m", "tests.local.runtime.network.inside", *sys.argv[1:]])
    assert not reason, reason
    try:
        asyncio.run(run(sys.argv[1], state))
    finally:
        sys.stdout.flush()
        end_namespaces(state)
    os._exit(0)

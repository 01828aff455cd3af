"""Stories inside the namespaces of a node, in which ``enter`` runs them: ``inside STORY DIRECTORY``."""

import asyncio
import fcntl
import functools
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket

import dns.message

from quorate.api.meta import Key, Uid
from quorate.kube.clock import WallClock
from quorate.kube.resources import untyped
from quorate.local.runtime.network.bridge_network import NODE_ADDRESS, BridgeNetwork
from quorate.local.runtime.network.namespaces import (
    NamespacesUnavailable,
    end_namespaces,
    join_or_create,
)
from quorate.local.runtime.network.setup import run_pod_network
from quorate.local.runtime.pod_types import Pod, PodMeta
from tests.local.controllers.running_cluster import PODS, LocalCluster, local_cluster

SERVICES = untyped("", "v1", "services", "Service", True)

DEADLINE_S = 60.0
SIOCGIFHWADDR = 0x8927


@functools.cache
def namespaces_unavailable() -> str:
    """Return why the kernel permits no namespaces, or an empty string."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            join_or_create(Path(directory))
        except NamespacesUnavailable as error:
            return str(error)
        end_namespaces(Path(directory))
    return ""


@asynccontextmanager
async def network(state: Path) -> AsyncIterator[BridgeNetwork]:
    opened = BridgeNetwork(state / "network", join_or_create(state), ("127.0.0.1", 443))
    await opened.start()
    try:
        yield opened
    finally:
        await opened.close()


def a_pod(name: str) -> Pod:
    return Pod(metadata=PodMeta(uid=Uid(f"uid-{name}"), namespace="default", name=name))


async def listen(pods: BridgeNetwork, name: str, port: int) -> socket:
    opened = await pods.open_socket(f"uid-{name}")
    opened.bind(("0.0.0.0", port))
    opened.listen()
    return opened


async def pods_have_addresses_of_their_own(state: Path) -> None:
    loop = asyncio.get_running_loop()
    async with network(state) as pods:
        one, two = await asyncio.gather(pods.create(a_pod("one")), pods.create(a_pod("two")))
        assert one.address != two.address
        for name, made, peer in (("one", one, "uid-two"), ("two", two, "")):
            server = await listen(pods, name, 80)
            client = await (pods.open_socket(peer) if peer else pods.open_socket_to(made.address))
            await loop.sock_connect(client, (made.address, 80))
            accepted, _ = await loop.sock_accept(server)
            assert accepted.getsockname() == (made.address, 80)
            for each in (server, client, accepted):
                each.close()


async def a_network_survives_the_kubelet_and_is_released(state: Path) -> None:
    async with network(state) as pods:
        made = await pods.create(a_pod("one"))
    async with network(state) as pods:
        assert await pods.create(a_pod("one")) == made
        assert (await pods.create(a_pod("two"))).address != made.address
        await pods.release("uid-one")
        assert not (state / "network" / "uid-one").exists()
        again = await pods.create(a_pod("one"))
        assert again.address != made.address, "an address is not reused at once"
        await pods.release("uid-one")
        await pods.release("uid-one")


async def the_address_of_the_bridge_stays(state: Path) -> None:
    """Otherwise pods would send to the old one, and wait for names for half a minute."""
    async with network(state) as pods:
        addresses = set()
        for number in range(5):
            await pods.create(a_pod(str(number)))
            addresses.add(await _link_address(pods))
        await pods.release("uid-0")
        assert addresses == {await _link_address(pods)}


async def _link_address(pods: BridgeNetwork) -> bytes:
    with await pods.open_socket_to(NODE_ADDRESS) as opened:
        return fcntl.ioctl(opened, SIOCGIFHWADDR, struct.pack("256s", b"bridge"))[18:24]


async def many_pods_at_once(state: Path) -> None:
    async with network(state) as pods:
        made = await asyncio.gather(*(pods.create(a_pod(str(number))) for number in range(60)))
        assert len({one.address for one in made}) == 60
        await asyncio.gather(*(pods.release(f"uid-{number}") for number in range(60)))


async def what_a_crash_left_is_removed(state: Path) -> None:
    async with network(state) as pods:
        made = await pods.create(a_pod("one"))
        (state / "network" / "uid-one" / "address").unlink()
    async with network(state) as pods:
        assert not (state / "network" / "uid-one").exists()
        assert (await pods.create(a_pod("two"))).address == made.address


async def names_and_services_reach_pods(state: Path) -> None:
    loop = asyncio.get_running_loop()
    async with local_cluster() as cluster, run_pod_network(state, cluster.client, WallClock()) as pods:
        assert isinstance(pods, BridgeNetwork), pods.description
        made = await pods.create(a_pod("one"))
        await pods.create(a_pod("client"))
        server = await listen(pods, "one", 8080)
        for name, address in (("web", None), ("pods", "None")):
            spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
            spec |= {"clusterIP": address} if address else {}
            await cluster.client.create(SERVICES, {"metadata": {"name": name}, "spec": spec}, "default")
        await create_ready_pod(cluster, "one", made.address)
        assert await resolve(pods, "one.pods.default.svc.cluster.local") == [made.address]
        for name in ("pods", "web"):
            [address] = await resolve(pods, f"{name}.default.svc.cluster.local")
            client = await pods.open_socket("uid-client")
            await connect(client, (address, 8080 if name == "pods" else 80))
            accepted, _ = await loop.sock_accept(server)
            await loop.sock_sendall(accepted, name.encode())
            assert await loop.sock_recv(client, 10) == name.encode()
            accepted.close()
            assert await loop.sock_recv(client, 10) == b"", "the end of the connection is passed on"
            client.close()
        server.close()


async def connect(client: socket, address: tuple[str, int]) -> None:
    """Connect as soon as the address of the service is open."""
    while True:
        try:
            return await asyncio.get_running_loop().sock_connect(client, address)
        except ConnectionRefusedError:
            await asyncio.sleep(0.02)


async def create_ready_pod(cluster: LocalCluster, name: str, address: str) -> None:
    spec = {"hostname": name, "subdomain": "pods", "containers": [{"name": "main", "image": "x"}]}
    body = {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}
    await cluster.client.create(PODS, body, "default")
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}
    await cluster.client.patch(PODS, Key("default", name), {"status": status}, subresource="status")


async def resolve(pods: BridgeNetwork, name: str) -> list[str]:
    """Return the addresses of a name as soon as it has any, asked in the network of the pod ``client``."""
    loop = asyncio.get_running_loop()
    while True:
        query = dns.message.make_query(name, "A")
        asking = await pods.run_in(pods.namespace("uid-client"), lambda: socket(AF_INET, SOCK_DGRAM))
        with asking:
            asking.setblocking(False)
            await loop.sock_connect(asking, (NODE_ADDRESS, 53))
            await loop.sock_sendall(asking, query.to_wire())
            response = dns.message.from_wire(await loop.sock_recv(asking, 4096))
        if response.answer:
            return [str(rdata) for rdata in response.answer[0]]
        await asyncio.sleep(0.02)


async def pods_reach_the_network_of_the_host_if_there_is_a_program_for_it(state: Path) -> None:
    loop = asyncio.get_running_loop()
    async with network(state) as pods:
        assert pods.has_egress == (shutil.which("slirp4netns") is not None), pods.description
        await pods.create(a_pod("one"))
        client = await pods.open_socket("uid-one")
        outside = socket(AF_INET, SOCK_DGRAM)  # finds the address of this machine, without sending anything
        try:
            outside.connect(("192.0.2.1", 9))
        except OSError:
            return
        with outside, socket() as server, client:
            server.bind((outside.getsockname()[0], 0))
            server.listen()
            server.setblocking(False)
            if pods.has_egress:
                await loop.sock_connect(client, server.getsockname())
                accepted, _ = await loop.sock_accept(server)
                accepted.close()
            else:
                try:
                    await loop.sock_connect(client, server.getsockname())
                except OSError:
                    return
                raise AssertionError("a pod has reached the host without a program")


async def without_iproute2_pods_share_the_network_of_the_host(state: Path) -> None:
    tools = state / "tools"
    tools.mkdir(parents=True)
    os.environ["PATH"] = str(tools)
    async with local_cluster() as one, run_pod_network(state, one.client, WallClock()) as pods:
        assert pods.description.endswith("ip is not installed (package iproute2)")
        assert (await pods.create(a_pod("one"))).path is None


async def without_namespaces_pods_share_the_network_of_the_host(state: Path) -> None:
    async with local_cluster() as one, run_pod_network(state, one.client, WallClock(), "forbidden") as pods:
        assert pods.description.endswith("forbidden")
        assert (await pods.create(a_pod("one"))).path is None


STORIES: dict[str, Callable[[Path], Awaitable[None]]] = {
    story.__name__: story
    for story in (
        pods_have_addresses_of_their_own,
        a_network_survives_the_kubelet_and_is_released,
        the_address_of_the_bridge_stays,
        many_pods_at_once,
        what_a_crash_left_is_removed,
        names_and_services_reach_pods,
        pods_reach_the_network_of_the_host_if_there_is_a_program_for_it,
        without_namespaces_pods_share_the_network_of_the_host,
        without_iproute2_pods_share_the_network_of_the_host,
    )
}


async def run(story: str, state: Path) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await STORIES[story](state)


if __name__ == "__main__":
    state = Path(sys.argv[2])
    try:
        asyncio.run(run(sys.argv[1], state))
    finally:
        sys.stdout.flush()
        end_namespaces(state)
    os._exit(0)

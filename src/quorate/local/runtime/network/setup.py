"""The network of the pods of a node: namespaces if this process has entered them, else that of the host."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from quorate.local.runtime.network.bridge_network import BridgeNetwork
from quorate.local.runtime.network.host_network import HostNetwork
from quorate.local.runtime.network.node_namespaces import NodeNamespaces, is_inside, read_holder
from quorate.local.runtime.network.types import PodNetwork, PodNetworkError

PODS: Final = "network"


@asynccontextmanager
async def run_pod_network(state: Path, reason: str = "") -> AsyncIterator[PodNetwork]:
    """Run the network of the pods until the block ends; the networks of the pods stay.

    ``state``: the directory of the runtime, with which ``enter`` was called; ``reason``: what it returned.
    """
    holder = read_holder(state)
    if reason or holder is None or not is_inside(NodeNamespaces(holder)):
        yield HostNetwork(state / PODS, reason or "the kubelet is not in namespaces of its own")
        return
    bridge = BridgeNetwork(state / PODS, NodeNamespaces(holder))
    try:
        await bridge.start()
    except PodNetworkError as error:
        yield HostNetwork(state / PODS, str(error))
        return
    try:
        yield bridge
    finally:
        bridge.close()

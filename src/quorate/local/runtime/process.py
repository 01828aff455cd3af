"""The kubelet process of a local cluster.

It ends at SIGTERM, after it has ended all containers; or when its standard input is closed because the
process of the cluster has been killed: then containers go on until the next kubelet adopts them.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from quorate.api.meta import Condition
from quorate.api.quantity import parse_quantity
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.log import configure
from quorate.kube.manager.restart import run_restarting
from quorate.kube.rest.config import load_rest_config
from quorate.local.controllers.controller import EventRecorder
from quorate.local.runtime.configuration import KubeletConfiguration
from quorate.local.runtime.containers.cgroups import find_cgroups, remove_unused
from quorate.local.runtime.containers.sandbox import find_tools
from quorate.local.runtime.kubelet import Kubelet
from quorate.local.runtime.network.setup import run_pod_network
from quorate.local.runtime.network.types import PodNetwork
from quorate.local.runtime.node import (
    NVIDIA,
    DevicePool,
    NodeDescription,
    NodeServices,
    capacity,
    heartbeat,
    register,
)
from quorate.local.runtime.objects import ApiObjects
from quorate.local.runtime.streaming.server import KubeletServer, serve_kubelet

SANDBOXES: Final = {
    "bubblewrap": "containers run in sandboxes of bubblewrap",
    "unshare": "containers run in namespaces made by unshare, more slowly: bubblewrap is not installed",
}
IMAGES: Final = (
    "images are not pulled: the files of this machine, read-only, are what containers see, or those of the "
    "directory that --image NAME=DIRECTORY gives for an image"
)


def run_process(configuration: KubeletConfiguration, reason: str) -> None:
    """Run the kubelet until SIGTERM or the end of the standard input.

    ``reason``: why this process is not in namespaces of its own, or an empty string.
    """
    configure("console")
    uvloop.run(_serve(configuration, reason))


async def _serve(configuration: KubeletConfiguration, reason: str) -> None:
    clock, rng = WallClock(), random.Random()
    rest = await load_rest_config(Path(configuration.kubeconfig))
    async with (
        Client(rest, rng, field_manager="kubelet", streams_lists=True) as client,
        run_pod_network(Path(configuration.state), client, clock, reason) as network,
    ):
        amounts = capacity(Path(configuration.state), configuration.resources)
        services = _services(configuration, amounts, client, clock, rng, network)
        isolation = services.tools.name
        node = NodeDescription(services.name, network.node_address, amounts, isolation, _remarks(services))
        kubelet = Kubelet(services)
        async with serve_kubelet(services.state, KubeletServer(services.state, kubelet, network, clock)):
            await _run(client, clock, node, kubelet)


async def _run(client: Client, clock: WallClock, node: NodeDescription, kubelet: Kubelet) -> None:
    loop = asyncio.get_running_loop()
    working = asyncio.create_task(kubelet.run())
    parts = [
        asyncio.create_task(run_restarting("node", partial(_keep_node, client, clock, node), clock)),
        working,
    ]
    stopping: list[asyncio.Task[None]] = []
    loop.add_signal_handler(signal.SIGTERM, lambda: stopping.append(loop.create_task(kubelet.stop())))
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # of the terminal: the supervisor ends this process
    loop.add_reader(sys.stdin, working.cancel)
    await asyncio.wait([working])
    for part in parts:
        part.cancel()
    await asyncio.gather(*parts, return_exceptions=True)
    if not working.cancelled() and (error := working.exception()) is not None:
        raise error


async def _keep_node(client: Client, clock: WallClock, node: NodeDescription) -> None:
    await register(client, clock, node)
    await heartbeat(client, clock, node)


def _services(
    configuration: KubeletConfiguration,
    amounts: Mapping[str, str],
    client: Client,
    clock: WallClock,
    rng: random.Random,
    network: PodNetwork,
) -> NodeServices:
    cgroups = find_cgroups()
    remove_unused(cgroups, clock.now())
    return NodeServices(
        name=configuration.node_name,
        client=client,
        clock=clock,
        rng=rng,
        state=Path(configuration.state),
        network=network,
        tools=find_tools(),
        images={name: Path(root) for name, root in configuration.images.items()},
        objects=ApiObjects(client, clock, Path(configuration.authority).read_bytes()),
        recorder=EventRecorder(client, clock, rng, "kubelet"),
        allocatable={name: parse_quantity(amount) for name, amount in amounts.items()},
        cgroups=cgroups,
        devices=DevicePool(parse_quantity(amounts.get(NVIDIA, "0")).units),
        is_root=_maps_all_users(),
        home=configuration.home,
    )


def _maps_all_users() -> bool:
    """Return True if this process may change to any user: it is root, and not only in a user namespace."""
    _, _, count = Path("/proc/self/uid_map").read_text().splitlines()[0].split()
    return os.geteuid() == 0 and int(count) > 1


def _remarks(services: NodeServices) -> tuple[Condition, ...]:
    """Return the conditions that say what is different from other kubelets."""
    limits = services.cgroups
    return (
        Condition(
            type="LimitsEnforced",
            status="True" if limits.limits_memory else "False",
            reason="ControlGroups" if limits.limits_memory else "NoControlGroups",
            message=limits.description,
        ),
        Condition(
            type="Sandboxes",
            status="True",
            reason="Bubblewrap" if services.tools.bwrap else "NoBubblewrap",
            message=SANDBOXES[services.tools.name],
        ),
        Condition(type="ImagesPulled", status="False", reason="HostFiles", message=IMAGES),
        Condition(type="PodNetwork", status="True", reason="Available", message=services.network.description),
    )

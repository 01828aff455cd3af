"""Simulated nodes: their pods run no processes, but follow a lifecycle given by annotations."""

import asyncio
from collections.abc import Sequence

from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.informer import Informer
from quorate.kube.manager.restart import run_restarting
from quorate.local.nodes.fleet import NODES, FleetLevel, NodePool, NodeRegistrar
from quorate.local.nodes.kubelet import Kubelet

__all__ = ["FleetLevel", "NodePool", "run_nodes"]


async def run_nodes(
    client: Client,
    clock: Clock,
    pools: Sequence[NodePool],
    speed: float,
    registered: asyncio.Event | None = None,
) -> None:
    """Register the nodes and simulate the pods bound to them, until cancelled.

    Simulated are the nodes of ``pools``, and all others with the annotation ``simulate.quorate.dev/node``.
    A node of an earlier start that none of ``pools`` has is deleted.

    ``speed`` is the number of seconds of a pod's life that pass in one second; all other clocks use real
    time.  After an exception that nothing expected the simulation starts over.

    ``registered`` is set once all nodes of ``pools`` are registered.
    """

    async def run() -> None:
        nodes = Informer(client, NODES)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(nodes.run())
            await nodes.synced.wait()
            registrar = NodeRegistrar(client, clock, pools, nodes, registered or asyncio.Event())
            tasks.create_task(registrar.run())
            tasks.create_task(Kubelet(client, clock, nodes, speed).run())

    await run_restarting("simulated nodes", run, clock)

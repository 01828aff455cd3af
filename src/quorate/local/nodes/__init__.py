"""Simulated nodes: their pods run no processes, but follow a lifecycle given by annotations."""

import asyncio
from functools import partial

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.manager.restart import run_restarting
from quorate.local.nodes.fleet import Fleet, FleetLevel, register
from quorate.local.nodes.kubelet import Kubelet

__all__ = ["Fleet", "FleetLevel", "run_nodes"]


async def run_nodes(client: Client, clock: Clock, fleet: Fleet, speed: float) -> None:
    """Register the nodes and simulate the pods bound to them, until cancelled.

    ``speed`` is the number of seconds of a pod's life that pass in one second; all other clocks use real
    time.  After an exception that nothing expected the simulation starts over.
    """
    await run_restarting("simulated nodes", partial(_run_nodes, client, clock, fleet, speed), clock)


async def _run_nodes(client: Client, clock: Clock, fleet: Fleet, speed: float) -> None:
    registrar = Reconciler("node", lambda key: register(client, clock, fleet, key.name), clock)
    for name in fleet.names:
        registrar.enqueue(Key("", name))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(registrar.run())
        tasks.create_task(Kubelet(client, clock, fleet, speed).run())

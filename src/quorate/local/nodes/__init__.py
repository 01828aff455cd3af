"""Simulated nodes: pods bound to them live as their annotations say, and run nothing."""

import asyncio

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.reconcile import Reconciler
from quorate.local.nodes.fleet import Fleet, register
from quorate.local.nodes.kubelet import Kubelet

__all__ = ["Fleet", "run_nodes"]


async def run_nodes(client: Client, clock: Clock, fleet: Fleet, speed: float) -> None:
    """Register the nodes and let the pods bound to them live, until cancelled.

    ``speed`` is how many seconds of a pod's life pass in one; every other clock keeps real time.
    """
    registrar = Reconciler("node", lambda key: register(client, clock, fleet, key.name), clock)
    for name in fleet.names:
        registrar.enqueue(Key("", name))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(registrar.run())
        tasks.create_task(Kubelet(client, clock, fleet, speed).run())

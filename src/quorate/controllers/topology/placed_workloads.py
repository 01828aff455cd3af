"""Runs the controllers of workloads with places, once there is one."""

import asyncio

from quorate.api.kueue import Workload
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import synced
from quorate.controllers.topology.placed_pods import has_places, placed_pods
from quorate.controllers.topology.ungater import Ungater
from quorate.kube.informer import Change


async def run_placed_workloads(context: ControllerContext) -> None:
    """Wait until a workload has places, then run until cancelled; pods are not watched before."""
    if context.configuration.topology_gates is None:
        return
    needed = asyncio.Event()

    def workload_changed(change: Change[Workload]) -> None:
        if not needed.is_set() and change.new is not None and has_places(change.new):
            needed.set()

    context.informers.workloads.subscribe(workload_changed)
    await needed.wait()
    pods = placed_pods(context.client)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pods.run(), name="watch pods with places")
        ungater = Ungater(context, pods).reconciler
        await synced(pods)
        tasks.create_task(ungater.run(), name=ungater.name)

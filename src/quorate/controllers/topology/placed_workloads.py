"""Runs the controllers of workloads with places, once there is one."""

import asyncio

from quorate.api.core.scheduling import Node
from quorate.api.kueue import Workload
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import synced
from quorate.controllers.topology.node_failures import NodeFailureController
from quorate.controllers.topology.placed_pods import WORKLOADS_OF, has_places, placed_pods, placed_pods_key
from quorate.controllers.topology.ungater import Ungater
from quorate.kube.informer import Change, Informer


async def run_placed_workloads(context: ControllerContext, nodes: Informer[Node]) -> None:
    """Wait until a workload has places, then run until cancelled; pods are not watched before.

    ``nodes`` must be those from which places are chosen: in another cache the newest of them may be missing.
    """
    gates = context.configuration.topology_gates
    if gates is None:
        return
    needed = asyncio.Event()

    def workload_changed(change: Change[Workload]) -> None:
        if not needed.is_set() and change.new is not None and has_places(change.new):
            needed.set()

    context.informers.workloads.subscribe(workload_changed)
    await needed.wait()
    context.informers.workloads.add_index(WORKLOADS_OF, placed_pods_key)
    pods = placed_pods(context.client)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pods.run(), name="watch pods with places")
        await synced(pods)
        ungater = Ungater(context, pods)
        tasks.create_task(ungater.reconciler.run(), name=ungater.reconciler.name)
        if gates.detect_node_failures:
            await synced(nodes)
            failures = NodeFailureController(context, pods, nodes, ungater.set_blocked_hosts).reconciler
            tasks.create_task(failures.run(), name=failures.name)

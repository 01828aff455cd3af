"""Runs the controllers of workloads with places, once there may be one."""

import asyncio

from quorate.api.kueue import ResourceFlavor, Workload
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import synced
from quorate.controllers.topology.node_failures import NodeFailureController
from quorate.controllers.topology.node_feeds import NodeFeeds
from quorate.controllers.topology.placed_pods import WORKLOADS_OF, WorkloadPods, has_places, placed_pods_key
from quorate.controllers.topology.ungater import Ungater
from quorate.kube.informer import Change


async def run_placed_workloads(context: ControllerContext, feeds: NodeFeeds, pods: WorkloadPods) -> None:
    """Wait until a flavor has a topology or a workload places, then run until cancelled.

    Their pods are not watched before, unless another controller reads all pods.

    ``feeds`` must be those by which places are chosen: in another cache the newest nodes may be missing.
    """
    gates = context.configuration.topology_gates
    assert gates is not None, "workloads have places only with topology-aware scheduling"
    needed = asyncio.Event()

    def workload_changed(change: Change[Workload]) -> None:
        if not needed.is_set() and change.new is not None and has_places(change.new):
            needed.set()

    def flavor_changed(change: Change[ResourceFlavor]) -> None:
        if change.new is not None and change.new.spec.topology_name:
            needed.set()

    context.informers.workloads.subscribe(workload_changed)
    context.informers.flavors.subscribe(flavor_changed)
    await needed.wait()
    context.informers.workloads.add_index(WORKLOADS_OF, placed_pods_key)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pods.labelled.run(), name="watch pods with places")
        await synced(pods.labelled)
        ungater = Ungater(context, pods.labelled)
        await ungater.watch_pods()
        tasks.create_task(ungater.reconciler.run(), name=ungater.reconciler.name)
        if gates.detect_node_failures:
            tasks.create_task(pods.unlabelled.run(), name="watch unlabelled pods")
            await synced(pods.unlabelled, feeds.nodes, feeds.pods)
            failures = NodeFailureController(context, pods, feeds.nodes, ungater.set_blocked_hosts)
            await failures.watch_pods()
            tasks.create_task(failures.reconciler.run(), name=failures.reconciler.name)

"""Pods on a lost node that opt in to failure recovery are terminated, whichever controller they have."""

import pytest

from quorate.api.configuration import load_configuration
from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.controllers.limits import RECOVERY_GRACE_S
from quorate.kube.clock import WallClock
from quorate.kube.resources import EVENTS, NODES, PODS
from tests.api.configuration.files import a_file
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

RECOVERING = load_configuration(
    a_file("integrations: {frameworks: [batch/job]}\nfeatureGates: {FailureRecoveryPolicy: true}")
).configuration
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


class LateClock(WallClock):
    """A clock for which the grace period of a pod that is deleted now has ended."""

    def now(self) -> float:
        return super().now() + RECOVERY_GRACE_S + 5.0


async def create_pod(world: World, name: str, opts_in: str) -> None:
    metadata = {"name": name, "annotations": {"kueue.x-k8s.io/safe-to-forcefully-delete": opts_in}}
    spec = {
        "nodeName": "lost",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "i"}],
    }
    await world.client.create(PODS, {"metadata": metadata, "spec": spec}, NAMESPACE)


async def pods_of(world: World) -> dict[str, Pod]:
    return {pod.metadata.name: pod for pod in (await world.client.list(PODS, NAMESPACE)).items}


def test_a_pod_that_is_not_managed_is_terminated_once_its_node_is_unreachable() -> None:
    async def story(world: World) -> None:
        await world.start_queueing(RECOVERING, clock=LateClock())
        await world.create(NODES, "lost")
        await create_pod(world, "job-pod", "true")
        await create_pod(world, "careful", "false")
        for name in ("careful", "job-pod"):
            await world.client.delete(PODS, Key(NAMESPACE, name))
        assert (await pods_of(world)).keys() == {"careful", "job-pod"}
        await world.client.patch(NODES, Key("", "lost"), {"spec": {"taints": [UNREACHABLE]}})

        async def is_gone() -> bool:
            return "job-pod" not in await pods_of(world)

        async def is_reported() -> bool:
            events = (await world.client.list(EVENTS, NAMESPACE)).items
            return "KueueForcefullyDeleted" in {event.reason for event in events}

        await world.until("the pod is terminated", is_gone)
        await world.until("its end is reported", is_reported)
        (left,) = (await pods_of(world)).values()
        assert left.metadata.name == "careful"
        assert left.metadata.deletion_timestamp is not None

    run_story(story)

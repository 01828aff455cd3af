"""Pods that were made before their pod group was admitted, and are held back by gates, over HTTP."""

import pytest

from quorate.api.configuration import default_configuration
from quorate.kube.resources import POD_GROUPS, PODS
from tests.e2e.volcano import Gangs, play
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

OURS = "scheduling.quorate.dev/pod-group"
VOLCANOS = "scheduling.volcano.sh/queue-allocation-gate"


async def a_pod(gangs: Gangs, name: str, *gates: str, group: str = "a", asks: bool = False) -> None:
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    if asks:
        annotations[VOLCANOS] = "true"
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": "volcano",
        "schedulingGates": [{"name": gate} for gate in gates],
        "containers": [container],
    }
    metadata = {"name": name, "annotations": annotations}
    await gangs.client.create(PODS, {"metadata": metadata, "spec": spec}, NAMESPACE)


async def until_gates(gangs: Gangs, **want: list[str]) -> None:
    async def found() -> bool:
        pods = await gangs.pods()
        return want == {name: [gate.name for gate in pods[name].spec.scheduling_gates] for name in want}

    await gangs.world.until(f"gates {want}", found)


def test_gates_go_when_the_group_is_admitted_whoever_set_them_and_whenever() -> None:
    async def story(gangs: Gangs) -> None:
        world = gangs.world
        await gangs.client.create(
            POD_GROUPS, {"metadata": {"name": "a"}, "spec": {"minMember": 2}}, NAMESPACE
        )
        await a_pod(gangs, "own", OURS)
        await a_pod(gangs, "shared", "others.dev/hold", OURS)
        await a_pod(gangs, "lone", VOLCANOS, group="", asks=True)
        made = await gangs.until_group("lone")
        await gangs.turn(made, "Inqueue")
        await until_gates(gangs, lone=[], own=[OURS], shared=["others.dev/hold", OURS])

        await world.stop_queueing()
        (group,) = [each for each in (await gangs.client.list(POD_GROUPS)).items if each.metadata.name == "a"]
        await gangs.turn(group, "Inqueue")  # while nobody looks
        await world.start_queueing(default_configuration(), seed=2)
        await until_gates(gangs, own=[], shared=["others.dev/hold"])
        await a_pod(gangs, "late", OURS)
        await until_gates(gangs, late=[])

    play(story)

"""Gates on pods that were created before their pod group was admitted, over HTTP."""

import pytest

from quorate.api.configuration import default_configuration
from quorate.kube.resources import POD_GROUPS, PODS
from tests.e2e.volcano import Gangs, run_story
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

OUR_GATE = "scheduling.quorate.dev/pod-group"
VOLCANO_GATE = "scheduling.volcano.sh/queue-allocation-gate"


async def a_pod(gangs: Gangs, name: str, *gates: str, group: str = "a", requested: bool = False) -> None:
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    if requested:
        annotations[VOLCANO_GATE] = "true"
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


def test_gates_are_removed_once_the_group_is_admitted() -> None:
    async def scenario(gangs: Gangs) -> None:
        world = gangs.world
        await gangs.client.create(
            POD_GROUPS, {"metadata": {"name": "a"}, "spec": {"minMember": 2}}, NAMESPACE
        )
        await a_pod(gangs, "own", OUR_GATE)
        await a_pod(gangs, "shared", "example.dev/hold", OUR_GATE)
        await a_pod(gangs, "lone", VOLCANO_GATE, group="", requested=True)
        group_of_lone = await gangs.until_group("lone")
        await gangs.set_group_phase(group_of_lone, "Inqueue")
        await until_gates(gangs, lone=[], own=[OUR_GATE], shared=["example.dev/hold", OUR_GATE])

        await world.stop_queueing()
        (group,) = [each for each in (await gangs.client.list(POD_GROUPS)).items if each.metadata.name == "a"]
        await gangs.set_group_phase(group, "Inqueue")  # while no controller runs
        await world.start_queueing(default_configuration(), seed=2)
        await until_gates(gangs, own=[], shared=["example.dev/hold"])
        await a_pod(gangs, "late", OUR_GATE)
        await until_gates(gangs, late=[])

    run_story(scenario)

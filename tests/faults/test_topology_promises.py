"""Places above the capacity of a host are found, and those that ended pods have left are free."""

import pytest

from quorate.api import codec
from quorate.api.core import Pod
from quorate.api.kueue import Workload
from quorate.api.names.kueue import WORKLOAD_ANNOTATION
from tests.faults.history import Recorded, Step
from tests.faults.topology_promises import HOST, TopologyPromises


def workload(name: str, places: int, ended: int = 0, unplaced: int = 0) -> Workload:
    """Return a workload with ``places`` on the only host and none for ``unplaced`` pods.

    ``ended`` pods need no place any more.
    """
    values = {"domainCount": 1, "valuesPerLevel": [{"universal": "n"}], "podCounts": {"universal": places}}
    assigned = {
        "name": "main",
        "flavors": {"cpu": "tas"},
        "count": places + unplaced,
        "topologyAssignment": {"levels": [HOST], "slices": [values]},
    }
    status = {
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "admission": {"clusterQueue": "q", "podSetAssignments": [assigned]},
        "reclaimablePods": [{"name": "main", "count": ended}] if ended else [],
    }
    spec = {"podSets": [{"name": "main", "count": places}]}
    return codec.convert(
        Workload, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status}
    )


def pod(name: str, of: str) -> Pod:
    metadata = {"name": name, "namespace": "ns", "annotations": {WORKLOAD_ANNOTATION: of}}
    return codec.convert(Pod, {"metadata": metadata, "spec": {"nodeSelector": {HOST: "n"}}})


@pytest.mark.parametrize(
    ("history", "found"),
    [
        pytest.param(
            [workload("a", 2), workload("b", 1)],
            ["n has 2 cpus and places for 3 pods (at version 1)"],
            id="two workloads",
        ),
        pytest.param(
            [workload("a", 1, unplaced=1)],
            ["ns/a has places for 1 pods instead of 2 (at version 0)"],
            id="a pod without a place",
        ),
        pytest.param(
            [workload("a", 2), pod("a1", "a"), workload("a", 2, ended=1), workload("b", 1)],
            [],
            id="the place of an ended pod",
        ),
        pytest.param(
            [
                workload("a", 2),
                pod("a1", "a"),
                workload("a", 2, ended=1),
                workload("b", 1),
                pod("a2", "a"),
            ],
            ["n has 2 cpus and places for 3 pods (at version 4)"],
            id="a pod that comes back to a place that is another's",
        ),
    ],
)
def test_places_above_the_capacity_of_a_host_are_found(history: list[Recorded], found: list[str]) -> None:
    promises = TopologyPromises({"n": 2})
    assert [each for at, object_ in enumerate(history) for each in promises.step(Step(at, object_))] == found

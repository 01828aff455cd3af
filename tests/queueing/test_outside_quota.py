"""What pods use outside of quota counts in the usage of the cluster queue, as the workload records it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.queueing.outside_quota import ANNOTATION, OutsideUse, as_annotation, recorded_use
from quorate.queueing.pods_outside_quota import PodsOutside, find_pods_outside
from quorate.quota.amount import FlavorResource
from tests.queueing.given import replace
from tests.queueing.notation import Json
from tests.queueing.world import World, differences

CPU = FlavorResource("one", "cpu")
ADMITTED = [{"name": "job", "queue": "q", "count": 4, "requests": {"cpu": 1}}]


def world(*workloads: Json, cpu: int = 10, **extra: Any) -> World:
    given_ = {
        "flavors": ["one"],
        "clusterQueues": {"q": {"quota": [{"one": {"cpu": cpu}}]}},
        "workloads": list(workloads),
        **extra,
    }
    found = World(given_)
    found.run("cycle")
    return found


def a_pod(name: str, cpu: str = "1", node: str = "n", **metadata: Any) -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return codec.convert(
        Pod,
        {
            "metadata": {"name": name, "namespace": "default", "uid": name, **metadata},
            "spec": {"nodeName": node, "containers": [container]},
            "status": {"phase": "Running"},
        },
    )


def pods(count: int, cpu: str = "1") -> list[Pod]:
    return [a_pod(f"p{index}", cpu) for index in range(count)]


def found_in(world_: World, name: str, running: list[Pod]) -> PodsOutside:
    found = find_pods_outside(
        [world_.workloads[name]], running, world_.state.ledger.cluster_queues, world_.configuration
    )
    assert found is not None
    return found


def record(world_: World, name: str, use: OutsideUse | None) -> None:
    workload = world_.workloads[name]
    annotations = {key: value for key, value in workload.metadata.annotations.items() if key != ANNOTATION}
    if use is not None:
        annotations[ANNOTATION] = as_annotation(use)
    world_.put(name, replace(workload, metadata=replace(workload.metadata, annotations=annotations)))


def used(world_: World) -> int:
    return world_.state.ledger.cluster_queues["q"].node.usage.get(CPU, 0)


@pytest.mark.parametrize(
    ("running", "want"),
    [
        pytest.param(pods(4), 0, id="the pods that were admitted"),
        pytest.param(pods(3), 0, id="fewer pods"),
        pytest.param(pods(12), 8000, id="more pods"),
        pytest.param(pods(4, "2"), 4000, id="larger pods"),
        pytest.param(pods(2, "2"), 0, id="as much in fewer pods"),
        pytest.param(
            [*pods(4), a_pod("old", deletionTimestamp="2026-01-01T00:00:00Z")], 0, id="a pod that is replaced"
        ),
    ],
)
def test_pods_are_outside_of_quota_beyond_what_is_charged(running: list[Pod], want: int) -> None:
    found = found_in(world(*ADMITTED), "job", running)
    assert (0 if found.use is None else found.use.usage[CPU]) == want


def test_reclaimed_pods_are_not_charged() -> None:
    world_ = world(*ADMITTED)
    world_.run({"reclaim": {"job": {"main": 3}}})
    found = found_in(world_, "job", pods(2))
    assert found.use == OutsideUse("q", {CPU: 1000})


def test_the_first_pods_to_stop_are_foreign_then_the_newest() -> None:
    labels = {"kueue.x-k8s.io/podset": "main"}
    own = [
        a_pod(f"own-{index}", labels=labels, creationTimestamp=f"2026-01-01T00:00:0{index}Z")
        for index in range(5)
    ]
    found = found_in(world(*ADMITTED), "job", [*own, a_pod("child")])
    assert found.message == (
        "its pods use 2 cpu of flavor one more than quota is charged for: "
        "child, own-4, own-3, own-2, own-1 and 1 more"
    )
    assert [pod.metadata.name for pod in found.to_stop] == ["child", "own-4"]


def test_nothing_is_admitted_on_quota_that_pods_use_outside() -> None:
    world_ = world(*ADMITTED, {"name": "next", "queue": "q", "requests": {"cpu": 1}, "create": "later"})
    record(world_, "job", OutsideUse("q", {CPU: 6000}))
    world_.run({"create": ["next"]})
    world_.run("cycle")
    assert set(world_.admitted()) == {"job"}
    record(world_, "job", None)
    world_.run("cycle")
    assert set(world_.admitted()) == {"job", "next"}


def test_a_deactivated_workload_uses_quota_while_its_pods_run() -> None:
    """It is not charged any more: what its pods use is outside of quota."""
    world_ = world(*ADMITTED)
    world_.run({"active": {"job": False}})
    found = found_in(world_, "job", pods(4))
    assert found.use == OutsideUse("q", {CPU: 4000})
    record(world_, "job", found.use)
    assert used(world_) == 4000


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"clusterQueue": "q", "flavors": {"one": {"cpu": "x"}}}'])
def test_an_annotation_of_another_form_records_nothing(text: str) -> None:
    metadata: Json = {"name": "w", "annotations": {ANNOTATION: text}}
    assert recorded_use(codec.convert(Workload, {"metadata": metadata})) is None


uses = st.none() | st.builds(
    lambda queue, cpu: OutsideUse(queue, {CPU: cpu * 1000}), st.sampled_from("qr"), st.integers(1, 9)
)


@given(st.lists(st.tuples(st.sampled_from(["job", "other"]), uses), max_size=8), st.booleans())
def test_usage_is_what_reservations_and_recorded_uses_add_up_to(
    changes: list[tuple[str, OutsideUse | None]], deletes: bool
) -> None:
    world_ = world(*ADMITTED, {"name": "other", "queue": "q", "requests": {"cpu": 20}})
    last: dict[str, OutsideUse | None] = {}
    for name, use in changes:
        record(world_, name, use)
        last[name] = use
        assert recorded_use(world_.workloads[name]) == use
        assert differences(world_.state, world_.workloads.values()) == []
    expected = sum(use.usage[CPU] for use in last.values() if use is not None and use.cluster_queue == "q")
    assert used(world_) == 4000 + expected
    if deletes:
        world_.run({"delete": ["job"]})
        other = last.get("other")
        assert used(world_) == (other.usage[CPU] if other is not None and other.cluster_queue == "q" else 0)
    queue = world_.state.ledger.cluster_queues["q"].object
    before = used(world_)
    world_.state.remove_cluster_queue("q")
    world_.state.put_cluster_queue(queue)
    assert used(world_) == before

"""What the recorder keeps of a cycle."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api.meta import Key
from quorate.kube.informer import Change
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.exposition import resource_of
from quorate.observe.queueing_metrics import readings
from quorate.observe.recorder import Recorder
from quorate.observe.view import View
from quorate.queueing.decisions import CycleResult
from tests.observe.test_visibility import a_silent_informer
from tests.queueing.test_nomination import RECLAIMING, queue
from tests.queueing.test_reserved_windows import CLOSES, OPENS, a_reservation, a_world, job
from tests.queueing.world import World


def test_a_preemptor_of_the_same_victim_counts_as_skipped() -> None:
    world = World(
        {
            "config": {"featureGates": {"RecomputeAssignmentUponPreemptionTargetsOverlap": False}},
            "flavors": ["default"],
            "clusterQueues": RECLAIMING | {"hog": queue(0, cohort="c")},
            "workloads": [
                {"name": "victim", "queue": "hog", "requests": {"cpu": 8}, "admitted": "default"},
                {"name": "first", "queue": "b", "priority": 1, "requests": {"cpu": 4}},
                {"name": "second", "queue": "a", "requests": {"cpu": 4}},
            ],
        }
    )
    recorder = Recorder(lambda: "leader", CustomLabels())
    recorder.cycle_ended(world.admission_cycle.run(world.now), 0.1)
    assert recorder.preemption_skips == {"a": 1}
    recorder.cycle_ended(world.admission_cycle.run(world.now), 0.1)
    assert recorder.preemption_skips == {"a": 1}, "a cycle that decides nothing changes nothing"


@pytest.mark.parametrize(
    ("hog", "want"),
    [
        pytest.param(
            [{"name": "victim", "requests": {"cpu": 8}}], "deferred_fit", id="the first frees enough"
        ),
        pytest.param(
            [{"name": "v", "priority": -2, "requests": {"cpu": 4}}, {"name": "u", "requests": {"cpu": 4}}],
            "new_targets",
            id="another target frees the rest",
        ),
    ],
)
def test_recomputed_preemption_targets_are_counted(hog: list[dict[str, Any]], want: str) -> None:
    running = [{**each, "queue": "hog", "admitted": "default"} for each in hog]
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": RECLAIMING | {"hog": queue(0, cohort="c")},
            "workloads": [
                *running,
                {"name": "first", "queue": "b", "priority": 1, "requests": {"cpu": 4}},
                {"name": "second", "queue": "a", "requests": {"cpu": 4}},
            ],
        }
    )
    cycle = world.admission_cycle.run(world.now)
    assert {(each.cluster_queue, each.result) for each in cycle.recomputations} == {("a", want)}
    recorder = Recorder(lambda: "leader", CustomLabels())
    recorder.cycle_ended(cycle, 0.1)
    labels = {"cluster_queue": "a", "result": want, "replica_role": "leader"}
    name = "kueue_preemption_target_recomputations_total"
    assert recorder.registry.get_sample_value(name, labels) == len(cycle.recomputations)


def test_a_series_of_a_deleted_queue_starts_again_at_zero() -> None:
    recorder = Recorder(lambda: "leader", CustomLabels())
    name, labels = (
        "kueue_preempted_workloads_total",
        {"preempting_cluster_queue": "a", "reason": "InClusterQueue"},
    )

    def value() -> float | None:
        return recorder.registry.get_sample_value(name, labels | {"replica_role": "leader"})

    recorder.record(name, labels)
    recorder.record(name, labels)
    assert value() == 2
    recorder.forget({"preempting_cluster_queue": "a"})
    assert value() is None
    recorder.record(name, labels)
    assert value() == 1


def test_series_of_a_cohort_end_when_it_has_neither_queues_nor_an_object() -> None:
    name = "kueue_cohort_subtree_admitted_workloads_total"
    world = World({"flavors": ["default"], "clusterQueues": {"a": queue(4, cohort="c")}, "workloads": [
        {"name": "w", "queue": "a", "requests": {"cpu": 1}}
    ]})  # fmt: skip
    recorder = Recorder(lambda: "leader", CustomLabels())
    before = world.workloads["w"]
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    recorder.workload_changed(Change(before, world.workloads["w"]), world.state)

    def value() -> float | None:
        labels = {"cohort": "c", "priority_class": "", "replica_role": "leader"}
        return recorder.registry.get_sample_value(name, labels)

    assert value() == 1
    cluster_queue = world.state.ledger.cluster_queues["a"].object
    recorder.cohorts_changed(world.state)  # the object of the cohort, not the cohort, is deleted
    assert value() == 1
    world.state.remove_cluster_queue("a")
    recorder.cluster_queue_changed(Change(cluster_queue, None), world.state)
    assert value() is None


def test_the_next_workload_counts_in_the_cohort_to_which_its_queue_has_moved() -> None:
    name = "kueue_cohort_subtree_admitted_workloads_total"
    world = World({"flavors": ["default"], "clusterQueues": {"a": queue(4, cohort="c")}, "workloads": [
        {"name": "w", "queue": "a", "requests": {"cpu": 1}}
    ]})  # fmt: skip
    recorder = Recorder(lambda: "leader", CustomLabels())
    before = world.workloads["w"]
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    counted = []
    for cohort in ("c", "c", "d"):
        old = world.state.ledger.cluster_queues["a"].object
        new = replace(old, spec=replace(old.spec, cohort_name=cohort))
        world.state.put_cluster_queue(new)
        recorder.cluster_queue_changed(Change(old, new), world.state)
        recorder.workload_changed(Change(before, world.workloads["w"]), world.state)
        labels = {"cohort": cohort, "priority_class": "", "replica_role": "leader"}
        counted.append(recorder.registry.get_sample_value(name, labels))
    assert counted == [1, 2, 1]


def test_a_cohort_without_a_parent_is_its_own_root() -> None:
    queues = {"a": queue(4, cohort="leaf"), "b": queue(4, cohort="top"), "c": queue(4)}
    world = World({"flavors": ["default"], "cohorts": {"leaf": {"parent": "top"}}, "clusterQueues": queues})
    view = View(world.state, a_silent_informer(), CustomLabels())
    found = {
        reading.labels.get("cohort", reading.labels.get("cluster_queue")): (
            reading.labels["parent_cohort"],
            reading.labels["root_cohort"],
        )
        for reading in readings(view, {})
        if reading.name.endswith("_info")
    }
    assert found == {
        "leaf": ("top", "top"), "top": ("", "top"), "a": ("leaf", "top"), "b": ("top", "top"), "c": ("", "")
    }  # fmt: skip


def test_gauges_that_cannot_be_computed_are_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    queues = {"broken": queue(4), "sound": queue(4)}
    world = World({"flavors": ["default"], "clusterQueues": queues})
    broken: Any = world.state.ledger.cluster_queues["broken"]
    broken.inactive_reasons = 4  # as a bug may leave it
    view = View(world.state, a_silent_informer(), CustomLabels())
    found = {
        name: sorted(
            {reading.labels["cluster_queue"] for reading in readings(view, {}) if reading.name == name}
        )
        for name in ("reserving_active_workloads", "cluster_queue_status", "cluster_queue_info")
    }
    assert found == {
        "reserving_active_workloads": ["broken", "sound"],
        "cluster_queue_status": ["sound"],
        "cluster_queue_info": ["sound"],
    }
    assert "gauges of an object cannot be computed" in caplog.text


def test_series_of_different_roles_are_different() -> None:
    roles = iter(("follower", "leader"))
    recorder = Recorder(lambda: next(roles), CustomLabels())
    for _ in range(2):
        recorder.record("quorate_audits_total", {"result": "same"})
    for role in ("follower", "leader"):
        labels = {"result": "same", "replica_role": role}
        assert recorder.registry.get_sample_value("quorate_audits_total", labels) == 1


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/default", "namespaces"),
        ("/api/v1/namespaces/default/status", "namespaces/status"),
        ("/api/v1/namespaces/default/pods", "pods"),
        ("/api/v1/namespaces/default/pods/a/binding", "pods/binding"),
        ("/apis/batch/v1/namespaces/default/jobs/a", "jobs.batch"),
        ("/apis/kueue.x-k8s.io/v1beta2/namespaces/a/workloads/w/status", "workloads.kueue.x-k8s.io/status"),
        ("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/c/status", "clusterqueues.kueue.x-k8s.io/status"),
        ("/apis/kueue.x-k8s.io/v1beta2", "other"),
        ("/version", "other"),
    ],
)
def test_the_resource_of_a_request_follows_from_its_path(path: str, want: str) -> None:
    assert resource_of(path) == want


def test_only_writes_that_would_be_refused_again_are_counted_as_refused() -> None:
    recorder = Recorder(lambda: "leader", CustomLabels())
    path = "/apis/batch/v1/namespaces/a/jobs/b"
    for verb, code in (
        ("PATCH", 422), ("PATCH", 422), ("POST", 403), ("GET", 403), ("WATCH", 400), ("PATCH", 409),
        ("DELETE", 404), ("PATCH", 429), ("PATCH", 500), ("PATCH", 0), ("PATCH", 200),
    ):  # fmt: skip
        recorder.request_answered(verb, path, code, 0.1)
    counted = {
        (sample.labels["resource"], sample.labels["code"]): sample.value
        for family in recorder.registry.collect()
        for sample in family.samples
        if sample.name == "quorate_refused_writes_total"
    }
    assert counted == {("jobs.batch", "422"): 2, ("jobs.batch", "403"): 1}


def values_of(world: World, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    view = View(world.state, a_silent_informer(), CustomLabels())
    return {
        tuple(reading.labels[label] for label in labels): reading.value
        for reading in readings(view, {})
        if reading.name == name
    }


@pytest.mark.parametrize("gate", [True, False])
def test_shapes_of_pending_workloads_are_counted(gate: bool) -> None:
    sizes = {"a": 3, "b": 3, "c": 9}
    world = World(
        {
            "config": {"featureGates": {"SchedulingEquivalenceHashing": gate}},
            "flavors": ["default"],
            "clusterQueues": {"q": queue(2), "empty": queue(2)},
            "workloads": [
                {"name": name, "queue": "q", "requests": {"cpu": cpu}} for name, cpu in sizes.items()
            ],
        }
    )
    labels = ("cluster_queue", "status")
    counts = values_of(world, "pending_scheduling_hashes", *labels)
    idle = {("empty", "active"): 0, ("empty", "inadmissible"): 0}
    assert counts == (idle | {("q", "active"): 2, ("q", "inadmissible"): 0} if gate else {})
    if gate:
        world.admission_cycle.run(world.now)
        counts = values_of(world, "pending_scheduling_hashes", *labels)
        assert counts == idle | {("q", "active"): 0, ("q", "inadmissible"): 2}


def test_an_amount_beyond_int64_is_infinite() -> None:
    quota = {"default": {"cpu": "9223372036854775", "memory": "9223372036854775807", "example.com/gpu": 7}}
    world = World(
        {
            "config": {"metrics": {"enableClusterQueueResources": True}},
            "flavors": ["default"],
            "clusterQueues": {"q": {"quota": [quota], "cohort": "c"}},
        }
    )
    assert values_of(world, "cohort_subtree_quota", "resource") == {
        ("cpu",): 9223372036854775.0,
        ("memory",): math.inf,
        ("example.com/gpu",): 7.0,
    }


def test_a_cohort_that_moved_counts_its_admitted_workloads_in_its_new_parent() -> None:
    world = World(
        {
            "flavors": ["default"],
            "cohorts": {"leaf": {"parent": "old"}, "old": {}, "new": {}},
            "clusterQueues": {"q": queue(4, cohort="leaf")},
            "workloads": [{"name": "w", "queue": "q", "requests": {"cpu": 1}, "admitted": "default"}],
        }
    )
    name = "cohort_subtree_admitted_active_workloads"
    assert values_of(world, name, "cohort") == {("leaf",): 1, ("old",): 1, ("new",): 0}
    world.run({"update": {"cohorts": {"leaf": {"parent": "new"}}}})
    assert values_of(world, name, "cohort") == {("leaf",): 1, ("old",): 0, ("new",): 1}


def test_what_reservations_refuse_is_counted_until_the_reservation_is_deleted() -> None:
    reservation = a_reservation(OPENS, CLOSES)
    world = a_world(job("other", 13), reservations=(reservation,))
    recorder = Recorder(lambda: "leader", CustomLabels())

    def refusals() -> float | None:
        labels = {"reservation": "night", "replica_role": "leader"}
        return recorder.registry.get_sample_value("quorate_reservation_refusals_total", labels)

    hold = world.state.ledger.entries[Key("default", "other")].hold
    assert hold is not None
    recorder.cycle_ended(CycleResult(decisions=(hold, hold), wake_at=None), 0.1)
    assert refusals() == 2
    recorder.reservation_changed(Change(reservation, None))
    assert refusals() is None

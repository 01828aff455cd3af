"""What the recorder keeps of a cycle."""

import pytest

from quorate.observe.api_requests import resource_of
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.recorder import Recorder
from tests.queueing.test_nomination import RECLAIMING, queue
from tests.queueing.world import World


def test_a_preemptor_of_the_same_victim_counts_as_skipped() -> None:
    world = World(
        {
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

"""What the recorder keeps of a cycle."""

import pytest

from quorate.observe.custom_labels import CustomLabels
from quorate.observe.recorder import Recorder, resource_of
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

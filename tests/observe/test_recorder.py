"""What a cycle leaves behind for those who watch."""

from quorate.observe.custom_labels import CustomLabels
from quorate.observe.recorder import Recorder
from tests.queueing.test_reasons import RECLAIMING, queue
from tests.queueing.world import World


def test_who_wanted_the_same_victim_too_was_passed_over() -> None:
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

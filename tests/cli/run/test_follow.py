"""A run ends when every job has ended or its cluster was quiet for long enough; never on a short pause."""

import pytest

from quorate.cli.run.follow import SETTLED_AFTER_S, QuietPeriod, ending_of
from quorate.cli.run.report import Completed, Deadlocked, Ending, Failed
from quorate.processes.local.observation import ObservedCluster
from tests.processes.local.clusters import JobExample, a_cluster, condition

COMPLETE = {"conditions": [condition("Complete")]}
FAILED = {"conditions": [condition("Failed")]}
STUCK = {"idle": 14, "unplaced": 6}


@pytest.mark.parametrize(
    ("cluster", "quiet_s", "ending"),
    [
        pytest.param(a_cluster(JobExample("a", STUCK)), SETTLED_AFTER_S - 0.1, None, id="a pause is no end"),
        pytest.param(a_cluster(JobExample("a", STUCK)), SETTLED_AFTER_S, Deadlocked, id="a quiet period is"),
        pytest.param(a_cluster(), 0.0, None, id="without jobs nothing has ended"),
        pytest.param(a_cluster(JobExample("a", job_status=COMPLETE)), 0.0, Completed),
        pytest.param(
            a_cluster(JobExample("a", job_status=COMPLETE), JobExample("b", job_status=FAILED)),
            0.0,
            Failed,
            id="one failed",
        ),
        pytest.param(
            a_cluster(JobExample("a", STUCK), JobExample("b", job_status=FAILED)),
            0.0,
            None,
            id="one failed, one is left",
        ),
    ],
)
def test_the_end_of_a_run(cluster: ObservedCluster, quiet_s: float, ending: type[Ending] | None) -> None:
    evaluated = ending_of(cluster, None, quiet_s)
    assert (evaluated is None) if ending is None else isinstance(evaluated, ending)


def test_a_quiet_period_begins_again_with_each_write_and_each_pending_change() -> None:
    before, after = a_cluster(JobExample("a", STUCK)), a_cluster(JobExample("a", {"idle": 15, "unplaced": 5}))
    observations = [
        (before, True, 1.0, 0.0),
        (before, False, 2.0, 1.0),
        (before, False, 4.5, 3.5),
        (after, False, 5.0, 0.0),  # a pod was written
        (after, False, 6.0, 1.0),
        (after, True, 7.0, 0.0),  # a clock runs
        (after, False, 7.5, 0.5),
    ]
    quiet_period = QuietPeriod()
    for cluster, changes_pending, moment, duration_s in observations:
        assert quiet_period.duration_s(cluster, changes_pending, moment) == duration_s

"""How long a simulated job runs with the pods that it got."""

import pytest

from quorate.api import codec
from quorate.api.kueue import Workload
from quorate.simulate.engine.simulated_job import SimulatedJob, granted_counts, shrunk_ms, stretched_ms
from quorate.simulate.inputs.submissions import Submission


def a_job(wanted: tuple[int, ...], granted: tuple[int | None, ...]) -> SimulatedJob:
    assignments = [{"name": f"set-{index}", "count": count} for index, count in enumerate(granted)]
    admission = {"clusterQueue": "q", "podSetAssignments": assignments}
    workload = {"metadata": {"name": "w", "namespace": "default"}, "status": {"admission": admission}}
    submission = Submission(0, 0, 0, 0, wanted, 60_000, 0, 0, None)
    return SimulatedJob(0, submission, codec.convert(Workload, workload))


@pytest.mark.parametrize(
    ("wanted", "granted", "stretched"),
    [
        pytest.param((1, 3), (1, 3), 60_000, id="all pods"),
        pytest.param(
            (1, 3), (None, None), 60_000, id="an assignment without a count has all pods of its set"
        ),
        pytest.param((1, 3), (None, 1), 120_000, id="half of the pods"),
    ],
)
def test_a_job_takes_the_longer_the_fewer_pods_it_got(
    wanted: tuple[int, ...], granted: tuple[int | None, ...], stretched: int
) -> None:
    job = a_job(wanted, granted)
    assert stretched_ms(60_000, job) == stretched
    assert shrunk_ms(stretched, job) == 60_000
    assert sum(granted_counts(job)) * stretched == sum(wanted) * 60_000

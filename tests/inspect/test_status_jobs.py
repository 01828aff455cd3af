"""The jobs that `quorate status` shows without a Workload."""

import pytest

from quorate.api import codec
from quorate.api.volcano.job import Job
from quorate.inspect.status.jobs import without_workload


@pytest.mark.parametrize(
    ("phase", "state"), [("Pending", "Queued"), ("Running", "Running"), ("Completed", "Finished")]
)
def test_a_volcano_job_of_which_the_pod_group_may_not_be_read_has_the_state_of_its_phase(
    phase: str, state: str
) -> None:
    job = codec.convert(
        Job,
        {
            "metadata": {"name": "train", "namespace": "lab", "uid": "train"},
            "spec": {"tasks": [{"name": "main", "replicas": 2, "template": {}}]},
            "status": {"state": {"phase": phase}, "running": 2},
        },
    )
    assert [shown.state for shown in without_workload((), (job,), (), frozenset(), {})] == [state]

"""The jobs that `quorate status` shows without a Workload."""

import pytest

from quorate.api import codec, native_groups
from quorate.api.batch import Job as BatchJob
from quorate.api.volcano.job import Job
from quorate.gang.cache.native_groups import as_volcano_group
from quorate.inspect.explain.summaries import Summaries
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
    (status,) = without_workload((), (job,), (), frozenset(), {}, Summaries({}))
    assert status.state == state


@pytest.mark.parametrize(
    ("scheduled", "ready", "shown"),
    [
        pytest.param("False", 0, ("Queued", "NotEnoughResources"), id="its group waits for nodes"),
        pytest.param("True", 0, ("Admitted", ""), id="its group has nodes"),
        pytest.param("False", 2, ("Running", ""), id="its pods run"),
    ],
)
def test_a_batch_job_waits_with_the_native_pod_group_that_it_owns(
    scheduled: str, ready: int, shown: tuple[str, str]
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job", "controller": True}
    condition = {
        "type": "PodGroupScheduled",
        "status": scheduled,
        "reason": "Unschedulable",
        "message": "NotEnoughResources: 2 of 2 members found no node",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    group = {
        "metadata": {"name": "ring", "namespace": "lab", "uid": "group", "ownerReferences": [owner]},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        "status": {"conditions": [condition]},
    }
    job = {
        "metadata": {"name": "train", "namespace": "lab", "uid": "job"},
        "spec": {"parallelism": 2, "template": {}},
        "status": {"ready": ready},
    }
    groups = [as_volcano_group(codec.convert(native_groups.PodGroup, group))]
    (status,) = without_workload([codec.convert(BatchJob, job)], (), groups, frozenset(), {}, Summaries({}))
    assert (status.state, status.code) == shown

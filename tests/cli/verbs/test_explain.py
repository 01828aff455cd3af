"""``quorate workload explain`` adds the state of the pod group to an admitted workload."""

import pytest

from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, OwnerReference, Uid
from quorate.api.volcano import PodGroup, PodGroupCondition, PodGroupStatus
from quorate.cli.verbs.explain.command import with_pod_group
from quorate.cli.verbs.explain.explanation import WorkloadExplanation

UNSCHEDULABLE = PodGroupCondition(
    type="Unschedulable",
    status="True",
    reason="NotEnoughResources",
    message="cluster: cpu: need 6, have 2 now",
)


def owned_by(job: str) -> ObjectMeta:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name=job, uid=Uid(job))
    return ObjectMeta(name=f"of-{job}", namespace="lab", owner_references=(owner,))


@pytest.mark.parametrize(
    ("of", "phase", "standing", "says"),
    [
        pytest.param(
            "train",
            "Pending",
            "has quota",
            "it is admitted, and its pod group waits: NotEnoughResources: cluster: cpu: need 6, have 2 now "
            "(quorate podgroup explain of-train shows more)",
            id="its pod group is pending",
        ),
        pytest.param("train", "Inqueue", "runs", "it is admitted", id="its pod group is admitted too"),
        pytest.param(
            "other", "Pending", "runs", "it is admitted", id="the pod group of another job is pending"
        ),
    ],
)
def test_an_admitted_job_may_wait_for_its_pod_group(of: str, phase: str, standing: str, says: str) -> None:
    group = PodGroup(metadata=owned_by(of), status=PodGroupStatus(phase=phase, conditions=(UNSCHEDULABLE,)))
    admitted = WorkloadExplanation(workload="lab/of-train", standing="runs", says="it is admitted")
    explanation = with_pod_group(admitted, Workload(metadata=owned_by("train")), [group])
    assert (explanation.standing, explanation.says) == (standing, says)

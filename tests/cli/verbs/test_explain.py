"""What ``quorate workload explain`` adds to the account of a workload that is admitted."""

import pytest

from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, OwnerReference, Uid
from quorate.api.volcano import PodGroup, PodGroupCondition, PodGroupStatus
from quorate.cli.verbs.explain.command import with_pod_group
from quorate.cli.verbs.explain.explanation import WorkloadExplanation

LACKS = PodGroupCondition(
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
            "(quorate podgroup explain of-train tells more)",
            id="its group waits",
        ),
        pytest.param("train", "Inqueue", "runs", "it is admitted", id="its group is admitted too"),
        pytest.param("other", "Pending", "runs", "it is admitted", id="another job's group waits"),
    ],
)
def test_an_admitted_job_may_wait_for_its_pod_group(of: str, phase: str, standing: str, says: str) -> None:
    group = PodGroup(metadata=owned_by(of), status=PodGroupStatus(phase=phase, conditions=(LACKS,)))
    admitted = WorkloadExplanation(workload="lab/of-train", standing="runs", says="it is admitted")
    account = with_pod_group(admitted, Workload(metadata=owned_by("train")), [group])
    assert (account.standing, account.says) == (standing, says)

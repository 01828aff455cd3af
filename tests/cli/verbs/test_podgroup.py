"""``quorate podgroup`` explains a pod group from its stored status."""

from collections.abc import Mapping

import pytest

from quorate.api.meta import ObjectMeta
from quorate.api.scheduler_configuration import default_scheduler_configuration
from quorate.api.volcano import PodGroup, PodGroupCondition, PodGroupSpec, PodGroupStatus
from quorate.gang.reports import WaitingGroup
from quorate.inspect.explain.pod_groups import explain_group

UNSCHEDULABLE = PodGroupCondition(
    type="Unschedulable",
    status="True",
    transition_id="2026-11-21T10:00:00.000000Z",
    reason="NotEnoughResources",
    message="cluster: cpu: need 2, have 1 now",
)
EARLIER = {"scheduling.volcano.sh/inqueue-since": "2026-11-21T09:59:00.000000Z"}
LATER = {"scheduling.volcano.sh/inqueue-since": "2026-11-21T10:01:00.000000Z"}
ROLLED_BACK = WaitingGroup(
    position=1, waiting=1, checks={}, plan=None, blocked=False, not_before=1.0, attempts=1
)


@pytest.mark.parametrize(
    ("phase", "annotations", "members", "outlook", "state"),
    [
        pytest.param(
            "",
            {},
            0,
            None,
            "queue team does not exist, or the pod group is being deleted",
            id="no such queue",
        ),
        pytest.param(
            "Pending",
            {"quorate.dev/suspended": "true"},
            0,
            None,
            "its Workload is not admitted (quorate workload explain podgroup/train)",
            id="without quota of its cluster queue",
        ),
        pytest.param(
            "Pending",
            {},
            0,
            ROLLED_BACK,
            "requeued, not retried yet",
            id="in its backoff",
        ),
        pytest.param(
            "Inqueue", LATER, 0, None, "its pods may be created: 0 of 2 exist", id="admitted, without pods"
        ),
        pytest.param("Inqueue", LATER, 2, None, "", id="the reason is over once it is admitted"),
        pytest.param(
            "Inqueue",
            EARLIER,
            2,
            None,
            "NotEnoughResources: cluster: cpu: need 2, have 1 now",
            id="its pods are unschedulable since it is admitted",
        ),
    ],
)
def test_the_state_of_a_pod_group(
    phase: str, annotations: Mapping[str, str], members: int, outlook: WaitingGroup | None, state: str
) -> None:
    group = PodGroup(
        metadata=ObjectMeta(name="train", namespace="lab", annotations=dict(annotations)),
        spec=PodGroupSpec(min_member=2, queue="team"),
        status=PodGroupStatus(phase=phase, conditions=(UNSCHEDULABLE,)),
    )
    assert explain_group(group, members, outlook, default_scheduler_configuration()).state == state

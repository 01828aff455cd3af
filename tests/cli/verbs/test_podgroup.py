"""What ``quorate podgroup`` tells of a group, from what is stored of it."""

from collections.abc import Mapping

import pytest

from quorate.api.meta import ObjectMeta
from quorate.api.scheduler_configuration import default_scheduler_configuration
from quorate.api.volcano import PodGroup, PodGroupCondition, PodGroupSpec, PodGroupStatus
from quorate.cli.verbs.podgroup import explain_group
from quorate.gang.reports import WaitingGroup

LACKS = PodGroupCondition(
    type="Unschedulable",
    status="True",
    transition_id="2026-11-21T10:00:00.000000Z",
    reason="NotEnoughResources",
    message="cluster: cpu: need 2, have 1 now",
)
EARLIER = {"scheduling.volcano.sh/inqueue-since": "2026-11-21T09:59:00.000000Z"}
LATER = {"scheduling.volcano.sh/inqueue-since": "2026-11-21T10:01:00.000000Z"}
ROLLED_BACK = WaitingGroup(position=1, waiting=1, checks={}, blocked=False, not_before=1.0, attempts=1)


@pytest.mark.parametrize(
    ("phase", "annotations", "members", "outlook", "state"),
    [
        pytest.param(
            "", {}, 0, None, "its queue team does not exist, or it is being deleted", id="no such queue"
        ),
        pytest.param(
            "Pending",
            {},
            0,
            ROLLED_BACK,
            "was sent back, and is not tried again yet",
            id="in its back-off",
        ),
        pytest.param(
            "Inqueue", LATER, 0, None, "its pods may be created: 0 of 2 exist", id="admitted, without pods"
        ),
        pytest.param("Inqueue", LATER, 2, None, "", id="why it waited is over once it is admitted"),
        pytest.param(
            "Inqueue",
            EARLIER,
            2,
            None,
            "NotEnoughResources: cluster: cpu: need 2, have 1 now",
            id="what its pods lack since it is admitted",
        ),
    ],
)
def test_where_a_group_stands(
    phase: str, annotations: Mapping[str, str], members: int, outlook: WaitingGroup | None, state: str
) -> None:
    group = PodGroup(
        metadata=ObjectMeta(name="train", namespace="lab", annotations=dict(annotations)),
        spec=PodGroupSpec(min_member=2, queue="team"),
        status=PodGroupStatus(phase=phase, conditions=(LACKS,)),
    )
    assert explain_group(group, members, outlook, default_scheduler_configuration()).state == state

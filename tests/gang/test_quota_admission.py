"""What members hear that a cluster queue did not admit."""

from typing import Any

import pytest

from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]
CONF: Json = {"actions": "enqueue, allocate", "tiers": [["gang"], ["predicates"]]}
GROUP: Json = {"name": "g", "minMember": 1, "minResources": {"cpu": 1}, "quota": {"count": 1}}
NEAR: Json = {"highestTierAllowed": 1}


@pytest.mark.parametrize(
    ("group", "cpu", "binds", "want"),
    [
        pytest.param(GROUP, 1, 1, "the cluster queue admitted 1 pod, with minResources in all",
                     id="more members"),
        pytest.param(GROUP | {"networkTopology": NEAR}, 1, 1,
                     "the cluster queue admitted 1 pod, with minResources in all", id="in a HyperNode"),
        pytest.param(GROUP, 2, 0, "the cluster queue admitted 1 pod, with minResources in all",
                     id="larger members"),
        pytest.param(GROUP | {"quota": "suspended"}, 1, 0,
                     "its Workload is not admitted by a cluster queue (quorate workload explain "
                     "podgroup/NAME)",
                     id="no quota"),
    ],
)  # fmt: skip
def test_members_without_quota_are_told_so(group: Json, cpu: int, binds: int, want: str) -> None:
    given = {
        "nodes": [{"name": "n1", "cpu": 8}],
        "hyperNodes": [{"name": "leaf", "tier": 1, "nodes": "n1"}],
        "podGroups": [group],
        "pods": [{"name": "g", "count": 2, "group": "g", "cpu": cpu}],
    }
    outcome = World(given, settings_of(CONF, "design"), restarting=False).session()
    assert len(outcome.binds) == binds
    assert [str(reason) for reason in outcome.pending_reasons.values()] == [want]

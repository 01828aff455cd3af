"""What a pod group asks for in vain is said field by field."""

import pytest

from quorate.api.volcano import NetworkTopology, PodGroupSpec, SubGroupPolicy
from quorate.scheduler.unserved import unserved

NEAR = NetworkTopology(mode="hard", highest_tier_allowed=1)
ELSEWHERE = (
    "is not served: members are placed without regard to the network "
    "(pod affinity to a node label such as the rack's keeps them near each other)"
)
IN_PART = "is not served: minMember and minTaskMember say which members start together, and"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(PodGroupSpec(min_member=4, queue="team"), [], id="nothing unusual"),
        pytest.param(
            PodGroupSpec(network_topology=NEAR), [f"spec.networkTopology (hard) {ELSEWHERE}"], id="topology"
        ),
        pytest.param(
            PodGroupSpec(sub_group_policy=(SubGroupPolicy(name="decode"), SubGroupPolicy())),
            [
                f"spec.subGroupPolicy[0] {IN_PART} decode may start in part",
                f"spec.subGroupPolicy[1] {IN_PART} its sub groups may start in part",
            ],
            id="sub groups",
        ),
        pytest.param(
            PodGroupSpec(sub_group_policy=(SubGroupPolicy(name="decode", network_topology=NEAR),)),
            [
                f"spec.subGroupPolicy[0] {IN_PART} decode may start in part",
                f"spec.subGroupPolicy[0].networkTopology (hard) {ELSEWHERE}",
            ],
            id="sub groups near each other",
        ),
    ],
)
def test_what_is_not_served_is_said(spec: PodGroupSpec, said: list[str]) -> None:
    assert list(unserved(spec)) == said

"""Each field of a pod group that has no effect is reported."""

import pytest

from quorate.api.volcano import NetworkTopology, PodGroupSpec, SubGroupPolicy
from quorate.scheduler.unsupported import unsupported_fields

HARD = NetworkTopology(mode="hard", highest_tier_allowed=1)
WITHOUT_TOPOLOGY = (
    "is not served: members are placed without regard to the network "
    "(pod affinity to a node label such as the rack's keeps them near each other)"
)
PARTIAL = "is not served: minMember and minTaskMember say which members start together, and"


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param(PodGroupSpec(min_member=4, queue="team"), [], id="no unsupported field"),
        pytest.param(
            PodGroupSpec(network_topology=HARD),
            [f"spec.networkTopology (hard) {WITHOUT_TOPOLOGY}"],
            id="network topology",
        ),
        pytest.param(
            PodGroupSpec(sub_group_policy=(SubGroupPolicy(name="decode"), SubGroupPolicy())),
            [
                f"spec.subGroupPolicy[0] {PARTIAL} decode may start in part",
                f"spec.subGroupPolicy[1] {PARTIAL} its sub groups may start in part",
            ],
            id="sub groups",
        ),
        pytest.param(
            PodGroupSpec(sub_group_policy=(SubGroupPolicy(name="decode", network_topology=HARD),)),
            [
                f"spec.subGroupPolicy[0] {PARTIAL} decode may start in part",
                f"spec.subGroupPolicy[0].networkTopology (hard) {WITHOUT_TOPOLOGY}",
            ],
            id="sub group with a network topology",
        ),
    ],
)
def test_every_unsupported_field_is_reported(spec: PodGroupSpec, messages: list[str]) -> None:
    assert list(unsupported_fields(spec)) == messages

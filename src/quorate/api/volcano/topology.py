"""topology.volcano.sh/v1alpha1: HyperNodes, the domains of a network.

Fields and defaults are Volcano's (1.15).
"""

from typing import Final, Literal

from quorate.api.meta import Condition, Int32, Int64, LabelSelector, ObjectMeta, Struct, always_encoded

GROUP: Final = "topology.volcano.sh"
VERSION: Final = "v1alpha1"

MemberType = Literal["Node", "HyperNode"]


class ExactMatch(Struct):
    name: str = ""


class RegexMatch(Struct):
    pattern: str = ""


class MemberSelector(Struct):
    """One of the three fields; ``label_match`` without requirements selects nothing."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(Struct):
    """Nodes, or HyperNodes of a lower tier, which only ``exact_match`` selects."""

    type: MemberType
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Struct):
    tier: Int32 = always_encoded(int)
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNodeStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    node_count: Int64 = 0


class HyperNode(Struct):
    metadata: ObjectMeta
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()

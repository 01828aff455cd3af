"""The rules in which the profiles differ.

Each rule departs from Volcano for the reason in the page of deviations: the profiles ``design`` and
``native`` have all of them, and ``compat`` none.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, get_args

from quorate.api.scheduler_configuration.actions import Profile


class ProfileRules(NamedTuple):
    # Admission.
    enqueue_checks: bool  # the action enqueue checks resources and quotas and rolls back; else plugins vote
    admits_on_evictions: bool  # a group is admitted for what preempt and reclaim would evict for it
    charges_claims: bool  # queues are charged what admitted groups may still take, beside what they have
    readmits_lost: bool  # a group that has lost all members is admitted anew before others of it get nodes
    # Placement.
    allocates_best_effort: bool  # allocate places them; else they count as ready, and backfill does
    plans_members: bool  # members are ordered and placed by required affinity and the minima of roles
    prefers_short: bool  # gangs bound in part, or short of members, go first and are not left so
    compares_each_turn: bool  # queues are compared before each turn, not when Volcano's heap compares them
    shares_refusals: bool  # one failed trial stands for all equal gangs of one shape
    # Evictions.
    evicts_in_turn: bool  # pods are evicted for a gang before gangs after it are placed
    keeps_roles: bool  # plugin gang leaves each role its minimum, not only the gang
    keeps_shares: bool  # a veto in any tier holds, and reclaim leaves queues their shares
    nominates_all: bool  # all tasks on nodes that pods are leaving are nominated, not only the first
    preempts_beside_nominated: bool  # preempt evicts for the rest of a gang with a task that fits its node
    preempts_in_hyper_nodes: bool  # preempt evicts for gangs that must be within one HyperNode
    # Status.
    reports_reasons: bool  # phases keep live groups, and conditions have our reasons and messages


PROFILE_RULES: Final[Mapping[Profile, ProfileRules]] = {
    profile: ProfileRules(*(profile != "compat" for _ in ProfileRules._fields))
    for profile in get_args(Profile)
}

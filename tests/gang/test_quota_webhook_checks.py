"""The webhooks reserve no quota twice and refuse no group that could be admitted."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.configuration.gang import QuotaMode
from quorate.api.core import ResourceQuotaSpec
from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.api.meta import Key
from quorate.gang.namespace_quota.evaluation import QuotaTotals, normalised, quota_claim, quota_shortages
from quorate.gang.namespace_quota.quota import NamespaceQuota
from quorate.gang.namespace_quota.webhook_checks import PodGroupRequest, group_findings, pod_findings

NO_ATTRIBUTES = ScopeAttributes()


def a_quota(hard: dict[str, int], used: dict[str, int] | None = None, **spec: Any) -> NamespaceQuota:
    return NamespaceQuota(Key("team", "rq"), hard, used or {}, codec.convert(ResourceQuotaSpec, spec))


def refused(
    mode: QuotaMode,
    new: dict[str, int],
    *quotas: NamespaceQuota,
    old: dict[str, int] | None = None,
    others: list[dict[str, int]] | None = None,
    subject: ScopeAttributes = NO_ATTRIBUTES,
) -> list[str]:
    claimants = [PodGroupRequest(NO_ATTRIBUTES, minimum) for minimum in others or []]
    found = group_findings(mode, PodGroupRequest(subject, new), old, quotas, claimants)
    return [f"{finding.reason} {finding}" for finding in found]


NEVER, TOO_MANY = "MinResourcesExceedsQuota", "NamespaceQuotaExceeded"


def test_the_refusal_of_an_impossible_request_names_the_limit() -> None:
    assert refused("default", {"cpu": 9000}, a_quota({"requests.cpu": 8000})) == [
        f"{NEVER} spec.minResources.cpu: '9' is more than quota rq ever allows, at most 8 of requests.cpu "
        "(request less, or raise the quota)"
    ]
    assert refused(
        "strict", {"requests.cpu": 5000, "memory": 1}, a_quota({"cpu": 8000}), others=[{"cpu": 5000}]
    ) == [
        f"{TOO_MANY} spec.minResources[requests.cpu]: '5' is too much beside the other pod groups of the "
        "namespace, which request 5 of cpu: quota rq allows 8 for all that are not completed "
        "(request at most 3, or wait for one to complete)"
    ]


@pytest.mark.parametrize(
    ("mode", "new", "old", "others", "want"),
    [
        pytest.param("default", 8, None, [9], [], id="the whole quota"),
        pytest.param("default", 9, None, [], [NEVER], id="more than the quota"),
        pytest.param("off", 9, None, [9], [], id="off"),
        pytest.param("strict", 4, None, [4], [], id="the whole quota with other groups"),
        pytest.param("strict", 5, None, [4], [TOO_MANY], id="more than the quota with other groups"),
        pytest.param("strict", 9, None, [4], [NEVER], id="more than the quota alone, reported once"),
        pytest.param("default", 9, 9, [], [], id="an update without a change"),
        pytest.param("default", 9, 10, [], [], id="an update to less"),
        pytest.param("default", 10, 9, [], [NEVER], id="an update to more within the quota"),
        pytest.param("strict", 5, 4, [4], [TOO_MANY], id="an update to too much"),
        pytest.param("strict", 4, 5, [9], [], id="an update to less that is still too much"),
    ],
)
def test_modes(mode: QuotaMode, new: int, old: int | None, others: list[int], want: list[str]) -> None:
    before = None if old is None else {"requests.cpu": old}
    said = refused(
        mode, {"cpu": new}, a_quota({"cpu": 8}), old=before, others=[{"cpu": other} for other in others]
    )
    assert [text.split()[0] for text in said] == want


def test_a_new_resource_in_an_update_counts_as_more() -> None:
    quota = a_quota({"memory": 1})
    assert refused("default", {"cpu": 1, "memory": 2}, quota, old={"cpu": 1}) != []
    assert refused("default", {"cpu": 1, "memory": 0}, quota, old={"cpu": 1}) == []


def test_only_quotas_that_count_the_group_are_checked() -> None:
    scoped = a_quota({"cpu": 1}, scopes=["PriorityClass"])
    assert refused("default", {"cpu": 2}, scoped) == []
    assert refused("default", {"cpu": 2}, scoped, subject=ScopeAttributes("high")) != []
    assert refused("default", {"cpu": 2}, a_quota({"cpu": 1}, scopes=["CrossNamespacePodAffinity"])) == []


def pod(
    usage: dict[str, int], quota: NamespaceQuota, reserved: list[dict[str, int]], own: int | None = None
) -> list[str]:
    sums = QuotaTotals()
    for claim in reserved:
        sums.add(NO_ATTRIBUTES, claim)
    mine = None if own is None else (NO_ATTRIBUTES, reserved[own])
    return [str(finding) for finding in pod_findings(usage, NO_ATTRIBUTES, mine, [quota], sums)]


def test_a_pod_of_no_group_may_not_use_reserved_quota() -> None:
    quota = a_quota({"cpu": 8000}, {"cpu": 3000})
    assert pod({"cpu": 1000}, quota, [{"cpu": 4000}]) == []
    assert pod({"cpu": 2000}, quota, [{"cpu": 4000}]) == [
        "spec: '2' of cpu is not free in quota rq, at most 1: of 8, 3 are used and 4 reserved for pod groups "
        "that were admitted (request less, or wait)"
    ]


def test_a_member_uses_the_claim_of_its_own_group_first() -> None:
    quota = a_quota({"cpu": 8, "pods": 9}, {"cpu": 1})
    claims = [{"cpu": 4}, {"cpu": 3}]
    assert pod({"cpu": 4}, quota, claims, own=0) == []
    assert pod({"cpu": 4}, quota, claims) != []
    assert pod({"cpu": 5}, quota, claims, own=0) != []  # what exceeds the claim competes like a stranger


def test_a_resource_that_a_pod_does_not_use_is_not_checked() -> None:
    quota = a_quota({"cpu": 8, "memory": 1}, {"memory": 2})
    assert pod({"cpu": 1, "memory": 0}, quota, [{"memory": 5}]) == []
    assert pod({"cpu": 1, "memory": 1}, quota, [{"memory": 5}]) != []


NAMES = ["cpu", "requests.cpu", "memory", "limits.cpu", "pods"]
amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9), max_size=4)
plain = amounts.map(normalised)
sums = st.lists(plain, max_size=3)


def add(*many: dict[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in many:
        total.update(each)
    return total


@given(hard=amounts, used=plain, others=sums, claim=plain, usage=plain)
def test_a_member_within_its_claim_is_refused_only_if_the_rest_of_the_claim_does_not_fit(
    hard: dict[str, int],
    used: dict[str, int],
    others: list[dict[str, int]],
    claim: dict[str, int],
    usage: dict[str, int],
) -> None:
    usage = {name: min(amount, claim.get(name, 0)) for name, amount in usage.items()}
    quota = a_quota(hard, used)
    group_fits = not quota_shortages(hard, used, add(*others), claim)
    if group_fits:
        assert pod(usage, quota, [claim, *others], own=0) == []


@given(hard=amounts, used=plain, others=sums, minimum=amounts, members=plain)
def test_the_default_mode_never_refuses_a_group_that_could_be_admitted(
    hard: dict[str, int],
    used: dict[str, int],
    others: list[dict[str, int]],
    minimum: dict[str, int],
    members: dict[str, int],
) -> None:
    claim = quota_claim(minimum, members)  # its members live, so that they are inside what is used
    admitted = not quota_shortages(hard, add(used, members), add(*others), claim)
    if admitted:
        assert refused("default", minimum, a_quota(hard, used)) == []


@given(hard=amounts, new=amounts, old=st.one_of(st.none(), amounts), others=st.lists(amounts, max_size=3))
def test_mode_strict_refuses_all_that_the_default_mode_refuses(
    hard: dict[str, int], new: dict[str, int], old: dict[str, int] | None, others: list[dict[str, int]]
) -> None:
    by_default = refused("default", new, a_quota(hard), old=old, others=others)
    assert set(by_default) <= set(refused("strict", new, a_quota(hard), old=old, others=others))


@given(hard=amounts, new=amounts, others=st.lists(amounts, max_size=4), order=st.randoms())
def test_the_order_of_groups_and_quotas_does_not_matter(
    hard: dict[str, int], new: dict[str, int], others: list[dict[str, int]], order: Any
) -> None:
    quotas = [a_quota(hard), NamespaceQuota(Key("team", "a"), new, {}, ResourceQuotaSpec())]
    straight = refused("strict", new, *quotas, others=others)
    shuffled = order.sample(others, len(others))
    assert refused("strict", new, *reversed(quotas), others=shuffled) == straight


@given(hard=amounts, minimum=amounts, extra=amounts)
def test_a_smaller_request_is_never_refused_if_the_larger_is_not(
    hard: dict[str, int], minimum: dict[str, int], extra: dict[str, int]
) -> None:
    more = add(minimum, extra)
    if not refused("default", more, a_quota(hard)):
        assert refused("default", minimum, a_quota(hard)) == []

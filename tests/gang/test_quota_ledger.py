"""The quota ledger equals a count from scratch."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core import ResourceQuotaSpec
from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.api.meta import Key
from quorate.gang.namespace_quota.evaluation import quota_claim
from quorate.gang.namespace_quota.ledger import GroupQuotaMinimum, PodQuotaUsage, QuotaLedger

ALL = ResourceQuotaSpec()
LOW, HIGH = ScopeAttributes("low"), ScopeAttributes("high")


def pod(
    group: str = "", terminated: bool = False, subject: ScopeAttributes = LOW, **usage: int
) -> PodQuotaUsage:
    return PodQuotaUsage(group, subject, {"count/pods": 1, **usage}, terminated)


def group(
    minimum: dict[str, int] | None, active: bool = True, subject: ScopeAttributes = LOW
) -> GroupQuotaMinimum:
    return GroupQuotaMinimum(subject, minimum, active)


def test_a_claim_shrinks_with_new_members_and_grows_when_they_are_removed() -> None:
    ledger = QuotaLedger()
    ledger.set_group(Key("team", "a"), group({"cpu": 4}))
    ledger.set_pod(Key("team", "a-0"), pod("a", cpu=1))
    ledger.set_pod(Key("team", "web"), pod(cpu=2))
    assert ledger.reserved("team").of(ALL) == {"cpu": 3}
    assert ledger.used("team").of(ALL) == {"cpu": 3, "count/pods": 2}
    ledger.remove_pod(Key("team", "a-0"))
    assert ledger.reserved("team").of(ALL) == {"cpu": 4}
    assert ledger.reserved("other").of(ALL) == {}


def test_a_finished_member_reduces_the_claim_and_uses_only_its_object_count() -> None:
    ledger = QuotaLedger()
    ledger.set_group(Key("team", "a"), group({"cpu": 4}))
    ledger.set_pod(Key("team", "a-0"), pod("a", terminated=True, cpu=1))
    assert ledger.reserved("team").of(ALL) == {"cpu": 3}
    assert ledger.used("team").of(ALL) == {"count/pods": 1}


@pytest.mark.parametrize(("replaces", "cpu"), [(True, 2), (False, 1)])
def test_the_claim_of_a_failed_member_belongs_to_its_replacement(replaces: bool, cpu: int) -> None:
    ledger = QuotaLedger()
    minimum = {"cpu": 3, "count/pods": 1}
    ledger.set_group(Key("team", "a"), GroupQuotaMinimum(LOW, minimum, active=True, replaces_failed=replaces))
    failed = PodQuotaUsage("a", LOW, {"count/pods": 1, "cpu": 1}, terminated=True, failed=True)
    ledger.set_pod(Key("team", "a-0"), failed)
    ledger.set_pod(Key("team", "a-1"), pod("a", cpu=1))
    assert ledger.reserved("team").of(ALL) == {"cpu": cpu, "count/pods": 0}
    ledger.set_pod(Key("team", "a-2"), pod("a", cpu=1))
    assert ledger.reserved("team").of(ALL) == {"cpu": cpu - 1, "count/pods": 0}
    ledger.remove_pod(Key("team", "a-0"))
    assert ledger.reserved("team").of(ALL) == {"cpu": 1, "count/pods": 0}


def test_only_active_groups_with_a_minimum_reserve() -> None:
    ledger = QuotaLedger()
    for at, wants in enumerate([group(None), group({}), group({"cpu": 4}, active=False)]):
        ledger.set_group(Key("team", f"g{at}"), wants)
    assert ledger.reserved("team").of(ALL) == {}
    assert set(ledger.claims("team")) == {"g1"}


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "count/pods"]), st.integers(0, 5), max_size=3)
subjects = st.sampled_from([LOW, HIGH])
pods = st.builds(
    PodQuotaUsage, st.sampled_from(["", "a", "b"]), subjects, amounts, st.booleans(), st.booleans()
)
groups = st.builds(GroupQuotaMinimum, subjects, st.one_of(st.none(), amounts), st.booleans(), st.booleans())
namespaces = st.sampled_from(["team", "other"])
changes = st.lists(
    st.one_of(
        st.tuples(namespaces, st.sampled_from(["p", "q", "r"]), st.one_of(st.none(), pods)),
        st.tuples(namespaces, st.sampled_from(["a", "b"]), st.one_of(st.just("gone"), groups)),
    ),
    max_size=12,
)


@given(changes=changes)
def test_the_incremental_sums_equal_a_recount(changes: list[tuple[str, str, Any]]) -> None:
    ledger = QuotaLedger()
    pods: dict[Key, PodQuotaUsage] = {}
    groups: dict[Key, GroupQuotaMinimum] = {}
    for namespace, name, what in changes:
        key = Key(namespace, name)
        match what:
            case PodQuotaUsage():
                pods[key] = what
                ledger.set_pod(key, what)
            case GroupQuotaMinimum():
                groups[key] = what
                ledger.set_group(key, what)
            case None:
                pods.pop(key, None)
                ledger.remove_pod(key)
            case _:
                groups.pop(key, None)
                ledger.remove_group(key)
    for namespace in ("team", "other"):
        used: Counter[str] = Counter()
        for key, use in pods.items():
            if key.namespace == namespace:
                used.update(use.counted)
        reserved: Counter[str] = Counter()
        for key, wants in groups.items():
            if key.namespace == namespace and wants.active and wants.minimum is not None:
                members: Counter[str] = Counter()
                for owner, use in pods.items():
                    if owner.namespace == namespace and use.group == key.name:
                        keeps = not (use.failed and wants.replaces_failed)
                        members.update(
                            {name: n for name, n in use.usage.items() if keeps or name == "count/pods"}
                        )
                reserved.update(quota_claim(wants.minimum, members))
        assert +Counter(ledger.used(namespace).of(ALL)) == +used
        assert +Counter(ledger.reserved(namespace).of(ALL)) == +reserved
        assert set(ledger.groups(namespace)) == {key.name for key in groups if key.namespace == namespace}

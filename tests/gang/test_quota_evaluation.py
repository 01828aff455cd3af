"""Claims on quotas are counted once, under one name, and only against quotas that count their group."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core import ResourceQuotaSpec
from quorate.gang.namespace_quota.evaluation import (
    QuotaTotals,
    ScopeAttributes,
    is_counted_by,
    normalised,
    quota_claim,
    quota_shortages,
    unsupported_scopes,
)

GROUP = ScopeAttributes()


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param({"requests.cpu": 2}, {"cpu": 2}, id="a request is the resource"),
        pytest.param({"cpu": 1, "requests.cpu": 2}, {"cpu": 2}, id="of both forms the larger"),
        pytest.param({"requests.cpu": 2, "cpu": 1}, {"cpu": 2}, id="in either order"),
        pytest.param({"requests.a.b/gpu": 2}, {"a.b/gpu": 2}, id="devices, too"),
        pytest.param(
            {"limits.cpu": 1, "pods": 2, "count/pods": 3},
            {"limits.cpu": 1, "pods": 2, "count/pods": 3},
            id="limits and counts are things of their own",
        ),
    ],
)
def test_names_are_normalised(amounts: dict[str, int], want: dict[str, int]) -> None:
    assert normalised(amounts) == want


@pytest.mark.parametrize(
    ("minimum", "used", "want"),
    [
        pytest.param({"cpu": 4}, {}, {"cpu": 4}, id="all of it while there are no members"),
        pytest.param({"cpu": 4}, {"cpu": 1, "requests.cpu": 1}, {"cpu": 3}, id="members count once"),
        pytest.param({"requests.cpu": 4}, {"cpu": 1}, {"cpu": 3}, id="whatever the form"),
        pytest.param({"cpu": 4}, {"cpu": 9}, {"cpu": 0}, id="surplus members claim nothing back"),
        pytest.param({"cpu": 4}, {"memory": 1}, {"cpu": 4}, id="what was not named is not claimed"),
        pytest.param({}, {"cpu": 1}, {}, id="nothing named, nothing claimed"),
    ],
)
def test_a_claim_is_what_is_still_to_come(
    minimum: dict[str, int], used: dict[str, int], want: dict[str, int]
) -> None:
    assert quota_claim(minimum, used) == want


@pytest.mark.parametrize(
    ("hard", "used", "reserved", "wanted", "want"),
    [
        pytest.param({"cpu": 8}, {"cpu": 3}, {"cpu": 1}, {"cpu": 4}, [], id="an exact fit fits"),
        pytest.param({"cpu": 8}, {"cpu": 3}, {"cpu": 2}, {"cpu": 4}, ["cpu 3 of 8"], id="reserved is gone"),
        pytest.param(
            {"requests.cpu": 8}, {"requests.cpu": 5}, {}, {"cpu": 4}, ["requests.cpu 3 of 8"], id="forms"
        ),
        pytest.param(
            {"cpu": 8, "requests.cpu": 6}, {"cpu": 4, "requests.cpu": 4}, {}, {"cpu": 4},
            ["requests.cpu 2 of 6"], id="of two limits each holds",
        ),
        pytest.param({"limits.cpu": 1}, {}, {}, {"cpu": 4}, [], id="limits are not requests"),
        pytest.param({"pods": 3}, {"pods": 2}, {}, {"pods": 2, "cpu": 1}, ["pods 1 of 3"], id="pods"),
        pytest.param({"cpu": 8}, {}, {}, {"memory": 1}, [], id="what is not limited"),
        pytest.param({"cpu": 8}, {"cpu": 9}, {}, {"memory": 1}, [], id="what is not wanted is not looked at"),
        pytest.param({"cpu": 8}, {"cpu": 9}, {}, {"cpu": 0}, ["cpu -1 of 8"], id="zero is named"),
    ],
)  # fmt: skip
def test_quota_shortages(
    hard: dict[str, int],
    used: dict[str, int],
    reserved: dict[str, int],
    wanted: dict[str, int],
    want: list[str],
) -> None:
    got = quota_shortages(hard, used, reserved, wanted)
    assert [f"{short.resource} {short.free} of {short.hard}" for short in got] == want


def test_a_shortage_says_what_would_have_been_enough() -> None:
    (short,) = quota_shortages({"requests.cpu": 8000}, {"requests.cpu": 3000}, {"cpu": 2000}, {"cpu": 9000})
    assert str(short) == "requests.cpu: need 9, have 3 now (2 reserved by pod groups) and 8 at most"
    assert short.never_fits


def spec(**fields: Any) -> ResourceQuotaSpec:
    return codec.convert(ResourceQuotaSpec, fields)


def selecting(scope: str, operator: str, *values: str) -> ResourceQuotaSpec:
    expression = {"scopeName": scope, "operator": operator, "values": list(values)}
    return spec(scopeSelector={"matchExpressions": [expression]})


@pytest.mark.parametrize(
    ("quota", "subject", "want"),
    [
        pytest.param(spec(), GROUP, True, id="no scope counts all"),
        pytest.param(
            spec(scopes=["NotTerminating", "NotBestEffort"]), GROUP, True, id="what groups are taken for"
        ),
        pytest.param(spec(scopes=["Terminating"]), GROUP, False, id="no deadline"),
        pytest.param(spec(scopes=["BestEffort"]), GROUP, False, id="not best effort"),
        pytest.param(spec(scopes=["Terminating"]), ScopeAttributes(terminating=True), True, id="a deadline"),
        pytest.param(
            spec(scopes=["NotTerminating"]),
            ScopeAttributes(terminating=True),
            False,
            id="a deadline, inverse",
        ),
        pytest.param(spec(scopes=["BestEffort"]), ScopeAttributes(best_effort=True), True, id="best effort"),
        pytest.param(
            spec(scopes=["NotBestEffort"]),
            ScopeAttributes(best_effort=True),
            False,
            id="best effort, inverse",
        ),
        pytest.param(
            selecting("BestEffort", "Exists"), ScopeAttributes(best_effort=True), True, id="by selector"
        ),
        pytest.param(spec(scopes=["PriorityClass"]), GROUP, False, id="any class, and it has none"),
        pytest.param(spec(scopes=["PriorityClass"]), ScopeAttributes("high"), True, id="any class"),
        pytest.param(selecting("PriorityClass", "In", "high"), ScopeAttributes("high"), True, id="in"),
        pytest.param(
            selecting("PriorityClass", "In", "high"), ScopeAttributes("low"), False, id="not the one"
        ),
        pytest.param(selecting("PriorityClass", "NotIn", "high"), ScopeAttributes("low"), True, id="not in"),
        pytest.param(selecting("PriorityClass", "NotIn", "high"), GROUP, True, id="no class is not in any"),
        pytest.param(selecting("PriorityClass", "DoesNotExist"), GROUP, True, id="no class"),
        pytest.param(spec(scopes=["CrossNamespacePodAffinity"]), GROUP, False, id="cannot be told"),
        pytest.param(spec(scopes=["NotBestEffort", "PriorityClass"]), GROUP, False, id="all must match"),
    ],
)
def test_scopes(quota: ResourceQuotaSpec, subject: ScopeAttributes, want: bool) -> None:
    assert is_counted_by(quota, subject) is want


def test_what_cannot_be_evaluated_is_told() -> None:
    assert unsupported_scopes(spec(scopes=["BestEffort", "CrossNamespacePodAffinity"])) == (
        "CrossNamespacePodAffinity",
    )
    assert unsupported_scopes(selecting("BestEffort", "NotIn", "a")) == ("BestEffort",)
    assert unsupported_scopes(spec(scopes=["PriorityClass"])) == ()


def test_only_claims_that_a_quota_counts_are_reserved_of_it() -> None:
    reserved = QuotaTotals()
    reserved.add(ScopeAttributes("high"), {"cpu": 4})
    reserved.add(ScopeAttributes("low"), {"cpu": 2})
    assert reserved.of(spec()) == {"cpu": 6}
    assert reserved.of(selecting("PriorityClass", "In", "high")) == {"cpu": 4}
    reserved.remove(ScopeAttributes("high"), {"cpu": 4})
    assert reserved.of(spec()) == {"cpu": 2}
    reserved.remove(ScopeAttributes("low"), {"cpu": 2})
    assert reserved.of(spec()) == {}


amounts = st.dictionaries(
    st.sampled_from(["cpu", "requests.cpu", "memory", "limits.cpu", "pods"]), st.integers(0, 9), max_size=4
)
claims = st.lists(
    st.tuples(st.sampled_from([ScopeAttributes("high"), ScopeAttributes("low")]), amounts), max_size=5
)


@given(claims=claims, hard=amounts, used=amounts, wanted=amounts, order=st.randoms())
def test_the_order_of_groups_does_not_matter(
    claims: list[tuple[ScopeAttributes, dict[str, int]]],
    hard: dict[str, int],
    used: dict[str, int],
    wanted: dict[str, int],
    order: Any,
) -> None:
    def shortages(claims: list[tuple[ScopeAttributes, dict[str, int]]]) -> object:
        reserved = QuotaTotals()
        for subject, claim in claims:
            reserved.add(subject, normalised(claim))
        return quota_shortages(hard, used, reserved.of(spec()), normalised(wanted))

    shuffled = order.sample(claims, len(claims))
    assert shortages(shuffled) == shortages(claims)


@given(minimum=amounts, members=st.lists(amounts, max_size=4))
def test_members_use_up_the_claim_and_no_more(minimum: dict[str, int], members: list[dict[str, int]]) -> None:
    used: dict[str, int] = {}
    before = quota_claim(minimum, used)
    for member in members:
        used = {name: used.get(name, 0) + member.get(name, 0) for name in {*used, *member}}
        after = quota_claim(minimum, used)
        assert all(0 <= after[name] <= before[name] for name in before)
        before = after
    assert before.keys() == normalised(minimum).keys()

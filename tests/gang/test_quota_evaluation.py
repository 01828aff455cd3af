"""Claims on quotas count once, by one name, and only for the quotas that count their group."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core import ResourceQuotaSpec
from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.gang.namespace_quota.evaluation import (
    QuotaTotals,
    normalised,
    quota_claim,
    quota_shortages,
    unsupported_scopes,
)

GROUP = ScopeAttributes()


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param({"requests.cpu": 2}, {"cpu": 2}, id="requests.x is x"),
        pytest.param({"cpu": 1, "requests.cpu": 2}, {"cpu": 2}, id="the larger of two forms counts"),
        pytest.param({"requests.cpu": 2, "cpu": 1}, {"cpu": 2}, id="in either order"),
        pytest.param({"requests.a.b/gpu": 2}, {"a.b/gpu": 2}, id="devices too"),
        pytest.param(
            {"limits.cpu": 1, "pods": 2, "count/pods": 3},
            {"limits.cpu": 1, "pods": 2, "count/pods": 3},
            id="limits and object counts are distinct",
        ),
    ],
)
def test_names_are_normalised(amounts: dict[str, int], want: dict[str, int]) -> None:
    assert normalised(amounts) == want


@pytest.mark.parametrize(
    ("minimum", "used", "want"),
    [
        pytest.param({"cpu": 4}, {}, {"cpu": 4}, id="the whole minimum without members"),
        pytest.param(
            {"cpu": 4}, {"cpu": 1, "requests.cpu": 1}, {"cpu": 3}, id="existing members are subtracted"
        ),
        pytest.param({"requests.cpu": 4}, {"cpu": 1}, {"cpu": 3}, id="by either form of the name"),
        pytest.param({"cpu": 4}, {"cpu": 9}, {"cpu": 0}, id="surplus members do not make a claim negative"),
        pytest.param({"cpu": 4}, {"memory": 1}, {"cpu": 4}, id="a resource that is not named is not claimed"),
        pytest.param({}, {"cpu": 1}, {}, id="an empty minimum claims nothing"),
    ],
)
def test_a_claim_is_the_minimum_that_members_do_not_use_yet(
    minimum: dict[str, int], used: dict[str, int], want: dict[str, int]
) -> None:
    assert quota_claim(minimum, used) == want


@pytest.mark.parametrize(
    ("hard", "used", "reserved", "wanted", "want"),
    [
        pytest.param({"cpu": 8}, {"cpu": 3}, {"cpu": 1}, {"cpu": 4}, [], id="an exact fit is no shortage"),
        pytest.param({"cpu": 8}, {"cpu": 3}, {"cpu": 2}, {"cpu": 4}, ["cpu 3 of 8"],
            id="reservations are subtracted"),
        pytest.param(
            {"requests.cpu": 8}, {"requests.cpu": 5}, {}, {"cpu": 4}, ["requests.cpu 3 of 8"], id="forms"
        ),
        pytest.param(
            {"cpu": 8, "requests.cpu": 6}, {"cpu": 4, "requests.cpu": 4}, {}, {"cpu": 4},
            ["requests.cpu 2 of 6"], id="two limits of one resource both hold",
        ),
        pytest.param({"limits.cpu": 1}, {}, {}, {"cpu": 4}, [], id="limits are distinct from requests"),
        pytest.param({"pods": 3}, {"pods": 2}, {}, {"pods": 2, "cpu": 1}, ["pods 1 of 3"], id="pods"),
        pytest.param({"cpu": 8}, {}, {}, {"memory": 1}, [], id="a resource without a limit"),
        pytest.param({"cpu": 8}, {"cpu": 9}, {}, {"memory": 1}, [],
            id="a resource that is not requested is not checked"),
        pytest.param({"cpu": 8}, {"cpu": 9}, {}, {"cpu": 0}, ["cpu -1 of 8"],
            id="a request of zero is checked"),
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


def test_the_message_of_a_shortage_has_all_amounts() -> None:
    (short,) = quota_shortages({"requests.cpu": 8000}, {"requests.cpu": 3000}, {"cpu": 2000}, {"cpu": 9000})
    assert str(short) == "requests.cpu: need 9, have 3 now (2 reserved by pod groups) and 8 at most"
    assert short.never_fits


def spec(**fields: Any) -> ResourceQuotaSpec:
    return codec.convert(ResourceQuotaSpec, fields)


def selecting(scope: str, operator: str, *values: str) -> ResourceQuotaSpec:
    expression = {"scopeName": scope, "operator": operator, "values": list(values)}
    return spec(scopeSelector={"matchExpressions": [expression]})


def test_unsupported_scopes_are_listed() -> None:
    scopes = ["BestEffort", "CrossNamespacePodAffinity", "VolumeAttributesClass"]
    assert unsupported_scopes(spec(scopes=scopes)) == ("CrossNamespacePodAffinity",)
    assert unsupported_scopes(spec(scopes=["PriorityClass"])) == ()


def test_a_quota_reserves_only_the_claims_that_it_counts() -> None:
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
def test_members_reduce_the_claim_to_zero_at_most(
    minimum: dict[str, int], members: list[dict[str, int]]
) -> None:
    used: dict[str, int] = {}
    before = quota_claim(minimum, used)
    for member in members:
        used = {name: used.get(name, 0) + member.get(name, 0) for name in {*used, *member}}
        after = quota_claim(minimum, used)
        assert all(0 <= after[name] <= before[name] for name in before)
        before = after
    assert before.keys() == normalised(minimum).keys()

"""Validation of ResourceQuotas and LimitRanges."""

from typing import Any

import pytest

from quorate.local.server.registry.validation.field_rules import MAX_MESSAGES
from tests.local.server.validation.objects import show
from tests.local.server.validation.strategies import STRATEGIES

Json = dict[str, Any]
LIMIT_RANGE, RESOURCE_QUOTA = STRATEGIES["limitranges"], STRATEGIES["resourcequotas"]


@pytest.mark.parametrize(
    ("item", "want"),
    [
        pytest.param({"min": {"cpu": "1"}, "max": {"cpu": "2"}}, [], id="ordered bounds"),
        pytest.param(
            {"min": {"cpu": "2"}, "max": {"cpu": "1"}},
            ["spec.limits[0].min[cpu] Invalid"],
            id="min above max",
        ),
        pytest.param(
            {"defaultRequest": {"cpu": "500m"}, "default": {"cpu": "0.1"}},
            ["spec.limits[0].defaultRequest[cpu] Invalid"],
            id="a request above the limit",
        ),
    ],
)
def test_limit_ranges(item: Json, want: list[str]) -> None:
    assert show(LIMIT_RANGE.validate({"spec": {"limits": [{"type": "Container"} | item]}})) == want


@pytest.mark.parametrize(
    ("item", "want"),
    [
        ({"type": "Pod", "default": {"cpu": "1"}}, ["default Forbidden"]),
        ({"type": "Odd"}, ["type Invalid"]),
        ({"type": "PersistentVolumeClaim"}, ["limits Required"]),
        ({"type": "Container", "max": {"bogus": "1"}}, ["max[bogus] Invalid"] * 2),
        ({"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}}, ["maxLimitRequestRatio[cpu] Invalid"]),
    ],
)
def test_limit_range_items(item: Json, want: list[str]) -> None:
    found = show(LIMIT_RANGE.validate({"spec": {"limits": [item]}}))
    assert found == [f"spec.limits[0].{cause}" for cause in want]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"hard": {"cpu": "1", "requests.nvidia.com/gpu": "4", "count/jobs.batch": "2"}}, []),
        ({"hard": {"cpu": "-1"}}, ["spec.hard[cpu] Invalid"]),
        ({"hard": {"pods": "1500m"}}, ["spec.hard[pods] Invalid"]),
        ({"hard": {"bogus": "1"}}, ["spec.hard[bogus] Invalid"] * 2),
        ({"scopes": ["Odd"]}, ["spec.scopes Invalid"]),
        ({"scopes": ["BestEffort", "NotBestEffort"]}, ["spec.scopes Invalid"]),
    ],
)
def test_resource_quotas(spec: Json, want: list[str]) -> None:
    assert show(RESOURCE_QUOTA.validate({"spec": spec})) == want


def test_causes_that_quote_a_long_list_are_bounded() -> None:
    scopes = [f"Odd{number}" for number in range(10_000)]
    causes = RESOURCE_QUOTA.validate({"spec": {"hard": {}, "scopes": scopes}})
    quoted = len(causes[0].message)
    assert len(causes) == -(-MAX_MESSAGES // quoted)
    assert sum(len(cause.message) for cause in causes) < MAX_MESSAGES + quoted


def test_the_scopes_of_a_quota_are_immutable() -> None:
    old, new = {"spec": {"scopes": ["BestEffort"]}}, {"spec": {"scopes": ["Terminating"]}}
    assert show(RESOURCE_QUOTA.validate_update(new, old)) == ["spec.scopes Invalid"]

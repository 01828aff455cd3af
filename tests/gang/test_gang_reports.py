"""Reports on pod groups."""

from fractions import Fraction
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.gang.reports import GangReport, gang_reports
from tests.gang.vectors import settings_of
from tests.gang.world import World

HALF = {"name": "a", "group": "a", "count": 2, "cpu": 1, "node": "n1", "phase": "Running"}


def report(
    *pods: dict[str, Any], plugins: tuple[str, ...] = (), profile: str = "design", **of: Any
) -> GangReport:
    group = {"name": "a", "minMember": 3, "phase": "Inqueue", "created": 900, **of}
    given = {"nodes": [{"name": "n1", "cpu": 4}], "podGroups": [group], "pods": list(pods)}
    conf = {"actions": "allocate", "tiers": [["gang", *plugins]]}
    world = World(given, settings_of(conf, profile), restarting=False)
    return gang_reports(world.model, world.settings)[Key("default", "a")]


def test_missing_members() -> None:
    assert report(HALF).missing_members == 1
    assert report(HALF, minMember=1).missing_members == 0


@pytest.mark.parametrize(("profile", "missing_members"), [("design", 1), ("compat", 0)])
def test_a_pending_best_effort_pod_counts_in_profile_compat_only(profile: str, missing_members: int) -> None:
    assert report(HALF, {"name": "b", "group": "a"}, profile=profile).missing_members == missing_members


def test_a_completed_group_has_no_missing_members() -> None:
    assert report(phase="Completed").missing_members is None


def test_the_share_is_reported_with_the_plugin_drf() -> None:
    assert report(HALF, plugins=("drf",)).share == Fraction(1, 2)
    assert report(HALF).share is None
    assert report(plugins=("drf",)).share is None


def test_pods_without_their_pod_group_have_no_report() -> None:
    conf = settings_of({"actions": "allocate", "tiers": [["gang"]]}, "design")
    world = World({"nodes": [{"name": "n1", "cpu": 4}], "pods": [HALF]}, conf, restarting=False)
    assert gang_reports(world.model, world.settings) == {}

"""The series of Volcano in ``gang-metrics.yaml`` are exported under their exact names."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from quorate.observe.exposition import counter_of
from quorate.observe.families import BY_NAME as BY_NAME_OF_CONTROLLERS
from quorate.observe.families import OF_VOLCANO
from quorate.observe.gang_families import BY_NAME, FAMILIES

Json = dict[str, Any]
BOTH: dict[str, list[Json]] = yaml.safe_load(
    (Path(__file__).parent / "gang-metrics.yaml").read_text(encoding="utf-8")
)
LISTED = [each for each in BOTH["scheduler"] if "not" not in each]
OF_CONTROLLERS = BOTH["controllers"]
NOT_YET = {each["name"]: each["not"] for each in BOTH["scheduler"] if "not" in each}


def test_every_series_is_exported() -> None:
    assert [family.name for family in FAMILIES] == [each["name"] for each in LISTED]
    assert [family.name for family in OF_VOLCANO] == [each["name"] for each in OF_CONTROLLERS]


@pytest.mark.parametrize("listed", LISTED + OF_CONTROLLERS, ids=lambda each: str(each["name"]))
def test_type_labels_and_buckets_are_as_listed(listed: Json) -> None:
    family = (BY_NAME | BY_NAME_OF_CONTROLLERS)[listed["name"]]
    assert (family.kind, list(family.labels)) == (listed["type"], listed.get("labels", []))
    if family.kind != "histogram":
        assert family.buckets == ()
        return
    low, high, how_many = listed["buckets"]
    factors = {round(after / before, 9) for before, after in pairwise(family.buckets)}
    assert (family.buckets[0], round(family.buckets[-1], 6), len(family.buckets)) == (low, high, how_many)
    assert len(factors) == 1


def test_a_name_is_exposed_unchanged() -> None:
    """The client library would append a suffix to some."""
    registry = CollectorRegistry()
    for family in (*FAMILIES, *OF_VOLCANO):
        if family.kind == "counter":
            counter_of(family, (), registry).inc(3)
    shown = generate_latest(registry).decode()
    for name in ("volcano_total_preemption_attempts", "volcano_schedule_attempts_total"):
        assert f"\n{name} 3.0\n" in shown

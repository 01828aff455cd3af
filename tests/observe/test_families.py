"""Exported names, labels and buckets are those of Kueue in ``metrics.yaml``."""

from pathlib import Path
from typing import Any

import yaml

from quorate.observe.families import FAMILIES, OF_KUEUE, OF_VOLCANO

NOT_YET = {
    "kueue_replaced_workload_slices_total": (
        "Kueue does not expose it either; the event `WorkloadSliceReplaced` reports each"
    ),
}
LISTED: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "metrics.yaml").read_text(encoding="utf-8")
)["metrics"]
CLIENT_DEFAULT = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]


def test_every_series_of_kueue_is_exported_or_known_to_be_missing() -> None:
    exported = [family.name for family in OF_KUEUE]
    assert sorted([*exported, *NOT_YET]) == sorted(each["name"] for each in LISTED)


def test_types_labels_and_buckets_are_as_listed() -> None:
    listed = {each["name"]: each for each in LISTED}
    for family in OF_KUEUE:
        want = listed[family.name]
        assert (family.kind, list(family.labels)) == (want["type"], want["labels"]), family.name
        bounds = want.get("buckets", [])
        assert list(family.buckets) == (CLIENT_DEFAULT if isinstance(bounds, str) else bounds), family.name


def test_custom_labels_have_the_listed_sources() -> None:
    listed = {each["name"]: each.get("customLabelSources", []) for each in LISTED}
    for family in OF_KUEUE:
        assert list(family.sources) == listed[family.name], family.name


def test_every_name_has_the_prefix_of_its_origin() -> None:
    for family in FAMILIES:
        prefix = "kueue" if family in OF_KUEUE else "volcano" if family in OF_VOLCANO else "quorate"
        assert family.name.removeprefix("multi").startswith(f"{prefix}_"), family.name

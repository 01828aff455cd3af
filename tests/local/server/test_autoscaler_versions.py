"""Conversion of HorizontalPodAutoscalers of version 1: its annotations have the fields of version 2."""

import asyncio
import json
from typing import Any

import pytest

from quorate.local.server.registry.autoscaler_versions import PREFIX, convert_v1

RESOURCE = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}


def stored(annotation: str, content: Any) -> dict[str, Any]:
    """Return version 2 of an autoscaler of version 1 with one annotation."""
    metadata = {"name": "a", "annotations": {f"{PREFIX}{annotation}": json.dumps(content)}}
    (autoscaler,) = asyncio.run(convert_v1([{"metadata": metadata, "spec": {"maxReplicas": 1}}], True))
    return autoscaler


def test_an_annotation_is_a_field_of_version_2() -> None:
    assert stored("metrics", [RESOURCE])["spec"]["metrics"][0] == RESOURCE
    assert stored("behavior", {"scaleUp": {}})["spec"]["behavior"] == {"scaleUp": {}}


@pytest.mark.parametrize(
    ("annotation", "content"),
    [
        ("metrics", 5),
        ("metrics", [5]),
        ("metrics", [{"type": 5}]),
        ("metrics", [{"type": "Resource", "resource": 7}]),
        ("behavior", []),
        ("behavior", {"scaleUp": 5}),
        ("current-metrics", ["cpu"]),
        ("conditions", {"type": "AbleToScale"}),
    ],
)
def test_an_annotation_of_another_type_is_ignored_since_no_list_could_show_the_object(
    annotation: str, content: Any
) -> None:
    assert stored(annotation, content) == stored(annotation, None)

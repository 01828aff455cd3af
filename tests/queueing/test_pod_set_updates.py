"""What the admission checks of a workload add to its pods before they get places."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.kueue import Workload
from quorate.queueing.topology.pod_set_updates import UpdateConflict, with_updates

TEMPLATE = {
    "metadata": {"labels": {"app": "train"}},
    "spec": {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "old"}], "priority": 3},
}


def a_workload(*checks: dict[str, Any], template: Any = TEMPLATE) -> Workload:
    """Return a workload of the pod sets main and side; each check has a state and updates of ``main``."""
    pod_sets = [{"name": name, "count": 1, "template": template} for name in ("main", "side")]
    states = [
        {"name": f"check-{index}", "state": check.pop("state", "Ready"), "podSetUpdates": [check]}
        for index, check in enumerate({"name": "main", **check} for check in checks)
    ]
    body = {"metadata": {"name": "w"}, "spec": {"podSets": pod_sets}, "status": {"admissionChecks": states}}
    return codec.convert(Workload, body)


@pytest.mark.parametrize(
    ("checks", "labels", "selector", "tolerations"),
    [
        pytest.param(
            [{"labels": {"pr": "x"}, "nodeSelector": {"zone": "b"}, "tolerations": [{"key": "new"}]}],
            {"app": "train", "pr": "x"},
            {"pool": "a", "zone": "b"},
            ["old", "new"],
            id="one check",
        ),
        pytest.param(
            [{"nodeSelector": {"zone": "b"}}, {"nodeSelector": {"zone": "b", "host": "h"}}],
            {"app": "train"},
            {"pool": "a", "zone": "b", "host": "h"},
            ["old"],
            id="two checks that agree",
        ),
        pytest.param(
            [{"tolerations": [{"key": "old"}, {"key": "new"}]}, {"tolerations": [{"key": "new"}]}],
            {"app": "train"},
            {"pool": "a"},
            ["old", "new"],
            id="tolerations that are there",
        ),
        pytest.param(
            [{"state": "Pending", "labels": {"pr": "x"}}, {"state": "Retry", "nodeSelector": {"pool": "b"}}],
            {"app": "train"},
            {"pool": "a"},
            ["old"],
            id="checks that are not Ready",
        ),
        pytest.param(
            [{"name": "other", "labels": {"pr": "x"}}],
            {"app": "train"},
            {"pool": "a"},
            ["old"],
            id="another pod set",
        ),
    ],
)
def test_updated_templates(
    checks: list[dict[str, Any]], labels: Any, selector: Any, tolerations: list[str]
) -> None:
    found = with_updates(a_workload(*checks))
    assert isinstance(found, Workload)
    main, side = (decode_template(pod_set.template) for pod_set in found.spec.pod_sets)
    assert main.metadata.labels == labels
    assert main.spec.node_selector == selector
    assert [each.key for each in main.spec.tolerations] == tolerations
    assert side.metadata.labels == {"app": "train"}
    assert b'"priority":3' in bytes(found.spec.pod_sets[0].template)


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ([{"nodeSelector": {"pool": "b"}}], "nodeSelector[pool]: admission check check-0 wants 'b'"),
        ([{"labels": {"app": "x"}}], "labels[app]: admission check check-0 wants 'x'"),
        (
            [{"annotations": {"pr": "1"}}, {"annotations": {"pr": "2"}}],
            "annotations[pr]: admission check check-1 wants '2'",
        ),
    ],
)
def test_conflicts(checks: list[dict[str, Any]], expected: str) -> None:
    found = with_updates(a_workload(*checks))
    assert isinstance(found, UpdateConflict)
    assert f"invalid podSetUpdate for PodSet main, error: conflict for {expected}, but it is" in found.text


def test_a_template_that_cannot_be_decoded_is_left() -> None:
    workload = a_workload({"labels": {"pr": "x"}}, template={"spec": {"containers": 7}})
    assert with_updates(workload) == workload

"""Pods in memory, and their states."""

from datetime import UTC, datetime
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import can_count, group_name_of, is_gated, last_active, role_hash
from tests.controllers.pods.notation import START, a_pod

NEVER = datetime(2030, 1, 1, tzinfo=UTC)
GATES = [{"name": constants.ADMISSION_GATE}]

BARE: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


def stored(labels: Any = None, **spec: Any) -> Pod:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": "a", "labels": labels or {}}
    body = {"metadata": metadata, "spec": {"containers": [{"name": "main"}], **spec}, "status": status}
    return codec.decode(Pod, codec.encode(body))


def test_the_spec_of_unmanaged_pods_is_dropped() -> None:
    part_of_a_job = stored(nodeName="node-1")
    assert bytes(part_of_a_job.written) == b"{}"
    assert (part_of_a_job.node_name, part_of_a_job.status.phase) == ("node-1", "Running")


def test_managed_and_gated_pods_are_kept_as_a_whole() -> None:
    managed = stored({constants.MANAGED: "true"}, nodeName="node-1")
    assert b'"nodeName":"node-1"' in bytes(managed.written)
    gated = stored(schedulingGates=GATES)
    assert is_gated(gated)
    assert b'"schedulingGates"' in bytes(gated.written)
    assert not is_gated(stored(schedulingGates=[{"name": "other"}]))


def test_the_node_of_a_pod_that_opts_in_to_failure_recovery_is_kept() -> None:
    metadata = {"name": "a", "annotations": {constants.FORCEFULLY: "true"}}
    body = {"metadata": metadata, "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}}
    assert codec.decode(Pod, codec.encode(body)).node_name == "node-1"


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        ("gated", True),
        ("gated-gone", False),
        ("pending-gone", False),
        ("running", True),
        ("running-gone", True),
        ("succeeded", True),
        ("failed", False),
    ],
)
def test_pods_that_count_for_a_group(state: str, counts: bool) -> None:
    assert can_count(a_pod("a", state)) is counts


def test_an_annotation_can_name_a_group_with_a_long_name() -> None:
    both = a_pod("a", group="short", annotations={constants.GROUP_NAME: "long"}).metadata
    assert group_name_of(both, by_annotation=True) == "long"
    assert group_name_of(both, by_annotation=False) == "short"
    assert group_name_of(a_pod("a", group="short").metadata, by_annotation=True) == "short"


def test_last_activity_is_the_failure_or_the_deletion() -> None:
    body = {
        "metadata": {"name": "a", "labels": {constants.MANAGED: "true"}},
        "status": {
            "phase": "Failed",
            "conditions": [
                {
                    "type": "ContainersReady",
                    "status": "False",
                    "reason": "PodFailed",
                    "lastTransitionTime": START,
                }
            ],
        },
    }
    assert last_active(codec.convert(Pod, body), NEVER) == START
    deleted = a_pod("a", "running-gone")
    assert last_active(deleted, NEVER) == deleted.metadata.deletion_timestamp
    assert last_active(a_pod("a", "running"), NEVER) == NEVER


def test_the_role_hash_is_the_one_of_kueue() -> None:
    assert role_hash(BARE) == "dc85db45"  # a pod of one container in Kueue 0.19


def test_a_pod_in_an_admission_review_has_the_role_that_kueue_computes() -> None:
    """The API server has added a priority and two tolerations before."""
    lost = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    added = {"priority": 0, "tolerations": [{"key": key, **lost} for key in keys]}
    assert (
        role_hash({"containers": [{"name": "c", "image": "pause", "resources": {}}], **added}) == "bf90803c"
    )
    assert role_hash({**BARE, **added}) == "4b0469f7"


@pytest.mark.parametrize(
    "other",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        {"priority": 1},
        {"runtimeClassName": "kata"},
        {"resources": {"requests": {"cpu": "2"}}},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        {"containers": [*BARE["containers"], {"name": "d"}]},
        {"initContainers": [{"name": "i"}]},
    ],
    ids=str,
)
def test_fields_that_a_scheduler_reads_change_the_role(other: dict[str, Any]) -> None:
    assert role_hash({**BARE, **other}) != role_hash(BARE)


@pytest.mark.parametrize(
    "other",
    [
        {"schedulingGates": [{"name": "any"}]},
        {
            "containers": [
                {**BARE["containers"][0], "name": "x", "image": "y", "ports": [{"containerPort": 80}]}
            ]
        },
        {"nodeSelector": {}},
    ],
    ids=str,
)
def test_other_fields_do_not_change_the_role(other: dict[str, Any]) -> None:
    assert role_hash({**BARE, **other}) == role_hash(BARE)


def test_a_quantity_can_be_a_number_with_a_fraction() -> None:
    def role(cpu: Any) -> str:
        return role_hash({"containers": [{"resources": {"requests": {"cpu": cpu}}}]})

    assert role(codec.decode(dict[str, Any], b'{"cpu": 0.5}')["cpu"]) == role(0.5)


def test_the_order_of_fields_does_not_matter() -> None:
    one = {**BARE, "tolerations": [{"key": "a", "operator": "Exists"}], "nodeSelector": {"x": "1", "y": "2"}}
    other = {
        "nodeSelector": {"y": "2", "x": "1"},
        "tolerations": [{"operator": "Exists", "key": "a"}],
        **BARE,
    }
    assert role_hash(one) == role_hash(other)

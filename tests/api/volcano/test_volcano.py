"""Defaults of pod groups and queues, and fields that are always encoded."""

import pytest

from quorate.api import codec, volcano
from quorate.api.meta import ObjectMeta, find_condition
from quorate.api.quantity import parse_quantity
from quorate.api.volcano import PodGroup, PodGroupCondition, PodGroupSpec, PodGroupStatus, Queue, QueueStatus
from quorate.api.volcano.job import Job, with_defaults


def pod_group(spec: str) -> PodGroup:
    return codec.decode(PodGroup, f'{{"metadata": {{"name": "gang"}}, "spec": {spec}}}')


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param("{}", None, id="absent: needs unknown"),
        pytest.param('{"minResources": null}', None, id="null equals absent"),
        pytest.param('{"minResources": {}}', {}, id="empty: needs nothing"),
        pytest.param(
            '{"minResources": {"cpu": 3}}', {"cpu": parse_quantity("3")}, id="numbers are quantities"
        ),
    ],
)
def test_empty_and_absent_min_resources_differ(spec: str, want: object) -> None:
    group = pod_group(spec)
    assert group.spec.min_resources == want
    assert codec.decode(PodGroup, codec.encode(group)).spec.min_resources == want


def test_a_pod_group_without_status_and_queue() -> None:
    """KubeRay and other operators create such objects; without a webhook it has no defaults."""
    group = pod_group("{}")
    assert (group.status.phase, group.spec.queue, group.spec.min_member) == ("", volcano.DEFAULT_QUEUE, 0)


def test_a_condition_in_volcanos_form() -> None:
    text = (
        b'{"type":"Unschedulable","status":"True","transitionID":"b1c2",'
        b'"lastTransitionTime":"2024-01-02T03:04:05Z","reason":"NotEnoughResources","message":"2/2 tasks"}'
    )
    condition = codec.decode(PodGroupCondition, text)
    assert (condition.type, condition.transition_id) == (volcano.UNSCHEDULABLE, "b1c2")
    assert codec.encode(condition) == text
    status = PodGroupStatus(conditions=(condition,))
    assert find_condition(status.conditions, volcano.UNSCHEDULABLE) == condition
    assert find_condition(status.conditions, volcano.SCHEDULED) is None


def test_defaults_of_a_queue() -> None:
    queue = codec.decode(Queue, '{"metadata": {"name": "q"}, "spec": {}, "status": {}}')
    assert (queue.spec.weight, queue.spec.reclaimable, queue.spec.capability) == (1, True, {})
    assert (queue.spec.max_pod_groups, queue.spec.dequeue_strategy) == (None, "traverse")


def test_fields_that_volcanos_crds_require_are_encoded() -> None:
    assert codec.encode(QueueStatus(state=volcano.OPEN)) == b'{"state":"Open","allocated":{}}'
    group = PodGroup(metadata=ObjectMeta(name="gang"), spec=PodGroupSpec())
    assert codec.encode(group) == b'{"metadata":{"name":"gang"},"spec":{"minMember":0}}'


def test_the_default_of_min_available_is_at_most_what_the_api_stores() -> None:
    most = 2**31 - 1
    partitions = {"totalPartitions": 70_000, "partitionSize": 70_000, "minPartitions": 70_000}
    tasks = [{"name": "a", "replicas": most, "partitionPolicy": partitions}, {"name": "b", "replicas": most}]
    spec = with_defaults(codec.convert(Job, {"metadata": {"name": "j"}, "spec": {"tasks": tasks}})).spec
    assert [task.min_available for task in spec.tasks] == [most, most]
    assert spec.min_available == most

"""Pod groups and queues: what their fields mean when they are absent, and what is written of them."""

import pytest

from quorate.api import codec, volcano
from quorate.api.meta import ObjectMeta
from quorate.api.quantity import parse_quantity
from quorate.api.volcano import PodGroup, PodGroupCondition, PodGroupSpec, PodGroupStatus, Queue, QueueStatus


def pod_group(spec: str) -> PodGroup:
    return codec.decode(PodGroup, f'{{"metadata": {{"name": "gang"}}, "spec": {spec}}}')


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param("{}", None, id="absent: nobody said what is needed"),
        pytest.param('{"minResources": null}', None, id="null is absent"),
        pytest.param('{"minResources": {}}', {}, id="empty: nothing is needed"),
        pytest.param(
            '{"minResources": {"cpu": 3}}', {"cpu": parse_quantity("3")}, id="numbers are quantities"
        ),
    ],
)
def test_needing_nothing_is_not_the_same_as_not_saying(spec: str, want: object) -> None:
    group = pod_group(spec)
    assert group.spec.min_resources == want
    assert codec.decode(PodGroup, codec.encode(group)).spec.min_resources == want


def test_a_pod_group_without_status_and_queue() -> None:
    """KubeRay and others create it so, and nothing fills it in where no webhook is installed."""
    group = pod_group("{}")
    assert (group.status.phase, group.spec.queue, group.spec.min_member) == ("", volcano.DEFAULT_QUEUE, 0)


def test_a_condition_as_volcano_writes_it() -> None:
    text = (
        b'{"type":"Unschedulable","status":"True","transitionID":"b1c2",'
        b'"lastTransitionTime":"2024-01-02T03:04:05Z","reason":"NotEnoughResources","message":"2/2 tasks"}'
    )
    condition = codec.decode(PodGroupCondition, text)
    assert (condition.type, condition.transition_id) == (volcano.UNSCHEDULABLE, "b1c2")
    assert codec.encode(condition) == text
    status = PodGroupStatus(conditions=(condition,))
    assert volcano.find_condition(status.conditions, volcano.UNSCHEDULABLE) == condition
    assert volcano.find_condition(status.conditions, volcano.SCHEDULED) is None


def test_a_queue_that_says_nothing_can_be_reclaimed_has_weight_one_and_no_limits() -> None:
    queue = codec.decode(Queue, '{"metadata": {"name": "q"}, "spec": {}, "status": {}}')
    assert (queue.spec.weight, queue.spec.reclaimable, queue.spec.capability) == (1, True, {})
    assert (queue.spec.max_pod_groups, queue.spec.dequeue_strategy) == (None, "traverse")


def test_written_objects_carry_what_volcanos_definitions_require() -> None:
    assert codec.encode(QueueStatus(state=volcano.OPEN)) == b'{"state":"Open","allocated":{}}'
    group = PodGroup(metadata=ObjectMeta(name="gang"), spec=PodGroupSpec())
    assert codec.encode(group) == b'{"metadata":{"name":"gang"},"spec":{"minMember":0}}'

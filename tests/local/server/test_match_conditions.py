"""Match conditions of webhooks: what they read of a request, and what happens if they fail."""

from time import thread_time
from typing import Any

import pytest

from quorate.local.server.admission_rules.webhooks import (
    ConditionError,
    all_conditions_met,
    compile_condition,
)

Json = dict[str, Any]

OBJECT: Json = {
    "metadata": {"name": "a", "labels": {"app": "web"}},
    "spec": {"items": [1, 2], "any": {"x": 1}},
}
REQUEST: Json = {"operation": "UPDATE", "userInfo": {"username": "ada"}, "object": OBJECT, "oldObject": None}


def met(*texts: str, request: Json = REQUEST) -> bool:
    return all_conditions_met([compile_condition(f"c{at}", text) for at, text in enumerate(texts)], request)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("object.metadata.name == 'a'", True),
        ("object.metadata.labels['app'] == 'web'", True),
        ("object['spec']['items'].size() == 2", True),
        ("has(object.spec.any) && object.spec.any.x == 1", True),
        ("object.spec.items.all(each, each < 2)", False),
        ("object.?spec.?missing.orValue(3) == 3", True),
        ("!has(object.spec.missing)", True),
        ("request.userInfo.username == 'ada' && request.operation in ['CREATE', 'UPDATE']", True),
        ("oldObject == null", True),
        ("object != null", True),
    ],
)
def test_a_condition_reads_the_request(text: str, want: bool) -> None:
    assert met(text) is want


def test_a_false_condition_decides_even_if_another_fails() -> None:
    assert not met("object.spec.missing.x == 1", "1 == 2")
    with pytest.raises(ConditionError, match="c0: no such key"):
        met("object.spec.missing.x == 1", "1 == 1")


def test_too_many_steps_are_an_error_of_the_condition() -> None:
    request = {**REQUEST, "object": {"spec": {"items": list(range(200_000))}}}
    with pytest.raises(ConditionError, match="c0: the cost limit is exceeded"):
        met("object.spec.items.all(each, each >= 0)", request=request)


def test_what_a_condition_does_not_read_costs_nothing() -> None:
    large = {**OBJECT, "status": {f"key-{number}": {"a": [number] * 10} for number in range(40_000)}}
    condition = compile_condition("c", "object.metadata.name == 'a' && request.operation == 'UPDATE'")

    def cost_s(request: Json) -> float:
        began = thread_time()
        for _ in range(20):
            assert all_conditions_met([condition], request)
        return thread_time() - began

    assert cost_s({**REQUEST, "object": large}) < 20 * cost_s(REQUEST) + 0.02

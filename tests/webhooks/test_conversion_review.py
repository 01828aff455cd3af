"""ConversionReviews: all objects are converted, or none with a message."""

import json
from typing import Any

import pytest

from quorate.webhooks.admission_review import InvalidReview
from quorate.webhooks.webhook_server import convert_objects, read_conversion

Json = dict[str, Any]
OLDER, NEWER = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"


def a_review(to: str, *objects: Json) -> bytes:
    request = {"uid": "7", "desiredAPIVersion": to, "objects": objects}
    return json.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    ).encode()


def convert_review(body: bytes) -> bytes:
    return convert_objects(read_conversion(body))


def a_queue(api_version: str, **spec: Any) -> Json:
    return {"apiVersion": api_version, "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": spec}


def a_topology(**fields: Any) -> Json:
    """Return a workload with a topology assignment of one slice, by default with a level that has no name."""
    part = {"valuesPerLevel": [{"universal": ""}], "podCounts": {"universal": 1}, **fields}
    assignment = {"name": "main", "topologyAssignment": {"levels": ["host"], "slices": [part]}}
    return {
        "apiVersion": NEWER,
        "kind": "Workload",
        "metadata": {"name": "w"},
        "status": {"admission": {"podSetAssignments": [assignment]}},
    }


def converted(to: str, *objects: Json) -> Json:
    response: Json = json.loads(convert_review(a_review(to, *objects)))["response"]
    return response


def test_all_objects_are_converted_to_the_desired_version() -> None:
    response = converted(NEWER, a_queue(OLDER, cohort="c"), a_queue(NEWER, cohortName="d"))
    assert response == {
        "uid": "7",
        "result": {"status": "Success"},
        "convertedObjects": [a_queue(NEWER, cohortName="c"), a_queue(NEWER, cohortName="d")],
    }
    assert converted(OLDER, a_queue(NEWER, cohortName="c"))["convertedObjects"] == [
        a_queue(OLDER, cohort="c")
    ]


def test_numbers_are_not_changed() -> None:
    body = a_review(NEWER, a_queue(OLDER)).replace(
        b'"spec": {}', b'"spec": {"a": 1.50, "b": 9223372036854775807}'
    )
    assert b'"spec":{"a":1.50,"b":9223372036854775807}' in convert_review(body)


@pytest.mark.parametrize(
    ("to", "objects", "want"),
    [
        pytest.param(
            "kueue.x-k8s.io/v1", [a_queue(OLDER)],
            "apiVersion: 'kueue.x-k8s.io/v1' is not a version of kueue.x-k8s.io "
            "(write kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2)", id="unknown desired version",
        ),
        pytest.param(
            NEWER, [a_queue(OLDER), a_queue("v1")],
            "apiVersion: 'v1' is not a version of kueue.x-k8s.io "
            "(write kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2)", id="unknown version of an object",
        ),
        pytest.param(
            NEWER, [a_queue(OLDER, admissionChecks=7)],
            "an object does not have the structure of its kind: TypeError(\"'int' object is not iterable\")",
            id="malformed object",
        ),
        pytest.param(
            OLDER, [a_topology(domainCount=2**31 - 1)],
            "the topology assignment has 4294967294 values, of at most 150000",
            id="a slice of 2147483647 domains",
        ),
        pytest.param(
            OLDER, [a_topology(domainCount=1000, valuesPerLevel=[{"universal": "n" * 5000}])],
            "the topology assignment has 5000000 characters, of at most 4194304",
            id="a long value in many domains",
        ),
        pytest.param(
            OLDER, [a_topology(domainCount=1, podCounts={"universal": "x"})],
            "an object does not have the structure of its kind: "
            "ValueError(\"invalid literal for int() with base 10: 'x'\")",
            id="a number of pods that is a text",
        ),
    ],
)  # fmt: skip
def test_a_failed_conversion_has_a_message(to: str, objects: list[Json], want: str) -> None:
    assert converted(to, *objects) == {"uid": "7", "result": {"status": "Failure", "message": want}}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b'{"request": 3}', a_review(NEWER).replace(b"/v1", b"/v1beta1", 1),
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
    ],
)  # fmt: skip
def test_a_body_that_is_not_a_review_is_invalid(body: bytes) -> None:
    with pytest.raises(InvalidReview):
        read_conversion(body)

"""``make vectors``: output and exit status."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.run_vectors import main

GOOD: dict[str, Any] = {
    "id": "one",
    "area": "queue",
    "title": "a workload that fits is admitted",
    "given": {
        "flavors": ["spot"],
        "clusterQueues": {"cq": {"quota": [{"spot": {"cpu": 2}}]}},
        "workloads": [{"name": "w", "queue": "cq", "requests": {"cpu": 2}}],
    },
    "expected": {"admitted": {"w": "spot"}},
}


def with_change(*path: Any, to: Any) -> dict[str, Any]:
    vector = copy.deepcopy(GOOD)
    *way, last = path
    inner: Any = vector
    for key in way:
        inner = inner[key]
    inner[last] = to
    return vector


def run(tmp_path: Path, *vectors: Any) -> int:
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump({"vectors": list(vectors)}))
    return main([str(path)])


def test_all_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unbuilt = with_change("skip", to="needs a second cluster")
    assert run(tmp_path, GOOD, unbuilt) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"skipped 1 of area {GOOD['area']}: needs a second cluster",
        "1 passed, 0 failed, 1 skipped",
    ]


@pytest.mark.parametrize(
    ("vector", "remark"),
    [
        pytest.param(
            with_change("expected", "admitted", to={"w": "dear"}),
            "expected.admitted.w: want 'dear', got 'spot'",
            id="a different value",
        ),
        pytest.param(
            with_change("expected", "admitted", to={}),
            "expected.admitted.w: want nothing, got {'main': {'count': 1, 'flavors': {'cpu': 'spot'}}}",
            id="an unexpected value",
        ),
        pytest.param(
            with_change("expected", "conditions", to={"w": {"Admitted": {"reason": "Why"}}}),
            "expected.conditions.w.Admitted.reason: want 'Why', got 'Admitted'",
            id="one field of a condition",
        ),
        pytest.param(
            with_change("given", "steps", to=["cycle", {"expect": {"priority": {"w": 3}}}]),
            "after step 1: priority.w: want 3, got 0",
            id="an expectation between steps",
        ),
        pytest.param(
            with_change("given", "workloads", 0, "prio", to=3),
            "given.workloads[0].prio is no key of the schema (known: active, ",
            id="an unknown key",
        ),
        pytest.param(
            with_change("given", "steps", to=[{"explode": "cq"}]),
            "given.steps[0].explode is no key of the schema (known: active, ",
            id="an unknown step",
        ),
        pytest.param(
            with_change("given", "steps", to=["sycle"]),
            "raised ValueError: 'sycle' is no step (world.py:",
            id="an unknown step without argument",
        ),
        pytest.param(
            with_change("given", "config", to={"featureGates": {"ConcurrentAdmission": True}}),
            "given.config.featureGates.ConcurrentAdmission: the core knows it only as False",
            id="an unsupported feature gate",
        ),
        pytest.param(
            with_change("expected", "shares", to={"unknown": 1}),
            "raised KeyError: 'unknown' (given.py:",
            id="an unknown name",
        ),
    ],
)
def test_a_failure_prints_the_difference(
    vector: Any, remark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, GOOD, vector) == 1
    head, said, last = capsys.readouterr().out.splitlines()
    assert head == "FAILED one (queue): a workload that fits is admitted"
    assert said.startswith(f"    {remark}")
    assert last == "1 passed, 1 failed, 0 skipped"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file or directory"),
        ("a: [", "is not YAML"),
        ("stories: []", "holds no vectors"),
        ("- vectors", "holds no vectors"),
        ("vectors: [{id: a, area: queue, given: {}}]", "vectors[0] lacks expected"),
    ],
)
def test_an_invalid_file_is_an_error(
    text: str | None, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.yaml"
    if text is not None:
        path.write_text(text)
    assert main([str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert why in captured.err

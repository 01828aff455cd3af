"""Run all vectors of the specification and our own against the core."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gang.vectors import run_case

Json = dict[str, Any]

HERE = Path(__file__).parent
MARKS: dict[str, tuple[pytest.MarkDecorator, ...]] = {
    "gang-cases.yaml": (),
    "own-cases.yaml": (),
    "topology-cases.yaml": (),
    "eviction-cases.yaml": (pytest.mark.large,),
    "life-cases.yaml": (),
}
FILES = [
    (yaml.load((HERE / name).read_text(), Loader=yaml.CSafeLoader), marks) for name, marks in MARKS.items()
]


@pytest.mark.parametrize(
    ("case", "confs"),
    [
        pytest.param(case, file["confs"], id=case["id"], marks=marks)
        for file, marks in FILES
        for case in file["cases"]
    ],
)
def test_vector(case: Json, confs: Json) -> None:
    assert run_case(case, confs) == []

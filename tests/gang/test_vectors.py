"""Run all vectors of the specification and our own against the core."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gang.vectors import run_case

Json = dict[str, Any]

HERE = Path(__file__).parent
FILES = [
    yaml.load((HERE / name).read_text(), Loader=yaml.CSafeLoader)
    for name in (
        "gang-cases.yaml",
        "own-cases.yaml",
        "topology-cases.yaml",
        "eviction-cases.yaml",
        "life-cases.yaml",
    )
]


@pytest.mark.parametrize(
    ("case", "confs"),
    [pytest.param(case, file["confs"], id=case["id"]) for file in FILES for case in file["cases"]],
)
def test_vector(case: Json, confs: Json) -> None:
    assert run_case(case, confs) == []

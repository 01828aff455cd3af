"""Every vector of the specification, and of ours, against the core as it is."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gang.vectors import KINDS, run_case

Json = dict[str, Any]

HERE = Path(__file__).parent
FILES = [
    yaml.load((HERE / name).read_text(), Loader=yaml.CSafeLoader)
    for name in ("gang-cases.yaml", "own-cases.yaml")
]
MISSING_KINDS = {"admission"}  # not built yet; this set only ever shrinks


@pytest.mark.parametrize(
    ("case", "confs"),
    [
        pytest.param(case, file["confs"], id=case["id"])
        for file in FILES
        for case in file["cases"]
        if case["kind"] not in MISSING_KINDS
    ],
)
def test_vector(case: Json, confs: Json) -> None:
    assert run_case(case, confs) == []


def test_what_is_left_out_is_not_there() -> None:
    assert MISSING_KINDS.isdisjoint(KINDS)

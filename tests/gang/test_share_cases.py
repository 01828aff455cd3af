"""Scenarios of sessions that follow the same rules in both profiles, in the schema of the shared vectors.

Each is played in both profiles, unless it names one.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gang.vectors import run_case

FILES = [
    yaml.load((Path(__file__).parent / name).read_text(), Loader=yaml.CSafeLoader)
    for name in ("share-cases.yaml", "isolation-cases.yaml")
]
CASES = [
    pytest.param({**case, "profile": profile}, file["confs"], id=f"{case['id']}-{profile}")
    for file in FILES
    for case in file["cases"]
    for profile in ("compat", "design")
    if case.get("profile", profile) == profile
]


@pytest.mark.parametrize(("case", "confs"), CASES)
def test_scenario(case: dict[str, Any], confs: dict[str, Any]) -> None:
    assert run_case(case, confs) == []

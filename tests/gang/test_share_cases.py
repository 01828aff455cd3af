"""Scenarios of queues that share a cluster, in the schema of the shared vectors.

Each is played in both profiles, unless it names one: they share by the same rules.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gang.vectors import run_case

FILE = yaml.load((Path(__file__).parent / "share-cases.yaml").read_text(), Loader=yaml.CSafeLoader)
CASES = [
    pytest.param({**case, "profile": profile}, id=f"{case['id']}-{profile}")
    for case in FILE["cases"]
    for profile in ("compat", "design")
    if case.get("profile", profile) == profile
]


@pytest.mark.parametrize("case", CASES)
def test_scenario(case: dict[str, Any]) -> None:
    assert run_case(case, FILE["confs"]) == []

"""Every vector of the specification, against the core as it is."""

from pathlib import Path

import pytest

from tests.queueing.vectors import run_vector
from tests.queueing.world import Json, read_vectors

CASES = Path(__file__).with_name("admission-cases.yaml")
NOT_BUILT = {"tas": "topology belongs to a later step"}


@pytest.mark.parametrize(
    "vector", [pytest.param(vector, id=vector["id"]) for vector in read_vectors(CASES.read_text())]
)
def test_vector(vector: Json) -> None:
    if vector["area"] in NOT_BUILT:
        pytest.skip(NOT_BUILT[vector["area"]])
    assert run_vector(vector) == []

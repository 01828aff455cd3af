"""Every vector of the specification and every additional one."""

from pathlib import Path

import pytest

from tests.queueing.notation import Json, read_vectors
from tests.queueing.vectors import NOT_BUILT, run_vector

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(vector, id=vector["id"])
        for name in ("admission-cases.yaml", "own-cases.yaml")
        for vector in read_vectors((HERE / name).read_text())
    ],
)
def test_vector(vector: Json) -> None:
    if vector["area"] in NOT_BUILT:
        pytest.skip(NOT_BUILT[vector["area"]])
    assert run_vector(vector) == []

"""Every vector of the specification and every additional one."""

from pathlib import Path

import pytest

from tests.queueing.notation import Json, read_vectors
from tests.queueing.vectors import DEVIATIONS, run_vector

HERE = Path(__file__).parent
FILES = (
    "admission-cases.yaml",
    "tas-cases.yaml",
    "own-cases.yaml",
    "reported-cases.yaml",
    "node-fit-cases.yaml",
    "retry-cases.yaml",
    "ended-pods-cases.yaml",
    "kueue-0.20-cases.yaml",
)


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(vector, id=vector["id"])
        for name in FILES
        for vector in read_vectors((HERE / name).read_text())
    ],
)
def test_vector(vector: Json) -> None:
    differences = run_vector(vector)
    if vector["id"] in DEVIATIONS:
        assert differences, f"it agrees now: {DEVIATIONS[vector['id']]}"
    else:
        assert differences == []

"""Every vector of the specification, against the core as it is."""

from pathlib import Path

import pytest

from tests.queueing.vectors import run_vector
from tests.queueing.world import Json, read_vectors

CASES = Path(__file__).with_name("admission-cases.yaml")
NOT_BUILT = {
    "afs": "admission fair sharing is not built yet",
    "tas": "topology belongs to a later step",
}


def reason_to_skip(vector: Json) -> str:
    return NOT_BUILT.get(vector["area"], "")


@pytest.mark.parametrize(
    "vector", [pytest.param(vector, id=vector["id"]) for vector in read_vectors(CASES.read_text())]
)
def test_vector(vector: Json) -> None:
    if reason := reason_to_skip(vector):
        pytest.skip(reason)
    assert run_vector(vector) == []

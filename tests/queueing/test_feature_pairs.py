"""All workloads of a world end, whichever two features of the core meet in it."""

import pytest

from tests.queueing.feature_pairs import PairWorld, rows

FEW, MANY = (0,), range(1, 13)


@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in FEW),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in MANY),
    ],
)
def test_workloads_end_whichever_features_meet(seed: int) -> None:
    found = [(row, findings) for row in rows(seed) if (findings := PairWorld(row, seed).findings())]
    assert found == []

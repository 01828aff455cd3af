"""Who has to be there first."""

import pytest

from quorate.api.core.scheduling import Pod
from quorate.placement.colocation import affinity_order
from quorate.placement.shapes import Shapes
from tests.placement.filters.inter_pod.test_pod_affinity import required_affinity, term
from tests.placement.filters.world import pod


def following(name: str, *whom: str) -> Pod:
    return pod(f"{name} app={name}", **required_affinity(*(term(each) for each in whom)))


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [pod("a"), pod("b", nodeSelector={"zone": "1"})], "a=0 b=0", id="nobody asks for company"
        ),
        pytest.param(
            [following("worker", "master"), following("master")], "worker=1 master=0", id="one follows"
        ),
        pytest.param(
            [following("a", "b"), following("b", "c"), following("c")], "a=2 b=1 c=0", id="in a chain"
        ),
        pytest.param([following("ring", "ring")], "ring=0", id="who wants its like may be the first of them"),
        pytest.param([following("a", "elsewhere"), following("b")], "a=1 b=0", id="nobody here is wanted"),
        pytest.param(
            [following("a", "b"), following("b", "a"), following("c")], "a=1 b=1 c=0", id="in a circle"
        ),
        pytest.param(
            [following("a", "b", "c"), following("b"), following("c")], "a=1 b=0 c=0", id="no one is both"
        ),
    ],
)
def test_who_comes_first(pods: list[Pod], want: str) -> None:
    shapes = Shapes()
    for each in pods:
        shapes.of(each)  # until all labels that matter are known
    named = {shapes.of(each): each.metadata.name for each in pods}
    assert " ".join(f"{named[shape]}={rank}" for shape, rank in affinity_order(list(named)).items()) == want

"""The scenarios of the benchmark of simulations are worlds in which all jobs end."""

from collections.abc import Callable

import pytest
from bench.simulate.worlds import QUEUES, placed_on_nodes, queues_alone

from quorate.simulate.engine.player import play
from quorate.simulate.engine.records import Outcome
from quorate.simulate.inputs.world import World


@pytest.mark.parametrize(("world", "nodes"), [(queues_alone, 0), (placed_on_nodes, QUEUES)])
def test_all_jobs_end(world: Callable[[int], World], nodes: int) -> None:
    run = play(world(QUEUES))
    assert len(run.jobs) == QUEUES
    assert set(run.jobs.outcome) == {Outcome.SUCCEEDED}
    assert len(run.world.nodes) == nodes
    assert bool(run.node_usage.samples) == bool(nodes)

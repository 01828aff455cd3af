"""The auditor detects a wrong model of a running replica and the replica rebuilds it."""

import pytest

from quorate.api.configuration import Configuration
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from tests.e2e.world import World, run_story

pytestmark = pytest.mark.slow


def test_leaked_quota_is_found_and_released() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await world.job("first", runs="forever")
        await world.until_admitted("first")
        assert world.replica.view is not None
        state = world.replica.view.state
        tree.add_usage(state.ledger.cluster_queues["research"].node, {FlavorResource("default", "cpu"): 1000})
        await world.job("second", runs="forever")
        await world.until_admitted("second")
        assert world.replica.rebuilt_at is not None
        assert world.replica.view.state is not state

        async def audited_again() -> bool:
            return world.replica.recorder.differences == 0

        await world.until("an audit that finds nothing", audited_again)

    run_story(story, Configuration(audit_every_s=0.5))

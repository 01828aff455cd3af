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
        view = world.replica.view
        ledger = view.state.ledger
        tree.add_usage(ledger.cluster_queues["research"].node, {FlavorResource("default", "cpu"): 1000})
        await world.job("second", runs="forever")
        await world.until_admitted("second")
        assert world.replica.rebuilt_at is not None
        # It was rebuilt beside the model in use: the process did not start again.
        assert world.replica.view is view
        assert view.state.ledger is not ledger

        async def audited_again() -> bool:
            return world.replica.recorder.differences == 0

        await world.until("an audit that finds nothing", audited_again)

    run_story(story, Configuration(audit_every_s=0.5))


def test_workloads_are_admitted_while_the_model_is_rebuilt() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1000")
        await world.job("first", runs="forever")
        await world.until_admitted("first")
        assert world.replica.view is not None
        state = world.replica.view.state
        ledger, cpus = state.ledger, FlavorResource("default", "cpu")
        tree.add_usage(ledger.cluster_queues["research"].node, {cpus: 1000})
        jobs: list[str] = []
        while state.ledger is ledger or len(jobs) < 8:  # some arrive before, some during and some after it
            jobs.append(f"job-{len(jobs)}")
            await world.job(jobs[-1], runs="forever")
            assert world.replica.ready.is_set()
        await world.until_admitted(*jobs)
        assert state.ledger.cluster_queues["research"].node.usage == {cpus: 1000 * (1 + len(jobs))}

    run_story(story, Configuration(audit_every_s=0.3))

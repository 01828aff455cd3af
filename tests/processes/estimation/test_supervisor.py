"""The process of the estimates exists while something waits."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.scale.objects import Size, controllers_series
from bench.scale.synthetic_client import SyntheticClient
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.api.configuration import default_configuration
from quorate.api.configuration.process import EstimateRules
from quorate.api.explanation import StartQuestion
from quorate.api.kueue import Workload
from quorate.controllers.process import follow
from quorate.kube.resources import WORKLOADS, Json
from quorate.observe.replica import Replica
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.estimation.supervisor import BUDGET_S, FIRST_S, SavedShare, run_estimation
from quorate.queueing.state import State
from quorate.simulate.kinds import KINDS as SNAPSHOT_KINDS
from tests.e2e.test_refused_changes import FastClock

DEADLINE_S = 120.0


@given(st.lists(st.tuples(st.floats(0, 400), st.floats(0.01, BUDGET_S)), max_size=20), st.floats(0.01, 1))
def test_refreshes_take_their_share_of_a_core_and_what_a_new_process_may_use(
    refreshes: list[tuple[float, float]], cpu: float
) -> None:
    """Each is ``(waited, needed)``: seconds from the refresh before, and what it waits for and then takes."""
    share, now, used_s = SavedShare(cpu, 0.0), 0.0, 0.0
    for waited_s, needed_s in refreshes:
        now = max(now + waited_s, share.is_saved_at(needed_s))
        assert share.saved_s(now) == pytest.approx(max(share.saved_s(now), needed_s))
        share.use(needed_s, now)
        used_s += needed_s
        assert used_s <= FIRST_S + cpu * now + 1e-6
        assert share.saved_s(now + 1e9) == BUDGET_S


def children() -> list[str]:
    """Return the commands of the children of this process that run the estimates."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = (Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in pids)
    return [command for command in commands if "estimation.worker" in command]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110  the kernel tells when a process ends
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_the_process_ends_when_nothing_waits_and_another_one_starts_when_something_does() -> None:
    asyncio.run(_story())


async def _story() -> None:
    client = SyntheticClient(controllers_series(Size(1, 0, 0)), (), lambda path, method, content: None)
    clock, replica = FastClock(), Replica("follower")
    in_force = ConfigurationInForce(None, "", default_configuration())

    def finish(name: str) -> None:
        condition: Json = {"type": "Finished", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
        client.change(WORKLOADS.path(), name, {"status": {"conditions": [condition]}})

    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow(client, clock, in_force.configured, replica))
        estimating = tasks.create_task(run_estimation(replica, in_force, clock, EstimateRules()))
        await until(lambda: replica.estimates.processor_s > 0)
        assert len(children()) == 1
        assert replica.view is not None
        read = {informer.resource for informer in replica.view.informers}
        assert read >= set(SNAPSHOT_KINDS), "the process gets all that a simulation of a snapshot reads"
        (waiting,) = (entry.workload for entry in _state(replica).ledger.entries.values())
        metadata = replace(waiting.metadata, name="asked", uid="")
        asked = StartQuestion(workload=Workload(metadata=metadata, spec=waiting.spec))
        assert (await replica.estimates.would_start(asked)).starts == "Within"
        finish("first-0")
        await until(lambda: not children())
        async with asyncio.timeout(DEADLINE_S):
            while (await replica.estimates.would_start(asked)).starts != "Within":
                pass  # a question starts the process too
        await until(lambda: not children())
        await client.add(WORKLOADS, "large", range(2))
        finish("large-0")
        await until(lambda: len(children()) == 1)
        await until(
            lambda: (
                [item.metadata.name for item in replica.estimates.in_namespace(_state(replica), "").items]
                == ["large-1"]
            )
        )
        following.cancel()
        estimating.cancel()


def _state(replica: Replica) -> State:
    assert replica.view is not None
    return replica.view.state

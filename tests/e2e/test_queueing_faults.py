"""A bug that one workload reaches, wherever it is, concerns this workload alone."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.controllers.jobframework.rules import decide
from quorate.kube.events import UNUSABLE
from quorate.kube.resources import EVENTS, WORKLOADS
from quorate.queueing.explain import why_pending
from quorate.queueing.lifecycle.decided_status import decided_status
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from tests.e2e.world import World, run_story

pytestmark = pytest.mark.slow

ADMISSION = "quorate.controllers.admission"
CONFIGURATION = Configuration(audit_every_s=0.2)


def names_odd(argument: Any) -> bool:
    key = argument.metadata.key if isinstance(argument, Workload) else argument
    return isinstance(key, Key) and key.name.startswith("job-odd")


def raising_on_odd(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        if any(map(names_odd, arguments)):
            raise LookupError("no such flavor")
        return original(*arguments, **options)

    return call


async def until_reported(world: World, kind: str = WORKLOADS.kind, name: str = "job-odd") -> None:
    async def find() -> bool:
        return any(
            event.reason == UNUSABLE
            and event.regarding is not None
            and event.regarding.kind == kind
            and event.regarding.name.startswith(name)
            and "LookupError: no such flavor" in event.note
            for event in (await world.client.list(EVENTS)).items
        )

    await world.until("the workload has an event", find)


def test_a_decision_that_cannot_be_written_is_shown_and_the_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{ADMISSION}.writer.decided_status", raising_on_odd(decided_status))

    async def story(world: World) -> None:
        await world.queues("4")
        await world.job("odd", runs="forever")
        await until_reported(world)
        await world.job("other", runs="forever")
        await world.until_admitted("other")
        assert "odd" not in await world.admitted()
        monkeypatch.undo()
        await world.until_admitted("odd")  # the decision is tried again

    run_story(story, CONFIGURATION)


def test_a_reason_that_cannot_be_computed_is_shown_and_the_others_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{ADMISSION}.driver.why_pending", raising_on_odd(why_pending))

    async def story(world: World) -> None:
        await world.queues("4")
        await world.job("odd", cpu="9")
        await world.job("large", cpu="9")
        await until_reported(world)
        await world.until_condition("large", "QuotaReserved", "False", "ExceedsMaxQuota")

    run_story(story, CONFIGURATION)


def test_an_audit_that_raises_is_given_up_and_decisions_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def audit_model(*arguments: Any) -> Any:
        raise LookupError("no such queue")

    monkeypatch.setattr(f"{ADMISSION}.auditor.audit_model", audit_model)

    async def story(world: World) -> None:
        await world.queues("4")

        async def given_up() -> bool:
            return any("the audit was given up" in record.getMessage() for record in caplog.records)

        await world.until("an audit raises", given_up)
        await world.job("later")
        await world.until_admitted("later")
        monkeypatch.undo()
        audits = len(caplog.records)
        await world.job("last")
        await world.until_admitted("last")
        assert all("audit" not in record.getMessage() for record in caplog.records[audits + 1 :])

    run_story(story, CONFIGURATION)


def test_a_workload_that_a_new_model_cannot_use_is_left_out_of_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await world.job("odd", runs="forever")
        await world.job("even", runs="forever")
        await world.until_admitted("odd", "even")
        assert world.replica.view is not None
        state, cpus = world.replica.view.state, FlavorResource("default", "cpu")
        wrong = state.ledger
        monkeypatch.setattr(State, "put_workload", raising_on_odd(State.put_workload))
        tree.add_usage(wrong.cluster_queues["research"].node, {cpus: 1000})  # the audit finds it

        async def replaced() -> bool:
            return state.ledger is not wrong

        await world.until("the model is replaced", replaced)
        await until_reported(world)
        assert state.ledger.cluster_queues["research"].node.usage == {cpus: 1000}
        monkeypatch.undo()
        await world.job("later", runs="forever")
        await world.until_admitted("later")

    run_story(story, CONFIGURATION)


def test_a_next_step_that_cannot_be_decided_is_shown_on_its_job_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decide_or_raise(kind: Any, job: Any, *arguments: Any) -> Any:
        if job is not None and job.metadata.name == "odd":
            raise LookupError("no such flavor")
        return decide(kind, job, *arguments)

    monkeypatch.setattr("quorate.controllers.jobframework.reconciler.decide", decide_or_raise)

    async def story(world: World) -> None:
        await world.queues("4")
        await world.job("odd")
        await until_reported(world, "Job", "odd")
        await world.job("other")
        await world.until_admitted("other")
        monkeypatch.undo()
        await world.until_admitted("odd")  # the job is tried again

    run_story(story, CONFIGURATION)

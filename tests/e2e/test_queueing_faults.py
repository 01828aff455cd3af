"""A bug that one workload reaches, wherever it is, concerns this workload alone."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.kube.events import UNUSABLE
from quorate.kube.resources import EVENTS, WORKLOADS
from quorate.queueing.explain import why_pending
from quorate.queueing.lifecycle.decided_status import decided_status
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


async def until_reported(world: World) -> None:
    async def find() -> bool:
        return any(
            event.reason == UNUSABLE
            and event.regarding is not None
            and event.regarding.kind == WORKLOADS.kind
            and event.regarding.name.startswith("job-odd")
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
        await world.until_condition("large", "QuotaReserved", "False", "Pending")

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

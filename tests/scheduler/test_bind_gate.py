"""While binds queue up, what is only told makes way; nobody makes way for ever."""

import asyncio

import pytest

from quorate.scheduler import bind_gate
from quorate.scheduler.bind_gate import BindGate

NEVER_S = 60.0


def test_nobody_waits_where_no_bind_does() -> None:
    async def story() -> None:
        await asyncio.wait_for(BindGate().wait(), NEVER_S)

    asyncio.run(story())


def test_who_makes_way_goes_on_when_no_more_binds_queue_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind_gate, "PATIENCE_S", NEVER_S)

    async def story() -> None:
        binds = BindGate()
        binds.take()
        told = asyncio.create_task(binds.wait())
        await asyncio.sleep(0)
        assert not told.done()
        binds.give_back()
        await asyncio.wait_for(told, NEVER_S / 2)

    asyncio.run(story())


def test_and_after_a_while_also_if_there_is_no_end_of_binds() -> None:
    async def story() -> None:
        binds = BindGate()
        binds.take()
        await asyncio.wait_for(binds.wait(), NEVER_S)
        assert binds.taken

    asyncio.run(story())


def test_whoever_asked_is_called_each_time_it_is_given_back() -> None:
    binds = BindGate()
    calls: list[bool] = []
    binds.when_free(lambda: calls.append(binds.taken))
    binds.give_back()  # nobody had it
    for _ in range(2):
        binds.take()
        binds.take()
        binds.give_back()
    assert calls == [False, False]

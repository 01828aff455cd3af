"""While binds are queued other writes wait, but only for a bounded time."""

import asyncio

from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.limits import MAX_WAIT_S

NEVER_S = 60.0


def test_an_open_gate_does_not_delay() -> None:
    async def story() -> None:
        await asyncio.wait_for(BindGate().wait(), NEVER_S)

    asyncio.run(story())


def test_a_waiting_write_continues_when_the_gate_opens() -> None:
    async def story() -> None:
        gate = BindGate(NEVER_S)
        gate.close()
        write = asyncio.create_task(gate.wait())
        await asyncio.sleep(0)
        assert not write.done()
        gate.open()
        await asyncio.wait_for(write, NEVER_S / 2)

    asyncio.run(story())


def test_a_waiting_write_continues_after_a_while_although_the_gate_stays_closed() -> None:
    async def story() -> None:
        gate = BindGate(0.1)
        gate.close()
        await asyncio.wait_for(gate.wait(), NEVER_S)
        assert gate.is_closed

    asyncio.run(story())


def test_a_session_waits_less_than_a_write() -> None:
    async def story() -> None:
        gate = BindGate()
        gate.close()
        write = asyncio.create_task(gate.wait())
        await asyncio.wait_for(gate.wait_at_most(MAX_WAIT_S / 100), NEVER_S)
        assert not write.done()
        gate.open()
        await write

    asyncio.run(story())


def test_callbacks_run_each_time_the_gate_opens() -> None:
    gate = BindGate()
    calls: list[bool] = []
    gate.on_open(lambda: calls.append(gate.is_closed))
    gate.open()  # it is open already
    for _ in range(2):
        gate.close()
        gate.close()
        gate.open()
    assert calls == [False, False]

"""When the reconciler runs a key: at once, at its time, after failures, and never twice concurrently."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

import pytest

from quorate.api.meta import Key
from quorate.kube.controller.reconcile import Reconcile, Reconciler
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.limits import RUNS_IN_ONE_TURN
from tests.kube.virtual_clock import VirtualClock, settle

A, B = Key("", "a"), Key("", "b")


def play(
    story: Callable[[Reconciler, VirtualClock], Awaitable[None]],
    reconcile: Reconcile,
    workers: int = 4,
) -> None:
    async def run() -> None:
        clock = VirtualClock()
        reconciler = Reconciler("under test", reconcile, clock, workers)
        running = asyncio.create_task(reconciler.run())
        await story(reconciler, clock)
        reconciler.stop()
        await running

    asyncio.run(run())


class Recorded:
    """Records each run, and returns or raises the given results in order."""

    def __init__(self, answers: Iterable[float | Exception | None] = ()) -> None:
        self.runs: list[str] = []
        self._answers = iter(answers)

    async def __call__(self, key: Key) -> float | None:
        self.runs.append(str(key))
        answer = next(self._answers, None)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_key_runs_again_at_the_time_that_its_run_returned() -> None:
    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        reconciler.enqueue(A)
        await settle()
        assert recorded.runs == ["a"]
        await clock.advance_to(1009.9)
        assert recorded.runs == ["a"]
        await clock.advance_to(1010.0)
        assert recorded.runs == ["a", "a"]

    recorded = Recorded([1010.0])
    play(story, recorded)


@pytest.mark.parametrize("off_s", [-3600.0, 3600.0])
def test_a_delay_has_its_length_although_the_wall_clock_is_set(off_s: float) -> None:
    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        reconciler.enqueue_at(A, 1010.0)
        reconciler.enqueue_in(B, 20.0)
        await settle()
        clock.off_s = off_s
        await clock.advance_to(1009.0)
        assert recorded.runs == []
        await clock.advance_to(1010.0)
        assert recorded.runs == ["a"]
        await clock.advance_to(1020.0)
        assert recorded.runs == ["a", "b"]

    recorded = Recorded()
    play(story, recorded)


def test_runs_of_a_plain_function_need_no_task_and_leave_turns_to_others() -> None:
    keys = [Key("", str(number)) for number in range(2 * RUNS_IN_ONE_TURN)]
    runs: list[Key] = []
    began = asyncio.Event()
    conflict = Conflict("PATCH /a", 409, "", "")
    answers: dict[Key, float | Exception] = {keys[0]: 1010.0, keys[1]: 1010, keys[-1]: conflict}

    def reconcile(key: Key) -> float | None:
        runs.append(key)
        began.set()
        answer = answers.pop(key, None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        for key in keys:
            reconciler.enqueue(key)
        await began.wait()
        assert runs == keys[:RUNS_IN_ONE_TURN], "another task runs between two turns"
        await reconciler.drained()
        assert runs == keys
        await clock.advance_to(1001.0)
        assert runs[len(keys) :] == [keys[-1]], "a failed run is repeated"
        await clock.advance_to(1010.0)
        assert runs[len(keys) :] == [keys[-1], *keys[:2]], "a run comes at the time that was returned"

    play(story, reconcile)


def test_an_earlier_key_shortens_the_wait() -> None:
    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        reconciler.enqueue_at(A, 1050.0)
        await settle()
        reconciler.enqueue_at(B, 1020.0)
        await settle()
        await clock.advance_to(1020.0)
        assert recorded.runs == ["b"]

    recorded = Recorded()
    play(story, recorded)


def test_a_delayed_key_costs_one_timer() -> None:
    """A polling loop would sleep repeatedly."""

    class CountingClock(VirtualClock):
        sleeps = 0

        async def _sleep(self, moment: float) -> None:
            self.sleeps += 1
            await super()._sleep(moment)

    async def run() -> None:
        clock = CountingClock()
        reconciler = Reconciler("under test", Recorded(), clock)
        running = asyncio.create_task(reconciler.run())
        reconciler.enqueue_at(A, 1050.0)
        for _ in range(10):
            reconciler.enqueue(B)
            await settle()
        assert clock.sleeps == 1
        reconciler.stop()
        await running

    asyncio.run(run())


def conflict() -> Conflict:
    return Conflict("PATCH /x", 409, "Conflict", "the object has been modified")


def test_failures_are_retried_with_backoff_until_a_run_succeeds() -> None:
    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        reconciler.enqueue(A)
        await settle()
        for moment, runs in ((1000.009, 1), (1000.011, 2), (1000.030, 2), (1000.032, 3), (2000.0, 3)):
            await clock.advance_to(moment)
            assert len(recorded.runs) == runs
        reconciler.enqueue(A)  # it fails again: the backoff starts over
        await settle()
        await clock.advance_to(2000.011)
        assert len(recorded.runs) == 5

    recorded = Recorded([conflict(), conflict(), None, conflict()])
    play(story, recorded)


def test_an_internal_error_is_logged_with_its_key_and_does_not_stop_other_keys(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        reconciler.enqueue(A)
        reconciler.enqueue(B)
        await settle()
        await clock.advance_to(1001.0)
        assert recorded.runs == ["a", "b", "a"]

    recorded = Recorded([ZeroDivisionError("oops"), None])
    with caplog.at_level(logging.WARNING):
        play(story, recorded)
    record, retrying = caplog.records
    assert record.message == "reconcile raised"
    assert retrying.exc_info is None
    assert record.__dict__["quorate_keys"]["key"] == A
    assert record.exc_info is not None


def test_a_conflict_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        reconciler.enqueue(A)
        await settle()

    with caplog.at_level(logging.WARNING):
        play(story, Recorded([conflict()]))
    assert caplog.records == []


@pytest.mark.parametrize(("failures", "logged"), [(1, []), (3, ["retrying", "retrying"])])
def test_an_object_that_is_gone_is_logged_if_the_next_run_finds_it_gone_again(
    failures: int, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        reconciler.enqueue(A)
        for _ in range(failures + 1):
            await clock.advance_to(clock.now() + 1)
        assert len(recorded.runs) == failures + 1

    recorded = Recorded([NotFound("PATCH /x", 404, "NotFound", "it does not exist")] * failures)
    with caplog.at_level(logging.WARNING):
        play(story, recorded)
    assert [record.message for record in caplog.records] == logged


def test_keys_run_concurrently_up_to_the_workers_and_one_key_never_twice() -> None:
    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        for name in "abcd":
            reconciler.enqueue(Key("", name))
        await settle()
        reconciler.enqueue(A)
        await settle()
        assert started == ["a", "b"]
        gate.set()
        await reconciler.drained()
        assert started == ["a", "b", "c", "d", "a"]
        assert most == 2

    started: list[str] = []
    in_progress, most = 0, 0
    gate = asyncio.Event()

    async def reconcile(key: Key) -> None:
        nonlocal in_progress, most
        started.append(key.name)
        in_progress += 1
        most = max(most, in_progress)
        await gate.wait()
        in_progress -= 1

    play(story, reconcile, workers=2)


def test_stop_lets_current_runs_end_and_starts_no_others() -> None:
    async def run() -> None:
        gate = asyncio.Event()
        ended: list[str] = []

        async def reconcile(key: Key) -> None:
            await gate.wait()
            ended.append(key.name)

        reconciler = Reconciler("under test", reconcile, VirtualClock(), workers=1)
        running = asyncio.create_task(reconciler.run())
        reconciler.enqueue(A)
        reconciler.enqueue(B)
        await settle()
        reconciler.stop()
        await settle()
        assert not running.done()
        gate.set()
        await running
        assert ended == ["a"]

    asyncio.run(run())


def test_a_reconciler_with_delayed_keys_only_is_drained() -> None:
    async def story(reconciler: Reconciler, clock: VirtualClock) -> None:
        await reconciler.drained()
        reconciler.enqueue_at(A, 5000.0)
        await settle()
        await reconciler.drained()

    play(story, Recorded())


def test_a_report_that_raises_ends_no_reconciles_of_other_keys(caplog: pytest.LogCaptureFixture) -> None:
    def report(key: Key, error: Exception) -> None:
        raise IndexError("no object to report about")

    async def run() -> None:
        clock = VirtualClock()
        recorded = Recorded([LookupError("a bug"), None, None])
        reconciler = Reconciler("under test", recorded, clock, 1, report=report)
        running = asyncio.create_task(reconciler.run())
        reconciler.enqueue(A)
        reconciler.enqueue(B)
        await settle()
        assert recorded.runs == ["a", "b"]
        await clock.advance_to(1100.0)
        assert recorded.runs == ["a", "b", "a"]
        reconciler.stop()
        await running

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert [record.message for record in caplog.records] == ["report of an object raised", "reconcile raised"]

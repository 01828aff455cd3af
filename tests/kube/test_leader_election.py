"""Which candidate holds the lease, and that two never lead at once."""

import asyncio
import json
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from queue import Queue
from typing import Any, Self

import pytest

from quorate.api.events import LeaseSpec
from quorate.api.meta import Key, MicroTime
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.manager import leader_election
from quorate.kube.manager.election_thread import in_own_thread
from quorate.kube.manager.leader_election import (
    LeaderElectionLost,
    LeaderElector,
    LeaseTimings,
    WritePermit,
    claim,
)
from quorate.kube.rest.config import RestConfig
from tests.kube.fake_server import Answer, FakeServer, Request, refusal
from tests.kube.test_informer import wait_for
from tests.kube.virtual_clock import VirtualClock, settle

LEASE = Key("quorate-system", "controllers")
TIMINGS = LeaseTimings()
HOURLY = LeaseTimings(lease_duration_s=9000, renew_deadline_s=8000.0, retry_period_s=3600.0)
STEP_S = 0.25  # of virtual time


def held_by(holder: str) -> LeaseSpec:
    return LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=15,
        acquire_time=MicroTime("then"),
        renew_time=MicroTime("later"),
        lease_transitions=3,
    )


@pytest.mark.parametrize(
    ("holder", "unchanged_s", "want"),
    [
        pytest.param("other", 14.9, None, id="held by another until it expires"),
        pytest.param("other", 15.0, ("1970-01-01T00:00:09.500000Z", 4), id="expired: taken over"),
        pytest.param("", 0.0, ("1970-01-01T00:00:09.500000Z", 4), id="released: free at once"),
        pytest.param("me", 99.0, ("then", 3), id="our own: renewed, however late"),
    ],
)
def test_a_lease_is_claimed_when_it_is_free_expired_or_ours(
    holder: str, unchanged_s: float, want: tuple[str, int] | None
) -> None:
    got = claim(held_by(holder), unchanged_s, "me", now=9.5, lease_duration_s=20)
    if want is None:
        assert got is None
    else:
        assert got == LeaseSpec(
            holder_identity="me",
            lease_duration_seconds=20,
            acquire_time=MicroTime(want[0]),
            renew_time=MicroTime("1970-01-01T00:00:09.500000Z"),
            lease_transitions=want[1],
        )


class OneLease:
    """A server that stores one lease."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] | None = None
        self._version = 1

    @property
    def holder(self) -> str:
        return "" if self.spec is None else self.spec.get("holderIdentity", "")

    def answer(self, request: Request) -> Answer:
        if "watch" in request.query:
            return Answer(403, refusal(403, "Forbidden"))  # candidates poll
        match request.method:
            case "POST" if self.spec is not None:
                return Answer(409, refusal(409, "AlreadyExists"))
            case "POST":
                self.spec = request.body["spec"]
            case _ if self.spec is None:
                return Answer(404, refusal(404, "NotFound"))
            case "PATCH" if request.body["metadata"]["resourceVersion"] != str(self._version):
                return Answer(409, refusal(409, "Conflict"))
            case "PATCH":
                self._version += 1
                merged = self.spec | request.body["spec"]
                self.spec = {name: value for name, value in merged.items() if value is not None}
        metadata = {"name": LEASE.name, "resourceVersion": str(self._version)}
        return Answer(200, {"metadata": metadata, "spec": self.spec})


class BusyClient(Client):
    """Tells whether a request is in flight, during which virtual time must not pass."""

    busy = 0

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        self.busy += 1
        try:
            return await super().request(method, path, **options)
        finally:
            self.busy -= 1


class Candidate:
    """Leads from its election to ``stop``, in virtual time, and can be kept from renewing."""

    def __init__(self, name: str, lease: OneLease, clock: VirtualClock, leading: list[str]) -> None:
        self.name = name
        self.refused = False
        self.silent_s = 0.0  # for how long the event loop of the work has been blocked
        self.permit = WritePermit(clock)
        self._lease = lease
        self._clock = clock
        self._leading = leading
        self._holding: asyncio.Task[None] | None = None
        self.client: BusyClient | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        async with (
            FakeServer(self._answer) as server,
            BusyClient(RestConfig(server.url), random.Random(7)) as client,
        ):
            self.client = client
            elector = LeaderElector(
                client, self._clock, LEASE, self.name, TIMINGS, self.permit, lambda: self.silent_s
            )
            self._holding = asyncio.create_task(elector.hold(lambda: self._leading.append(self.name)))
            try:
                yield self
            finally:
                await self.stop()

    def _answer(self, request: Request) -> Answer:
        return Answer(403, refusal(403, "Forbidden")) if self.refused else self._lease.answer(request)

    async def stop(self) -> None:
        """Stop the work and release the lease."""
        if self.name in self._leading:
            self._leading.remove(self.name)
        assert self._holding is not None
        self._holding.cancel()
        await asyncio.wait([self._holding])

    def lost(self) -> LeaderElectionLost | None:
        assert self._holding is not None
        if not self._holding.done() or self._holding.cancelled():
            return None
        error = self._holding.exception()
        assert isinstance(error, LeaderElectionLost), error
        return error


class Election:
    """Candidates for one lease; time passes only in ``until`` and ``pass_s``."""

    def __init__(self) -> None:
        self.lease = OneLease()
        self.clock = VirtualClock()
        self.leading: list[str] = []
        self._candidates: list[Candidate] = []

    def candidate(self, name: str) -> Candidate:
        self._candidates.append(Candidate(name, self.lease, self.clock, self.leading))
        return self._candidates[-1]

    def _requests_answered(self) -> bool:
        return not any(each.client is not None and each.client.busy for each in self._candidates)

    async def until(self, condition: Callable[[], bool]) -> float:
        """Let time pass in small steps until ``condition``; return the seconds that passed."""
        began = self.clock.now()
        async with asyncio.timeout(60):
            while not condition():
                await self.clock.advance_to(self.clock.now() + STEP_S)
                await wait_for(self._requests_answered)
                await settle()
        return self.clock.now() - began

    async def pass_s(self, seconds: float) -> None:
        end = self.clock.now() + seconds
        await self.until(lambda: self.clock.now() >= end)


def play(story: Callable[[Election], Awaitable[None]]) -> None:
    async def scenario() -> None:
        await story(Election())

    asyncio.run(scenario())


def test_a_leader_that_stops_hands_over_without_the_lease_expiring() -> None:
    async def story(election: Election) -> None:
        first, second = election.candidate("first"), election.candidate("second")
        async with first.running():
            await election.until(lambda: election.leading == ["first"])
            async with second.running():
                await election.pass_s(3 * TIMINGS.lease_duration_s)
                assert (election.leading, election.lease.holder) == (["first"], "first")
                await first.stop()
                assert election.lease.holder == ""
                waited_s = await election.until(lambda: election.leading == ["second"])
                assert waited_s < TIMINGS.lease_duration_s / 2
        assert election.lease.holder == ""
        assert election.lease.spec is not None
        assert election.lease.spec["leaseTransitions"] == 1

    play(story)


def test_a_leader_that_cannot_renew_stops_before_another_begins() -> None:
    async def story(election: Election) -> None:
        first, second = election.candidate("first"), election.candidate("second")
        async with first.running(), second.running():
            await election.until(lambda: len(election.leading) == 1)
            leader, other = (first, second) if election.leading == ["first"] else (second, first)
            leader.refused = True
            await election.until(lambda: leader.lost() is not None)
            assert election.leading == [leader.name], "another began before this leader stopped"
            assert leader.permit.refusal() == "this process is not the leader"
            election.leading.clear()
            await election.until(lambda: election.leading == [other.name])

    play(story)


def test_a_candidate_attempts_when_the_lease_expires_and_not_only_at_the_next_poll() -> None:

    async def story(election: Election) -> None:
        first, second = election.candidate("first"), election.candidate("second")
        async with first.running(), second.running():
            await election.until(lambda: len(election.leading) == 1)
            leader, other = (first, second) if election.leading == ["first"] else (second, first)
            await election.pass_s(TIMINGS.lease_duration_s)
            leader.refused = True
            waited_s = await election.until(lambda: other.name in election.leading)
            # Without a watch, a candidate sees a renewal up to 1.2 retry periods after it happened.
            assert waited_s <= TIMINGS.lease_duration_s + 1.2 * TIMINGS.retry_period_s + 4 * STEP_S

    play(story)


def test_writes_are_permitted_until_the_renew_deadline() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        permit = WritePermit(clock)
        assert permit.refusal() == "this process is not the leader"
        permit.extend(clock.now() + 10.0)
        await clock.advance_to(clock.now() + 9.9)
        assert permit.refusal() == ""
        await clock.advance_to(clock.now() + 1.6)  # as after SIGSTOP: nothing of the process ran meanwhile
        assert permit.refusal() == "the lease may be another's: its renew deadline passed 1.5 s ago"
        permit.revoke()
        assert permit.refusal() == "this process is not the leader"

    asyncio.run(scenario())


def test_a_leader_that_was_suspended_beyond_the_deadline_loses_its_lease_and_does_not_release_it() -> None:
    async def story(election: Election) -> None:
        candidate = election.candidate("first")
        async with candidate.running():
            await election.until(lambda: election.leading == ["first"])
            await election.clock.advance_to(election.clock.now() + TIMINGS.renew_deadline_s + 1.5)
            assert candidate.permit.refusal() != ""
            await election.until(lambda: candidate.lost() is not None)
            assert candidate.permit.refusal() == "this process is not the leader"
            assert election.lease.holder == "first", "a lost lease must expire: writes may be in flight"

    play(story)


def test_a_leader_gives_up_when_its_event_loop_does_not_answer() -> None:
    async def story(election: Election) -> None:
        candidate = election.candidate("first")
        async with candidate.running():
            await election.until(lambda: election.leading == ["first"])
            candidate.silent_s = TIMINGS.watchdog_s - 1.0
            await election.pass_s(2 * TIMINGS.lease_duration_s)
            assert candidate.lost() is None, "a blocked loop alone must not cost the lease"
            candidate.silent_s = TIMINGS.watchdog_s
            await election.until(lambda: candidate.lost() is not None)

    play(story)


def test_a_watch_of_the_lease_shows_a_release_at_once() -> None:
    """The candidate would poll in an hour only."""

    async def scenario() -> None:
        released = asyncio.Event()
        clock, leading = VirtualClock(), asyncio.Event()
        lease = OneLease()
        lease.spec = {"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 1}
        frame = {"type": "MODIFIED", "object": {"metadata": {"name": LEASE.name}, "spec": {}}}

        async def watch(request: Request) -> Answer:
            await released.wait()
            lease.spec = {"leaseTransitions": 1}
            return Answer(200, json.dumps(frame).encode() + b"\n")

        def respond(request: Request) -> Answer | Awaitable[Answer]:
            return watch(request) if "watch" in request.query else lease.answer(request)

        async with FakeServer(respond) as server, server.client() as client:
            elector = LeaderElector(client, clock, LEASE, "me", HOURLY)
            holding = asyncio.create_task(elector.hold(leading.set))
            await wait_for(lambda: {"true"} <= {each.query.get("watch") for each in server.requests})
            assert not leading.is_set()
            released.set()
            await asyncio.wait_for(leading.wait(), 30)
            holding.cancel()
            await asyncio.wait([holding])

    asyncio.run(scenario())


def test_a_thread_renews_the_lease_while_the_event_loop_is_blocked() -> None:
    lease = OneLease()
    timings = LeaseTimings(lease_duration_s=2, renew_deadline_s=1.5, retry_period_s=0.05)

    async def scenario() -> None:
        elected = asyncio.Event()
        ready: Queue[tuple[Client, asyncio.AbstractEventLoop, asyncio.Event]] = Queue()
        renewals: list[str] = []

        async def serve() -> None:
            def answer(request: Request) -> Answer:
                if request.method == "PATCH":
                    renewals.append(request.body["spec"].get("holderIdentity") or "")
                return lease.answer(request)

            async with FakeServer(answer) as server:
                stopped = asyncio.Event()
                ready.put((server.client(), asyncio.get_running_loop(), stopped))
                await stopped.wait()

        server_thread = threading.Thread(target=lambda: asyncio.run(serve()))
        server_thread.start()
        client, server_loop, stopped = ready.get()

        async def connect() -> Client:
            return client

        clock = WallClock()
        permit = WritePermit(clock)
        join = in_own_thread(connect, clock, lambda: "me", permit)
        holding = asyncio.create_task(join(LEASE, timings)(elected.set))
        try:
            await asyncio.wait_for(elected.wait(), 30)
            seen = len(renewals)
            deadline = time.monotonic() + 30
            while len(renewals) < seen + 5 and time.monotonic() < deadline:
                pass  # this loop is blocked; the renewals prove that the thread works
            assert len(renewals) >= seen + 5
            assert permit.refusal() == ""
            holding.cancel()
            await asyncio.wait([holding])
            assert lease.holder == "", "the lease was not released"
            assert permit.refusal() == "this process is not the leader"
        finally:
            server_loop.call_soon_threadsafe(stopped.set)
            server_thread.join()

    asyncio.run(scenario())


def test_the_work_ends_and_its_writes_finish_before_the_lease_is_released() -> None:
    async def scenario() -> list[str]:
        log: list[str] = []

        async def respond(request: Request) -> Answer:
            log.append("write received")
            await asyncio.sleep(0.05)  # sleeps: a write that takes a while
            log.append("write answered")
            return Answer(200, {})

        async def candidate(elected: Callable[[], None]) -> None:
            elected()
            try:
                await asyncio.Event().wait()
            finally:
                log.append("lease released")

        async def follow() -> None:
            await asyncio.Event().wait()

        async with FakeServer(respond) as server, server.client() as client:

            async def lead() -> None:
                await client.request("POST", "/api/v1/namespaces/default/pods", body=b"{}")

            running = asyncio.create_task(leader_election.run(client, candidate, follow=follow, lead=lead))
            await wait_for(lambda: "write received" in log)
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()
        return log

    assert asyncio.run(scenario()) == ["write received", "write answered", "lease released"]

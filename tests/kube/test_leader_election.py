"""Which candidate holds the lease, and that two never lead at once."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from quorate.api.events import LeaseSpec
from quorate.api.meta import Key, MicroTime
from quorate.kube.clock import WallClock
from quorate.kube.manager.leader_election import LeaderElectionLost, LeaderElector, LeaseTimings, claim
from tests.kube.fake_server import Answer, FakeServer, Hangup, Request, refusal
from tests.kube.test_informer import wait_for

LEASE = Key("quorate-system", "controllers")
SHORT = LeaseTimings(lease_duration_s=2, renew_deadline_s=0.5, retry_period_s=0.05)


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

    def renewed_for_s(self) -> float:
        """Return for how long the holder has renewed the lease, seconds."""
        if self.spec is None:
            return 0.0
        renewed, acquired = (datetime.fromisoformat(self.spec[each]) for each in ("renewTime", "acquireTime"))
        return (renewed - acquired).total_seconds()

    def answer(self, request: Request) -> Answer:
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


class Candidate:
    """Leads until ``stop`` is set, records when it leads, and can be disconnected from the server."""

    def __init__(self, name: str, lease: OneLease, leading: list[str]) -> None:
        self.name = name
        self.disconnected = False
        self.stop = asyncio.Event()
        self._leading = leading
        self._lease = lease

    async def run(self) -> None:
        async with (
            FakeServer(
                lambda request: Hangup() if self.disconnected else self._lease.answer(request)
            ) as server,
            server.client() as client,
        ):
            await LeaderElector(client, WallClock(), LEASE, self.name, SHORT).run(self._work)

    async def _work(self) -> None:
        self._leading.append(self.name)
        try:
            assert len(self._leading) == 1, "two leaders at once"
            await self.stop.wait()
        finally:
            self._leading.remove(self.name)


@pytest.mark.slow
def test_a_leader_that_stops_releases_its_lease() -> None:
    async def story() -> None:
        leading: list[str] = []
        lease = OneLease()
        first, second = Candidate("first", lease, leading), Candidate("second", lease, leading)
        first_run = asyncio.create_task(first.run())
        await wait_for(lambda: leading == ["first"])
        second_run = asyncio.create_task(second.run())
        await wait_for(lambda: lease.renewed_for_s() > SHORT.lease_duration_s)
        assert leading == ["first"]
        first.stop.set()
        await first_run
        await wait_for(lambda: leading == ["second"])
        second.stop.set()
        await second_run
        assert lease.spec is not None
        assert "holderIdentity" not in lease.spec
        assert lease.spec["leaseTransitions"] == 1

    asyncio.run(story())


@pytest.mark.slow
def test_a_leader_without_a_connection_stops_before_another_begins() -> None:
    async def story() -> None:
        leading: list[str] = []
        lease = OneLease()
        first, second = Candidate("first", lease, leading), Candidate("second", lease, leading)
        first_run = asyncio.create_task(first.run())
        await wait_for(lambda: leading == ["first"])
        second_run = asyncio.create_task(second.run())
        first.disconnected = True
        await wait_for(lambda: leading == ["second"])  # its work asserts that it leads alone
        second.stop.set()
        await second_run
        (result,) = await asyncio.gather(first_run, return_exceptions=True)
        assert isinstance(result, ExceptionGroup)
        (lost,) = result.exceptions
        assert isinstance(lost, LeaderElectionLost)
        assert lost.renewed_s_ago >= 0.4

    asyncio.run(story())

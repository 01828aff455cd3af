import asyncio
from typing import Any

import pytest

from quorate.api.events import LeaseSpec
from quorate.api.meta import Key, MicroTime
from quorate.kube.clock import WallClock
from quorate.kube.leases import Election, LeadershipLost, Terms, claim
from tests.kube.outside import Answer, Asked, Hangup, Outside, refusal
from tests.kube.test_informer import wait_for

LEASE = Key("quorate-system", "controllers")
SHORT = Terms(lease_s=2, renew_deadline_s=0.5, retry_s=0.05)


def held_by(who: str) -> LeaseSpec:
    return LeaseSpec(
        holder_identity=who,
        lease_duration_seconds=15,
        acquire_time=MicroTime("then"),
        renew_time=MicroTime("later"),
        lease_transitions=3,
    )


@pytest.mark.parametrize(
    ("holder", "unchanged_s", "want"),
    [
        pytest.param("other", 14.9, None, id="another's while it may be alive"),
        pytest.param("other", 15.0, ("1970-01-01T00:00:09.500000Z", 4), id="taken over once it stood still"),
        pytest.param("", 0.0, ("1970-01-01T00:00:09.500000Z", 4), id="given back: free at once"),
        pytest.param("me", 99.0, ("then", 3), id="ours: renewed, however late"),
    ],
)
def test_claim(holder: str, unchanged_s: float, want: tuple[str, int] | None) -> None:
    got = claim(held_by(holder), unchanged_s, "me", now=9.5, lease_s=20)
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
    """A server that keeps one lease."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] | None = None
        self._version = 1

    def answer(self, asked: Asked) -> Answer:
        match asked.method:
            case "POST" if self.spec is not None:
                return Answer(409, refusal(409, "AlreadyExists"))
            case "POST":
                self.spec = asked.body["spec"]
            case _ if self.spec is None:
                return Answer(404, refusal(404, "NotFound"))
            case "PATCH" if asked.body["metadata"]["resourceVersion"] != str(self._version):
                return Answer(409, refusal(409, "Conflict"))
            case "PATCH":
                self._version += 1
                merged = self.spec | asked.body["spec"]
                self.spec = {name: value for name, value in merged.items() if value is not None}
        metadata = {"name": LEASE.name, "resourceVersion": str(self._version)}
        return Answer(200, {"metadata": metadata, "spec": self.spec})


class Candidate:
    """Works until told to stop, notes when it works, and can be cut off from the server."""

    def __init__(self, name: str, lease: OneLease, at_work: list[str]) -> None:
        self.name = name
        self.cut_off = False
        self.stop = asyncio.Event()
        self._at_work = at_work
        self._lease = lease

    async def run(self) -> None:
        async with (
            Outside(lambda asked: Hangup() if self.cut_off else self._lease.answer(asked)) as outside,
            outside.client() as client,
        ):
            await Election(client, WallClock(), LEASE, self.name, SHORT).run(self._work)

    async def _work(self) -> None:
        self._at_work.append(self.name)
        try:
            assert len(self._at_work) == 1, "two leaders at once"
            await self.stop.wait()
        finally:
            self._at_work.remove(self.name)


@pytest.mark.slow
def test_a_leader_that_stops_hands_over_at_once() -> None:
    async def story() -> None:
        at_work: list[str] = []
        lease = OneLease()
        first, second = Candidate("first", lease, at_work), Candidate("second", lease, at_work)
        first_run = asyncio.create_task(first.run())
        await wait_for(lambda: at_work == ["first"])
        second_run = asyncio.create_task(second.run())
        await asyncio.sleep(SHORT.lease_s * 1.25)  # renewed all the while, so longer than it was granted for
        assert at_work == ["first"]
        first.stop.set()
        await first_run
        await wait_for(lambda: at_work == ["second"])
        second.stop.set()
        await second_run
        assert lease.spec is not None
        assert "holderIdentity" not in lease.spec
        assert lease.spec["leaseTransitions"] == 1

    asyncio.run(story())


@pytest.mark.slow
def test_a_leader_that_is_cut_off_stops_before_another_begins() -> None:
    async def story() -> None:
        at_work: list[str] = []
        lease = OneLease()
        first, second = Candidate("first", lease, at_work), Candidate("second", lease, at_work)
        first_run = asyncio.create_task(first.run())
        await wait_for(lambda: at_work == ["first"])
        second_run = asyncio.create_task(second.run())
        first.cut_off = True
        await wait_for(lambda: at_work == ["second"])  # its work asserts that it is alone
        second.stop.set()
        await second_run
        (result,) = await asyncio.gather(first_run, return_exceptions=True)
        assert isinstance(result, ExceptionGroup)
        (lost,) = result.exceptions
        assert isinstance(lost, LeadershipLost)
        assert lost.renewed_s_ago >= 0.4

    asyncio.run(story())

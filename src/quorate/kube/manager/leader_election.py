"""Leader election by a Lease (coordination.k8s.io/v1), with the rules of client-go.

The holder renews the lease; another candidate takes it over once it has not changed for the granted duration,
by the candidate's own clock.  Times that other processes wrote are never compared with our own clock.  A
candidate watches the lease, so that it measures that duration from the renewal itself, and knows a release at
once; without a watch it polls.

A leader that cannot renew stops its work well before another may begin (``renew_deadline_s`` is less than
``lease_duration_s``).  A process that is suspended, or has a blocked event loop, cannot stop in time: its
client therefore asks ``WritePermit`` before each write, which refuses from the renew deadline on.  A write
that was sent before may still arrive later; it carries the resource version it was decided on.

The lease is renewed in a thread of its own (``election_thread``), so a blocked event loop does not lose it.
After ``watchdog_s`` without a sign of life of that loop the lease is given up.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from quorate.api import codec
from quorate.api.events import Lease, LeaseSpec
from quorate.api.meta import Key, ObjectMeta, micro_time
from quorate.kube.cancellation import end_tasks, run_cancellable
from quorate.kube.client import Client
from quorate.kube.clock import Clock, Timer
from quorate.kube.errors import AlreadyExists, Conflict, RequestFailed
from quorate.kube.limits import LEASE_MARGIN_S
from quorate.kube.log import logger
from quorate.kube.resources import LEASES
from quorate.kube.rest.decoding import WatchEvent


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    lease_duration_s: int = 15  # whole seconds, as in the API
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    watchdog_s: float = 60.0  # a leader gives up when its event loop is blocked for longer

    def __post_init__(self) -> None:
        assert self.retry_period_s < self.renew_deadline_s < self.lease_duration_s, (
            f"{self} leaves no time to stop"
        )


class LeaderElectionLost(Exception):
    def __init__(self, key: Key, identity: str, renewed_s_ago: float) -> None:
        super().__init__(key, identity, renewed_s_ago)
        self.key, self.identity, self.renewed_s_ago = key, identity, renewed_s_ago

    def __str__(self) -> str:
        return f"lease {self.key}: {self.identity} could not renew it for {self.renewed_s_ago:.1f} s"


class WritePermit:
    """Whether the leader may write: until the deadline of the last renewal, and not before it is elected.

    ``clock.steady`` counts the time in which the machine was suspended.  Thread-safe.
    """

    def __init__(self, clock: Clock) -> None:
        self._steady = clock.steady
        self._until = -math.inf  # steady time

    def extend(self, until: float) -> None:
        self._until = until

    def revoke(self) -> None:
        self._until = -math.inf

    def refusal(self) -> str:
        """Return why a write must not be sent; empty if it may be."""
        late_s = self._steady.now() - self._until
        if late_s < 0.0:
            return ""
        if math.isinf(late_s):
            return "this process is not the leader"
        return f"the lease may be another's: its renew deadline passed {late_s:.1f} s ago"


def claim(
    spec: LeaseSpec, unchanged_s: float, identity: str, now: float, lease_duration_s: int
) -> LeaseSpec | None:
    """Return the lease as ``identity`` may hold it from ``now`` on; None while another holder is valid.

    ``spec`` has not changed for ``unchanged_s`` by our own clock.
    """
    ours = spec.holder_identity == identity
    if spec.holder_identity and not ours and unchanged_s < spec.lease_duration_seconds:
        return None
    moment = micro_time(now)
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=lease_duration_s,
        acquire_time=spec.acquire_time if ours else moment,
        renew_time=moment,
        lease_transitions=spec.lease_transitions + (0 if ours else 1),
    )


class LeaderElector:
    """One candidate; ``identity`` is unique among processes and runs.

    ``silent_s`` returns for how long the event loop that does the work has not answered.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        key: Key,
        identity: str,
        timings: LeaseTimings | None = None,
        permit: WritePermit | None = None,
        silent_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._client = client
        self._clock = clock
        self._steady = clock.steady  # measures all durations: setting the wall clock must not elect a leader
        self._key = key
        self._identity = identity
        self._timings = timings if timings is not None else LeaseTimings()
        self._permit = permit if permit is not None else WritePermit(clock)
        self._silent_s = silent_s
        self._observed = LeaseSpec()  # the lease as last read
        self._observed_at = clock.steady.now()  # steady time of its last change
        self._free = asyncio.Event()  # the lease may be free: attempt
        self._renewed_at = 0.0  # steady time at which the last successful attempt began
        self._log = logger(__name__).bind(lease=key, identity=identity)

    async def hold(self, elected: Callable[[], None]) -> None:
        """Wait to be elected, call ``elected``, and renew the lease until cancelled; then release it.

        Cancel it only when no write of the leader is in flight.  Raises ``LeaderElectionLost``.
        """
        await self._win()
        self._log.info("elected")
        try:
            elected()
            await self._renew()
        except LeaderElectionLost:
            # Not released: writes may still be in flight.  They arrive before the lease expires, but might
            # not arrive before a candidate that sees a released lease begins.
            self._permit.revoke()
            raise
        except BaseException:
            self._permit.revoke()
            await self._release()
            raise

    async def _win(self) -> None:
        timer = Timer(self._steady, self._free)
        watching = asyncio.create_task(self._watch(), name=f"watch lease {self._key}")
        try:
            while not await self._attempt():
                self._free.clear()
                timer.reset(self._next_attempt())
                await self._free.wait()
        finally:
            timer.reset(None)
            await end_tasks([watching])

    def _next_attempt(self) -> float:
        """Return the steady time of a candidate's next attempt: when the lease expires, or the next poll."""
        now = self._steady.now()
        expires = self._observed_at + self._observed.lease_duration_seconds + LEASE_MARGIN_S
        poll = now + self._retry_s()
        return min(poll, expires) if expires > now else poll

    async def _watch(self) -> None:
        """Observe changes of the lease until cancelled; where that is not permitted, polling suffices."""
        selector = f"metadata.name={self._key.name}"
        while True:
            try:
                async for event in self._client.watch(
                    LEASES, "", self._key.namespace, field_selector=selector
                ):
                    if not isinstance(event, WatchEvent):
                        continue
                    if event.type == "DELETED":
                        self._free.set()
                        continue
                    self._observe(event.object.spec)
                    if not self._observed.holder_identity:
                        self._free.set()
            except RequestFailed as error:
                self._log.debug("lease not watched", problem=str(error))
            await self._steady.sleep_until(self._steady.now() + self._retry_s())

    async def _renew(self) -> NoReturn:
        while True:
            await self._steady.sleep_until(self._steady.now() + self._retry_s())
            answers = self._silent_s() < self._timings.watchdog_s
            held = answers and await self._attempt_before(self._renewed_at + self._timings.renew_deadline_s)
            renewed_s_ago = self._steady.now() - self._renewed_at
            if not held and (
                self._observed.holder_identity != self._identity
                or renewed_s_ago >= self._timings.renew_deadline_s
            ):
                raise LeaderElectionLost(self._key, self._identity, renewed_s_ago)

    async def _attempt_before(self, deadline: float) -> bool:
        """Attempt to renew until the steady time ``deadline``: a request may hang."""
        if self._steady.now() >= deadline:
            return False
        attempt = asyncio.create_task(self._attempt())
        timer = asyncio.create_task(self._steady.sleep_until(deadline))
        try:
            await asyncio.wait([attempt, timer], return_when=asyncio.FIRST_COMPLETED)
            return attempt.done() and attempt.result()
        finally:
            await end_tasks([attempt, timer])

    async def _attempt(self) -> bool:
        """Acquire or renew the lease; return whether it is held, and log failures."""
        began = self._steady.now()
        try:
            held = await self._acquire()
        except RequestFailed as error:
            self._log.warning("lease not renewed", problem=str(error))
            return False
        if held:
            self._renewed_at = began
            self._permit.extend(began + self._timings.renew_deadline_s)
        return held

    async def _acquire(self) -> bool:
        lease = await self._client.find(LEASES, self._key)
        if lease is None:
            return await self._create()
        self._observe(lease.spec)
        unchanged_s = self._steady.now() - self._observed_at
        spec = claim(
            self._observed, unchanged_s, self._identity, self._clock.now(), self._timings.lease_duration_s
        )
        return spec is not None and await self._write(lease.metadata.resource_version, spec)

    async def _create(self) -> bool:
        now = self._clock.now()
        spec = claim(
            LeaseSpec(lease_transitions=-1), 0.0, self._identity, now, self._timings.lease_duration_s
        )
        assert spec is not None, "a lease that does not exist has no holder"
        metadata = ObjectMeta(name=self._key.name, namespace=self._key.namespace)
        try:
            await self._client.create(LEASES, Lease(metadata=metadata, spec=spec))
        except AlreadyExists:
            return False
        self._observe(spec)
        return True

    async def _write(self, resource_version: str, spec: LeaseSpec) -> bool:
        patch = {"metadata": {"resourceVersion": resource_version}, "spec": codec.to_builtins(spec)}
        try:
            await self._client.patch(LEASES, self._key, patch)
        except Conflict:
            return False  # another candidate wrote first
        self._observe(spec)
        return True

    async def _release(self) -> None:
        """Clear the holder, so that another candidate need not wait for the lease to expire."""
        await self._client.writes_finished()  # a renewal in flight would conflict
        if self._observed.holder_identity != self._identity:
            return
        spec = msgspec.structs.replace(self._observed, holder_identity="", lease_duration_seconds=1)
        try:
            lease = await self._client.get(LEASES, self._key)
            if lease.spec.holder_identity == self._identity:
                released = codec.to_builtins(spec) | {"holderIdentity": None}
                version = {"resourceVersion": lease.metadata.resource_version}
                await self._client.patch(LEASES, self._key, {"metadata": version, "spec": released})
                self._log.info("lease released")
        except RequestFailed as error:
            self._log.warning("lease not released: it will expire", problem=str(error))

    def _observe(self, spec: LeaseSpec) -> None:
        if spec != self._observed:
            self._observed, self._observed_at = spec, self._steady.now()

    def _retry_s(self) -> float:
        # Jitter, so that candidates that start together do not retry together.
        return self._timings.retry_period_s * (1 + self._client.rng.random() / 5)


Work = Callable[[], Coroutine[None, None, None]]
Candidate = Callable[[Callable[[], None]], Coroutine[None, None, None]]
"""Runs ``LeaderElector.hold`` of a new elector, with its argument."""
JoinElection = Callable[[Key, LeaseTimings], Candidate]


async def run(client: Client, candidate: Candidate, *, follow: Work, lead: Work) -> None:
    """Run ``follow`` until elected, then ``lead``, until cancelled or one of them raises.

    ``client`` sends the writes of the leader.  A leader that loses its lease follows again.
    """
    while True:
        try:
            await run_cancellable(_run_term(client, candidate, follow, lead))
        except* LeaderElectionLost as lost:
            logger(__name__).warning("following again", problem=str(lost.exceptions[0]))
        await client.writes_finished()  # a late write must not be permitted by the next term


async def _run_term(client: Client, candidate: Candidate, follow: Work, lead: Work) -> None:
    """Follow, then lead, then release the lease.  Raises ``LeaderElectionLost``, or what the work raised."""
    elected = asyncio.Event()
    working = asyncio.create_task(_follow_then_lead(elected, follow, lead), name="leader election")
    holding = asyncio.create_task(candidate(elected.set), name="lease")
    try:
        await asyncio.wait([working, holding], return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        await asyncio.wait([working])
        if not holding.done():
            await client.writes_finished()
            holding.cancel()
            await asyncio.wait([holding])
    errors = [
        error
        for task in (working, holding)
        if not task.cancelled() and (error := task.exception()) is not None
    ]
    if errors:
        raise BaseExceptionGroup("leader election", errors)


async def _follow_then_lead(elected: asyncio.Event, follow: Work, lead: Work) -> None:
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow(), name="follow")
        await elected.wait()
        following.cancel()
    await lead()

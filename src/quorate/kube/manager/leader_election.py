"""Leader election by a Lease (coordination.k8s.io/v1), with the rules of client-go.

The holder renews the lease; another candidate takes it over once it has not changed for the granted duration,
by the candidate's own clock.  Times that other processes wrote are never compared with our own clock.

A leader that cannot renew stops its work well before another may begin (``renew_deadline_s`` is less than
``lease_duration_s``).  That alone does not exclude two leaders: a process that was suspended may send a write
when it resumes.  What prevents a double decision is that each write carries the resource version it was
decided on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

import msgspec

from quorate.api import codec
from quorate.api.events import Lease, LeaseSpec
from quorate.api.meta import Key, ObjectMeta, micro_time
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable, Unreadable
from quorate.kube.log import logger
from quorate.kube.manager.cancellation import run_cancellable
from quorate.kube.resources import LEASES


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    lease_duration_s: int = 15  # whole seconds, as in the API
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

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
    """One candidate; ``identity`` is unique among processes and runs."""

    def __init__(
        self, client: Client, clock: Clock, key: Key, identity: str, timings: LeaseTimings | None = None
    ) -> None:
        self._client = client
        self._clock = clock
        self._steady = clock.steady  # measures all durations: setting the wall clock must not elect a leader
        self._key = key
        self._identity = identity
        self._timings = timings if timings is not None else LeaseTimings()
        self._observed = LeaseSpec()  # the lease as last read
        self._observed_at = clock.steady.now()  # steady time of its last change
        self._lost = False  # another candidate may begin at any moment
        self._renewed_at = 0.0  # steady time at which the last successful attempt began
        self._log = logger(__name__).bind(lease=key, identity=identity)

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to be elected, run ``work`` to its end, and release the lease.

        When the lease is lost, ``work`` is cancelled and ``LeaderElectionLost`` is raised.  All exceptions,
        including those of ``work``, come in an exception group.
        """
        while not await self._attempt():
            await self._pause()
        self._log.info("elected")
        try:
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._renew())
                await work()
                renewing.cancel()
        finally:
            # A lost lease is not released: our last writes may still be in flight.  They arrive before the
            # lease expires, but might not arrive before a candidate that sees a released lease begins.
            if not self._lost:
                await self._client.writes_finished()
                await self._release()

    async def _renew(self) -> None:
        while True:
            await self._pause()
            left_s = self._renewed_at + self._timings.renew_deadline_s - self._steady.now()
            try:
                async with asyncio.timeout(max(0.0, left_s)):  # a hanging attempt ends at the deadline
                    held = await self._attempt()
            except TimeoutError:
                held = False
            renewed_s_ago = self._steady.now() - self._renewed_at
            if not held and (
                self._observed.holder_identity != self._identity
                or renewed_s_ago >= self._timings.renew_deadline_s
            ):
                self._lost = True
                raise LeaderElectionLost(self._key, self._identity, renewed_s_ago)

    async def _attempt(self) -> bool:
        """Acquire or renew the lease; return whether it is held, and log failures."""
        began = self._steady.now()
        try:
            held = await self._acquire()
        except (ApiError, Unreachable, Unreadable) as error:
            self._log.warning("lease not renewed", problem=str(error))
            return False
        if held:
            self._renewed_at = began
        return held

    async def _acquire(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._key)
        except NotFound:
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
        except (ApiError, Unreachable, Unreadable) as error:
            self._log.warning("lease not released: it will expire", problem=str(error))

    def _observe(self, spec: LeaseSpec) -> None:
        if spec != self._observed:
            self._observed, self._observed_at = spec, self._steady.now()

    async def _pause(self) -> None:
        # Jitter, so that candidates that start together do not retry together.
        pause_s = self._timings.retry_period_s * (1 + self._client.rng.random() / 5)
        await self._steady.sleep_until(self._steady.now() + pause_s)


Work = Callable[[], Coroutine[None, None, None]]


async def run(
    client: Client,
    clock: Clock,
    lease: Key,
    timings: LeaseTimings,
    new_identity: Callable[[], str],
    *,
    follow: Work,
    lead: Work,
) -> None:
    """Run ``follow`` until elected, then ``lead``, until cancelled or one of them raises.

    A leader that loses its lease follows again, under a new identity.
    """
    while True:
        elector = LeaderElector(client, clock, lease, new_identity(), timings)
        try:
            await run_cancellable(_run_once(elector, follow, lead))
        except* LeaderElectionLost as lost:
            logger(__name__).warning("following again", problem=str(lost.exceptions[0]))


async def _run_once(elector: LeaderElector, follow: Work, lead: Work) -> None:
    """Follow, then lead; raise ``LeaderElectionLost``."""
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow(), name="follow")

        async def take_over() -> None:
            following.cancel()
            await lead()

        await elector.run(take_over)

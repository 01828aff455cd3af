"""One leader among several processes, by a Lease (coordination.k8s.io/v1, the rules of client-go).

Whoever holds the lease renews it; the others take it over once it has stood unchanged, by their own clocks,
for as long as it was granted.  Moments written by others are never compared with our own clock.

A leader that cannot renew stops work well before the others may begin (``renew_deadline_s`` < ``lease_s``).
That is a courtesy, no proof: a process that was asleep may have a write on its way when it wakes up.  What
keeps two leaders from deciding twice is that each write names the version it was decided on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from quorate.api import codec
from quorate.api.events import Lease, LeaseSpec
from quorate.api.meta import Key, ObjectMeta, micro_time
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable, Unreadable
from quorate.kube.log import logger
from quorate.kube.resources import LEASES


@dataclass(frozen=True, slots=True)
class Terms:
    lease_s: int = 15  # the API knows whole seconds only
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        assert self.retry_s < self.renew_deadline_s < self.lease_s, f"{self} leaves no time to stop"


class LeadershipLost(Exception):
    def __init__(self, key: Key, identity: str, renewed_s_ago: float) -> None:
        super().__init__(key, identity, renewed_s_ago)
        self.key, self.identity, self.renewed_s_ago = key, identity, renewed_s_ago

    def __str__(self) -> str:
        return f"lease {self.key}: {self.identity} could not renew it for {self.renewed_s_ago:.1f} s"


def claim(spec: LeaseSpec, unchanged_s: float, identity: str, now: float, lease_s: int) -> LeaseSpec | None:
    """The lease as ``identity`` may hold it from ``now`` on; None while it is another's.

    ``spec`` has been as it is for ``unchanged_s`` by our own clock.
    """
    ours = spec.holder_identity == identity
    if spec.holder_identity and not ours and unchanged_s < spec.lease_duration_seconds:
        return None
    moment = micro_time(now)
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=lease_s,
        acquire_time=spec.acquire_time if ours else moment,
        renew_time=moment,
        lease_transitions=spec.lease_transitions + (0 if ours else 1),
    )


class Election:
    """One candidate; ``identity`` is no other process's, and no earlier run's of this one."""

    def __init__(
        self, client: Client, clock: Clock, key: Key, identity: str, terms: Terms | None = None
    ) -> None:
        self._client = client
        self._clock = clock
        self._steady = clock.steady  # all spans are measured by it: who sets the time of day elects nobody
        self._key = key
        self._identity = identity
        self._terms = terms if terms is not None else Terms()
        self._seen = LeaseSpec()  # the lease when last looked at
        self._seen_since = clock.steady.now()  # since when it has looked like that
        self._lost = False  # whether somebody else may begin at any moment
        self._renewed_at = 0.0  # by the steady clock, when the last attempt that made or kept us leader began
        self._log = logger(__name__).bind(lease=key, identity=identity)

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to be elected, then do ``work``, and return when it does, giving the lease back.

        When the lease is lost ``work`` is cancelled and ``LeadershipLost`` raised.  Exceptions, from
        ``work`` too, come in an exception group.
        """
        while not await self._attempt():
            await self._pause()
        self._log.info("elected")
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = tasks.create_task(self._keep())
                await work()
                keeping.cancel()
        finally:
            # Who cannot renew has nothing to give: what it wrote last may still be on its way, and arrives
            # before the lease runs out, but not before somebody begins who was told that it is free.
            if not self._lost:
                await self._client.writes_answered()
                await self._release()

    async def _keep(self) -> None:
        while True:
            await self._pause()
            left_s = self._renewed_at + self._terms.renew_deadline_s - self._steady.now()
            try:
                async with asyncio.timeout(max(0.0, left_s)):  # an attempt that hangs must not outlast it
                    held = await self._attempt()
            except TimeoutError:
                held = False
            renewed_s_ago = self._steady.now() - self._renewed_at
            if not held and (
                self._seen.holder_identity != self._identity or renewed_s_ago >= self._terms.renew_deadline_s
            ):
                self._lost = True
                raise LeadershipLost(self._key, self._identity, renewed_s_ago)

    async def _attempt(self) -> bool:
        """Take or renew the lease: whether it is ours now.  What stands in the way is logged."""
        began = self._steady.now()
        try:
            held = await self._take()
        except (ApiError, Unreachable, Unreadable) as error:
            self._log.warning("lease not renewed", problem=str(error))
            return False
        if held:
            self._renewed_at = began
        return held

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._key)
        except NotFound:
            return await self._create()
        self._look_at(lease.spec)
        unchanged_s = self._steady.now() - self._seen_since
        spec = claim(self._seen, unchanged_s, self._identity, self._clock.now(), self._terms.lease_s)
        return spec is not None and await self._write(lease.metadata.resource_version, spec)

    async def _create(self) -> bool:
        now = self._clock.now()
        spec = claim(LeaseSpec(lease_transitions=-1), 0.0, self._identity, now, self._terms.lease_s)
        assert spec is not None, "nobody holds a lease that is not there"
        metadata = ObjectMeta(name=self._key.name, namespace=self._key.namespace)
        try:
            await self._client.create(LEASES, Lease(metadata=metadata, spec=spec))
        except AlreadyExists:
            return False
        self._look_at(spec)
        return True

    async def _write(self, resource_version: str, spec: LeaseSpec) -> bool:
        patch = {"metadata": {"resourceVersion": resource_version}, "spec": codec.to_builtins(spec)}
        try:
            await self._client.patch(LEASES, self._key, patch)
        except Conflict:
            return False  # another was faster
        self._look_at(spec)
        return True

    async def _release(self) -> None:
        """Give the lease back, so that nobody has to wait for it to run out."""
        if self._seen.holder_identity != self._identity:
            return
        spec = msgspec.structs.replace(self._seen, holder_identity="", lease_duration_seconds=1)
        try:
            lease = await self._client.get(LEASES, self._key)
            if lease.spec.holder_identity == self._identity:
                emptied = codec.to_builtins(spec) | {"holderIdentity": None}
                version = {"resourceVersion": lease.metadata.resource_version}
                await self._client.patch(LEASES, self._key, {"metadata": version, "spec": emptied})
                self._log.info("lease given back")
        except (ApiError, Unreachable, Unreadable) as error:
            self._log.warning("lease not given back: it will run out", problem=str(error))

    def _look_at(self, spec: LeaseSpec) -> None:
        if spec != self._seen:
            self._seen, self._seen_since = spec, self._steady.now()

    async def _pause(self) -> None:
        # Some jitter, so that candidates who came together do not try together.
        pause_s = self._terms.retry_s * (1 + self._client.rng.random() / 5)
        await self._steady.sleep_until(self._steady.now() + pause_s)

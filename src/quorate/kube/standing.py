"""One of several replicas leads, the others follow until it is their turn."""

import asyncio
from collections.abc import Callable, Coroutine

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.leases import Election, LeadershipLost, Terms
from quorate.kube.log import logger
from quorate.kube.stopping import unless_stopped

Part = Callable[[], Coroutine[None, None, None]]


async def stand(
    client: Client,
    clock: Clock,
    lease: Key,
    terms: Terms,
    new_identity: Callable[[], str],
    *,
    follow: Part,
    lead: Part,
) -> None:
    """``follow`` until elected, then ``lead``, until cancelled or an error ends one of them.

    A leader that loses its lease follows again, under a new identity.
    """
    while True:
        election = Election(client, clock, lease, new_identity(), terms)
        try:
            await unless_stopped(_once(election, follow, lead))
        except* LeadershipLost as lost:
            logger(__name__).warning("standing by again", problem=str(lost.exceptions[0]))


async def _once(election: Election, follow: Part, lead: Part) -> None:
    """Raises ``LeadershipLost``."""
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow(), name="follow")

        async def take_over() -> None:
            following.cancel()
            await lead()

        await election.run(take_over)

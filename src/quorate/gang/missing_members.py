"""The room that is kept for members which gangs lack while their other members hold nodes for nothing.

A member that failed, or was deleted, is created again by the owner of its gang in a moment.  Until then no
other gang is given the room, whether it is admitted or only grows.
"""

from collections import Counter
from collections.abc import Iterable

from quorate.api.meta import Key
from quorate.gang.cache.gang import Gang
from quorate.gang.reservations import missing_claim_of
from quorate.placement.cluster import Cluster
from quorate.placement.resources import Amounts


class MissingMembers:
    """See the module.  Members that exist and wait do not count: their gang comes before those that grow."""

    def __init__(self, gangs: Iterable[Gang], cluster: Cluster) -> None:
        self._cluster = cluster
        self._claims: dict[Key, Counter[str]] = {}
        self._total: Counter[str] = Counter()
        for gang in gangs:
            claim = missing_claim_of(gang) if gang.is_recreated else None
            if claim:
                missing = Counter(claim) - gang.pending_request - Counter(gang.left_room)
                self._claims[gang.key] = missing - Counter(gang.held.amounts)
                self._total += self._claims[gang.key]

    def leave_room_for(self, gang: Key, request: Amounts) -> bool:
        """Return True if ``gang`` may take ``request`` of what is idle."""
        if not self._total:
            return True
        kept = self._total - self._claims.get(gang, Counter())
        total, used = self._cluster.total, self._cluster.total_used
        return not any(_exceeds(name, request, total, used, kept[name]) for name in kept)


def _exceeds(name: str, request: Amounts, total: Amounts, used: Amounts, kept: int) -> bool:
    amount = request.get(name, 0)
    return amount > 0 and amount > total.get(name, 0) - used.get(name, 0) - kept

"""What was reported of a gang, so that nothing is computed or written a second time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorate.api.volcano import PodGroupCondition
from quorate.gang.outcome import GangStatus
from quorate.gang.pending_reasons import PendingReason, equivalence_key

EVENT_INTERVAL_S: Final = 300.0  # between two events of one reason about one gang
TO_BE_COMPUTED: Final = -1  # no generation


@dataclass(slots=True, eq=False)
class ReportedStatus:
    written: GangStatus | None = None  # the status that the API has, or that is being written
    generation: int = TO_BE_COMPUTED  # of the gang, for which its status was computed
    reason: PendingReason | None = None  # why it waited in the last session that computed its status
    # The last reason why the gang was not admitted, with the conditions that report it.
    refusal: tuple[PendingReason, tuple[PodGroupCondition, ...]] | None = None
    is_outdated: bool = False  # the condition has other amounts than the equivalent reason
    # When the last event was recorded, by its reason and what it was about; None: there was none.
    events: Mapping[tuple[str, str], float] | None = None

    def start_afresh(self) -> None:
        """Forget what was reported of a pod group that was replaced under its name."""
        self.refusal = self.events = None

    def has_refusal(self, reason: PendingReason, conditions: tuple[PodGroupCondition, ...]) -> bool:
        """Return True if ``conditions`` report ``reason`` already, or an equivalent one, and note it.

        Reasons are compared faster than the messages made from them.
        """
        if self.refusal is None or self.refusal[1] is not conditions:
            return False
        reported = self.refusal[0]
        if reported != reason and equivalence_key(reported) != equivalence_key(reason):
            return False
        self.is_outdated |= reported != reason
        self.refusal = reason, conditions
        return True

    def is_event_due(self, reason: str, about: str, now: float) -> bool:
        """Return True, and note the event, if none of this reason and ``about`` was recorded lately."""
        events = self.events or {}
        last = events.get((reason, about))
        if last is not None and now - last < EVENT_INTERVAL_S:
            return False
        self.events = {**events, (reason, about): now}
        return True

"""Why a pod group waits: every check with what it lacks, not only the first that failed.

It is the action ``enqueue`` itself that is asked, on a model made to be asked and thrown away: what is told
is what the scheduler decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.gang.actions.enqueue import Passes
from quorate.gang.model import Model
from quorate.gang.run import open_session
from quorate.gang.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Outlook:
    """What there is to say of one group that waits to be admitted."""

    position: int  # in the order in which groups are asked; the first is 1
    waiting: int  # how many wait in all
    checks: Mapping[str, Verdict | None]  # by name, in their order; ``None`` where nothing is missing
    blocked: bool  # a group before it in its queue, which is first in, first out, has to go first
    not_before: float | None  # seconds since the epoch; when its back-off ends, if it is in one
    attempts: int  # how often it was rolled back

    @property
    def admitted(self) -> bool:
        """Whether the next session admits it."""
        return not self.blocked and self.not_before is None and not any(self.checks.values())


def waiting_groups(model: Model, settings: SchedulerConfiguration, now: float) -> dict[Key, Outlook]:
    """All groups that wait, in the order in which they are asked; ``now`` in seconds since the epoch.

    Each is judged after those before it were admitted, if they are.  ``model`` is changed as a session would
    change it, and must not be used for anything else.
    """
    session = open_session(model, settings, now)
    passes = Passes(session)
    passes.judge_again()
    waiting = list(passes.waiting())
    outlooks: dict[Key, Outlook] = {}
    for position, gang in enumerate(waiting, start=1):
        backs_off = gang.not_before is not None and now < gang.not_before
        outlooks[gang.key] = Outlook(
            position=position,
            waiting=len(waiting),
            checks=passes.admission.checks(gang),
            blocked=passes.is_blocked(gang),
            not_before=gang.not_before if backs_off else None,
            attempts=gang.attempts,
        )
        passes.offer(gang)
    return outlooks

"""One session from opening to close."""

from collections.abc import Sequence

from quorate.api.scheduler_configuration import PluginEntry, SchedulerConfiguration
from quorate.gang.actions import ACTIONS
from quorate.gang.closing import statuses_of
from quorate.gang.model import Model
from quorate.gang.outcome import Outcome
from quorate.gang.plugins import PLUGINS
from quorate.gang.policy import Policies
from quorate.gang.session import Session


def run_session(model: Model, settings: SchedulerConfiguration, now: float) -> Outcome:
    """Run the configured actions over ``model`` at ``now`` (seconds since the epoch).

    Leaves the model as it was, but for what the outcome has the shell write: that is assumed.
    """
    session = Session(model, settings, now)
    session.policies = _policies(session, settings.tiers)
    for action in settings.actions:
        ACTIONS[action](session)
    statuses, wake_at = statuses_of(session)
    outcome = Outcome(
        binds=tuple(session.binds),
        evictions=tuple(session.evictions),
        nominations=tuple(session.nominations),
        promised=session.promised,
        statuses=statuses,
        verdicts=dict(session.verdicts),
        wake_at=wake_at,
    )
    session.release_held()
    return outcome


def _policies(session: Session, tiers: Sequence[Sequence[PluginEntry]]) -> Policies:
    return Policies(
        [[PLUGINS[entry.name](session, entry).without(entry.silent) for entry in tier] for tier in tiers]
    )

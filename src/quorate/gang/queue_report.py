"""How queues stand: what their status and a dashboard show of them, computed when somebody looks.

The plugin that shares the cluster out is asked itself, so that what is shown is what is decided.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.gang.model import Model
from quorate.gang.policy import QueueShare
from quorate.gang.queue import ROOT, line_of
from quorate.gang.queue_account import Account, add
from quorate.gang.run import open_session
from quorate.gang.tiers import everyone
from quorate.placement.resources import Amounts


@dataclass(frozen=True, slots=True)
class QueueReport:
    """One queue; what groups hold and ask for counts in all queues above theirs.  Amounts in base units."""

    weight: int
    allocated: Amounts
    request: Amounts
    capability: Amounts  # of what is not named there is no limit
    share: QueueShare | None  # None where no plugin shares the cluster out


def queue_reports(model: Model, settings: SchedulerConfiguration, now: float) -> Mapping[str, QueueReport]:
    """How each queue stands between two sessions; ``now`` in seconds since the epoch.  Decides nothing."""
    session = open_session(model, settings, now)
    books = session.books(lambda queue: [each.name for each in line_of(queue, session.queues)])
    return {
        name: QueueReport(
            weight=queue.weight,
            allocated=books.accounts.get(name, Account()).allocated,
            request=books.accounts.get(name, Account()).request,
            capability=queue.capability,
            share=next((voice(queue) for voice in everyone(session.policies.share)), None),
        )
        for name, queue in session.queues.items()
    }


def held_in_queues(model: Model) -> Mapping[str, Amounts]:
    """What tasks with a node hold of each queue, of those below it too, and of the root all; no zeros.

    Between two sessions; whether or not the plugins of the configuration know a tree.
    """
    held: dict[str, Counter[str]] = {name: Counter() for name in model.queues}
    for queue, account in model.ledger.accounts(list(model.taking_part())).items():
        for name in held.keys() & {ROOT, *(each.name for each in line_of(queue, model.queues))}:
            add(held[name], account.allocated)
    return held

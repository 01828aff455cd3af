"""Plugin ``overcommit``: admit groups for a multiple of the cluster's resources.

Source: the plugin of the same name of Volcano.  It counts pods twice for one session after they were bound,
as used and as reserved.  In profile ``design`` the action ``enqueue`` checks the resources of the cluster
itself and counts nothing twice; the plugin only names the factor in the configuration there.
"""

from collections import Counter
from dataclasses import replace
from math import floor

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import OvercommitArguments
from quorate.api.volcano import INQUEUE
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue_accounts import Account, ResourceLimits, add
from quorate.gang.cache.reservations import reserved_on_admission, without_held
from quorate.gang.pending_reasons import NotEnoughResources
from quorate.gang.session.callbacks import PluginCallbacks, Vote
from quorate.gang.session.session import Session


def overcommit(session: Session, entry: PluginEntry) -> PluginCallbacks:
    assert isinstance(entry.arguments, OvercommitArguments), entry
    if session.rules.enqueue_checks:
        return PluginCallbacks()
    factor = entry.arguments.factor
    limits = {resource: floor(amount * factor) for resource, amount in session.cluster.total.items()}
    # One account for the whole cluster; pods without a gang count in what is allocated.
    account = Account(allocated=Counter(session.cluster.total_used))
    for queue in session.queue_accounts.values():
        add(account.reserved, queue.reserved_in_full)
    for gang in session.gangs:
        if gang.rooms.held.pods and gang.phase == INQUEUE:
            reserved = reserved_on_admission(gang)
            add(account.reserved, reserved, -1)
            add(account.reserved, without_held(gang, reserved))  # the other part is used already

    def job_enqueueable(gang: Gang) -> Vote | NotEnoughResources:
        if gang.min_resources is None:
            return Vote.PERMIT
        shortages = account.shortages(without_held(gang, gang.min_resources), ResourceLimits(limits))
        if not shortages:
            return Vote.PERMIT
        total = session.cluster.total
        return NotEnoughResources(
            tuple(
                replace(shortage, overcommitted=shortage.at_most - total.get(shortage.resource, 0))
                for shortage in shortages
                if isinstance(shortage.at_most, int)
            )
        )

    def job_enqueued(gang: Gang) -> None:
        add(account.reserved, without_held(gang, reserved_on_admission(gang)))

    return PluginCallbacks(job_enqueueable=job_enqueueable, job_enqueued=job_enqueued)

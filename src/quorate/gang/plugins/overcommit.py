"""Groups are admitted for more than the cluster has, by a factor: some never use what was reserved for them.

Source: the plugin of the same name of Volcano.  It is pessimistic for one session after pods were bound: they
are used room by then, and still reserved for.  In profile ``design`` the action ``enqueue`` looks at the
cluster itself, and counts nothing twice; there the plugin only names the factor, in the configuration.
"""

from collections import Counter
from math import floor

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import OvercommitArguments
from quorate.gang.gang import Gang
from quorate.gang.policy import Policy
from quorate.gang.queue_account import Account, Ceiling, add, reserved_on_admission
from quorate.gang.session import Session
from quorate.gang.tiers import Vote
from quorate.gang.verdicts import NotEnoughResources


def overcommit(session: Session, entry: PluginEntry) -> Policy:
    assert isinstance(entry.arguments, OvercommitArguments), entry
    if session.settings.profile == "design":
        return Policy()
    factor = entry.arguments.factor
    most = {resource: floor(amount * factor) for resource, amount in session.cluster.total.items()}
    # Of the cluster as if it were one queue: whoever uses it, with or without a gang.
    account = Account(allocated=Counter(session.cluster.total_used))
    for queue in session.accounts.values():
        add(account.reserved, queue.granted)

    def admits(gang: Gang) -> Vote | NotEnoughResources:
        if gang.min_resources is None:
            return Vote.PERMIT
        shortages = account.shortages(gang.min_resources, Ceiling(most))
        return NotEnoughResources(shortages) if shortages else Vote.PERMIT

    def admitted(gang: Gang) -> None:
        add(account.reserved, reserved_on_admission(gang))

    return Policy(admits=admits, admitted=admitted)

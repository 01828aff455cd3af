"""When an admitted group that comes to nothing goes back to wait, and for how long (profile ``design``).

Without it a group whose operator died, or whose pods fit nowhere, would keep its reservation for ever; and
one that goes back must not come again at once, only to fail again.  Source: the design note "Delay Pod
Creation", which has such groups return to Pending to avoid a loop of retries.
"""

from typing import Final

from quorate.api.scheduler_configuration.actions import EnqueueArguments
from quorate.api.volcano import UNSCHEDULABLE
from quorate.gang.conditions import holds
from quorate.gang.gang import Gang
from quorate.gang.session import Session
from quorate.gang.task import Standing, Task
from quorate.gang.verdicts import InqueueTimeout

_DOUBLINGS: Final = 62  # no back-off is so short that it would not have reached any maximum by then


def backoff_s(attempts: int, rules: EnqueueArguments) -> float:
    """How long a group that was rolled back ``attempts`` times, at least once, is not tried again."""
    return min(rules.backoff_max_s, rules.backoff_base_s * 2.0 ** min(attempts - 1, _DOUBLINGS))


def expires_at(gang: Gang, rules: EnqueueArguments) -> float | None:
    """When ``gang``, which is Inqueue, must have come to something; ``None``: it may take for ever."""
    if rules.inqueue_timeout_s is None or gang.inqueue_since is None:
        return None
    return gang.inqueue_since + rules.inqueue_timeout_s


def expired(session: Session, gang: Gang) -> InqueueTimeout | None:
    """Whether ``gang``, Inqueue and not started, had its time and was not served in it.

    What its condition says is of the session before.  Nobody is sent back while it waits for a node where
    others are being evicted for it.
    """
    until = expires_at(gang, session.settings.enqueue)
    if until is None or gang.inqueue_since is None or session.now < until:
        return None
    members = gang.tally.valid
    if members >= gang.min_member and not holds(gang.conditions, UNSCHEDULABLE):
        return None
    if any(_is_promised_room(session, task) for task in gang.with_standing(Standing.PENDING)):
        return None
    return InqueueTimeout(session.now - gang.inqueue_since, members, gang.min_member)


def _is_promised_room(session: Session, task: Task) -> bool:
    cluster = session.cluster
    index = cluster.index(task.nominated) if task.nominated else None
    if index is None:
        return False
    idle = cluster.allocatable[:, index] - cluster.used[:, index]
    future = idle + cluster.releasing[:, index] - cluster.pipelined[:, index]
    return bool((cluster.request(task.shape) <= future).all())

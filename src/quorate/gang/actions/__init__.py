"""The actions of sessions, by their names in the configuration."""

from collections.abc import Callable, Mapping
from typing import Final

from quorate.gang.actions.allocate import allocate
from quorate.gang.actions.backfill import backfill
from quorate.gang.actions.enqueue import enqueue
from quorate.gang.actions.preempt import preempt
from quorate.gang.actions.reclaim import reclaim
from quorate.gang.session.session import Session

ACTIONS: Final[Mapping[str, Callable[[Session], None]]] = {
    "allocate": allocate,
    "backfill": backfill,
    "enqueue": enqueue,
    "preempt": preempt,
    "reclaim": reclaim,
}

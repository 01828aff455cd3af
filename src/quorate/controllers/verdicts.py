"""When workloads that wait are told why: once they have waited a while, and then not at every new reason.

Under load whoever is first in its queue is judged several times a second, for another reason each time as
others come and go, and mostly admitted a moment later.  To write each verdict would cost more than all the
admissions, and nobody could read them.
"""

from typing import Final

from quorate.api.meta import Key
from quorate.kube.keyqueue import KeyQueue

SETTLES_WITHIN_S: Final = 1.0  # a verdict that is overtaken sooner is never told
REPEATED_AFTER_S: Final = 5.0  # to tell another one to who was told one already


class Verdicts:
    """Who is to be told the verdict that then holds, and when.  Each may be waiting no longer by then.

    All moments are those of one steady clock.
    """

    def __init__(self) -> None:
        self._due = KeyQueue()
        self._told_at: dict[
            Key, float
        ] = {}  # of those that were told one and are not known to wait no longer

    def passed(self, key: Key, now: float) -> None:
        """There is a new verdict on ``key``."""
        told_at = self._told_at.get(key)
        moment = now + SETTLES_WITHIN_S
        self._due.put_at(key, moment if told_at is None else max(moment, told_at + REPEATED_AFTER_S))

    def over(self, key: Key) -> None:
        """``key`` waits no longer, or was not told after all: its next verdict is its first."""
        self._told_at.pop(key, None)

    def take_due(self, now: float) -> list[Key]:
        """Those that are to be told now."""
        keys: list[Key] = []
        while (key := self._due.take(now)) is not None:
            self._due.done(key)
            self._told_at[key] = now
            keys.append(key)
        return keys

    def next_due(self) -> float | None:
        return self._due.next_due()

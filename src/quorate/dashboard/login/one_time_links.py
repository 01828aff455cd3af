"""Links that log in once, with the credentials of the process that printed them; only on loopback.

A terminal shows the link to the user that started the process, which could use these credentials anyway.
"""

import hashlib
import secrets
from collections.abc import Callable

from quorate.dashboard.limits import LINK_VALID_S
from quorate.kube.clock import Clock


class OneTimeLinks:
    """Has one valid code at a time; ``announce`` gets the first and then the next one after each use."""

    def __init__(self, clock: Clock, announce: Callable[[str], None]) -> None:
        self._clock = clock
        self._announce = announce
        self._digest = b""  # of the valid code
        self._ends_at = 0.0

    def renew(self) -> None:
        code = secrets.token_urlsafe(32)
        self._digest = _digest(code)
        self._ends_at = self._clock.now() + LINK_VALID_S
        self._announce(code)

    def redeem(self, code: str) -> bool:
        """Return True for the valid code, which is invalid from then on."""
        if not secrets.compare_digest(_digest(code), self._digest):
            return False
        is_late = self._clock.now() >= self._ends_at
        self.renew()
        return not is_late


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()

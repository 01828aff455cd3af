"""Where the time of a session goes.

The core reads no clock: it says which part begins, to somebody who may read one.
"""

from typing import Final, Literal

Part = Literal["opening", "plugin", "action", "closing"]


class Stopwatch:
    """Told of each part of a session as it begins, with which the part before has ended.

    The order is: opening, each plugin by name, opening again, each action by name, closing.
    This one does not care.
    """

    def begins(self, part: Part, name: str = "") -> None:
        """``name``: of the plugin or action."""


UNTIMED: Final = Stopwatch()

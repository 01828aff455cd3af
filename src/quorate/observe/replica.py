"""One process of the controllers as others may see it: what it is at the moment, and whether it is ready."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from quorate.api.configuration.metric_labels import CustomLabel
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.recorder import Recorder
from quorate.observe.view import View

Role = Literal["standalone", "leader", "follower"]


class Replica:
    """Kept up to date by ``controllers.process``, read by everything that observes."""

    def __init__(self, role: Role, labels: Sequence[CustomLabel] = ()) -> None:
        """``labels`` are those that its series have besides their own."""
        self.role: Role = role
        # Set once everything stored was known; a change of role does not unset it: what was known before
        # goes on being shown until the new role has its own lists.
        self.ready = asyncio.Event()
        self.view: View | None = None  # what is known, once all of it is
        self.rebuilt_at: float | None = None  # when its model was last found wrong and built anew
        self.recorder = Recorder(lambda: self.role, CustomLabels(labels))

    def knows(self, view: View) -> None:
        self.view = view
        self.ready.set()

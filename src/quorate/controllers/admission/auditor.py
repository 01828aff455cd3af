"""The auditor: from time to time it computes from the stored objects what the model should say.

They never differ unless we are wrong somewhere.  Then what differs is logged and exported, and the model is
built anew from lists, as it is at every start: there is no second way to repair it.
"""

from typing import Final

from quorate.controllers.context import ControllerContext
from quorate.kube.log import logger
from quorate.observe.replica import Replica
from quorate.queueing.model_audit import ModelDifference, audit_model
from quorate.queueing.state import State

# A difference that is there again at once will not go away by yet another build, which costs seconds.
REBUILD_EVERY_S: Final = 3600.0
_LOGGED: Final = 20


class ModelMismatch(Exception):
    """What the model says is not what is stored: it must be built anew."""

    def __init__(self, differences: tuple[ModelDifference, ...]) -> None:
        super().__init__(differences)
        self.differences = differences

    def __str__(self) -> str:
        return f"the model differs from the stored objects in {len(self.differences)} places"


class Auditor:
    def __init__(self, context: ControllerContext, state: State, replica: Replica) -> None:
        self._steady = context.clock.steady
        self._every_s = context.configuration.audit_every_s
        self._workloads = context.informers.workloads
        self._state = state
        self._replica = replica
        self._log = logger(__name__)

    async def run(self) -> None:
        """Audit until cancelled.  Raises ``ModelMismatch``."""
        while self._every_s:
            await self._steady.sleep_until(self._steady.now() + self._every_s)
            began = self._steady.now()
            differences = audit_model(self._state, self._workloads)
            self._replica.recorder.audited(len(differences), self._steady.now() - began)
            for difference in differences[:_LOGGED]:
                self._log.error("the model differs from what is stored", difference=difference)
            if differences and self._may_rebuild(began):
                self._replica.rebuilt_at = began
                raise ModelMismatch(differences)

    def _may_rebuild(self, now: float) -> bool:
        last = self._replica.rebuilt_at
        return last is None or now >= last + REBUILD_EVERY_S

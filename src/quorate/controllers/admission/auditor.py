"""The auditor: recomputes the model from the stored objects at intervals and compares.

A difference is a defect of ours.  It is logged and exported, and the model is rebuilt from lists, as at
every start; there is no second way to repair it.
"""

from typing import Final

from quorate.controllers.context import ControllerContext
from quorate.kube.log import logger
from quorate.observe.replica import Replica
from quorate.queueing.model_audit import ModelDifference, audit_model
from quorate.queueing.state import State

# A difference that returns at once is not repaired by another rebuild, which takes seconds.
REBUILD_INTERVAL_S: Final = 3600.0
_MAX_LOGGED: Final = 20


class ModelMismatch(Exception):
    """The model differs from the stored objects and must be rebuilt."""

    def __init__(self, differences: tuple[ModelDifference, ...]) -> None:
        super().__init__(differences)
        self.differences = differences

    def __str__(self) -> str:
        return f"the model differs from the stored objects in {len(self.differences)} places"


class Auditor:
    def __init__(self, context: ControllerContext, state: State, replica: Replica) -> None:
        self._steady = context.clock.steady
        self._interval_s = context.configuration.audit_every_s
        self._workloads = context.informers.workloads
        self._state = state
        self._replica = replica
        self._log = logger(__name__)

    async def run(self) -> None:
        """Audit until cancelled.  Raises ``ModelMismatch``."""
        while self._interval_s:
            await self._steady.sleep_until(self._steady.now() + self._interval_s)
            began = self._steady.now()
            differences = audit_model(self._state, self._workloads)
            self._replica.recorder.audited(len(differences), self._steady.now() - began)
            for difference in differences[:_MAX_LOGGED]:
                self._log.error("the model differs from the stored objects", difference=difference)
            if differences and self._can_rebuild(began):
                self._replica.rebuilt_at = began
                raise ModelMismatch(differences)

    def _can_rebuild(self, now: float) -> bool:
        last = self._replica.rebuilt_at
        return last is None or now >= last + REBUILD_INTERVAL_S

"""The auditor: recomputes the model from the stored objects at intervals and compares.

A difference is a defect of ours.  It is logged and exported, and the model is rebuilt from the cached
objects; there is no second way to repair it.  Decisions go on during audit and rebuild.
"""

import asyncio

from quorate.controllers.admission.driver import AdmissionDriver
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import MAX_LOGGED_DIFFERENCES, REBUILD_INTERVAL_S
from quorate.kube.log import logger
from quorate.observe.replica import Replica
from quorate.queueing.model_audit import ModelDifference, audit_model


class Auditor:
    def __init__(self, context: ControllerContext, driver: AdmissionDriver, replica: Replica) -> None:
        self._steady = context.clock.steady
        self._interval_s = context.configuration.audit_every_s
        self._workloads = context.informers.workloads
        self._driver = driver
        self._replica = replica
        self._log = logger(__name__)

    async def run(self) -> None:
        """Audit until cancelled."""
        while self._interval_s:
            await self._steady.sleep_until(self._steady.now() + self._interval_s)
            began = self._steady.now()
            try:
                differences = await self._audit()
            except Exception as error:  # on an object of any client, without which decisions go on
                self._log.fault("the audit was given up", error)
                continue
            self._replica.recorder.audited(len(differences), self._steady.now() - began)
            for difference in differences[:MAX_LOGGED_DIFFERENCES]:
                self._log.error("the model differs from the stored objects", difference=difference)
            if differences and self._can_rebuild(began):
                self._replica.rebuilt_at = began
                await self._driver.rebuild()
                self._log.error("the model was rebuilt", differences=len(differences))

    async def _audit(self) -> list[ModelDifference]:
        differences: list[ModelDifference] = []
        for batch in audit_model(self._driver.state, self._workloads):
            differences += batch
            await asyncio.sleep(0)  # other tasks run between two slices
        return differences

    def _can_rebuild(self, now: float) -> bool:
        last = self._replica.rebuilt_at
        return last is None or now >= last + REBUILD_INTERVAL_S

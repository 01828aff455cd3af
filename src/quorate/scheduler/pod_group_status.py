"""Writing what is decided about pod groups: phase, conditions, counts, and our annotations.

Each write names the version of the object it was decided on, as the definition of a pod group has no status
subresource and the whole object is written.  Whoever writes in between causes a conflict; then the newest
form is patched, to what was decided last.  What is stored as it should be is not written.

That a group is admitted, or sent back, is written at once, since its operator acts on it.  What is only told
(that it runs, conditions, counts) waits a moment: binds go before, and one write often says two things.  Nor
does anybody act on the admission of a group whose members have their nodes and queue up to be bound: it waits
until no more binds do, and most often the write that says that the group runs comes before.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from quorate.api.meta import Key
from quorate.api.volcano import INQUEUE, PENDING, PodGroup, PodGroupStatus
from quorate.gang.annotations import annotations_of
from quorate.gang.model import Model
from quorate.gang.outcome import GangStatus
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import NotFound
from quorate.kube.informer import Informer
from quorate.kube.patches import merge_patch
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import POD_GROUPS
from quorate.scheduler.bind_gate import BindGate

WORKERS: Final = 16
WRITE_DELAY_S: Final = 1.0  # what nobody acts on
ADMISSION_WRITE_DELAY_S: Final = 5.0  # of a group whose binds queue up
ACTED_ON: Final = (INQUEUE, PENDING)


class PodGroupStatusWriter:
    """``subresource``: where the definition in this cluster has the status ("" or "status")."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        groups: Informer[PodGroup],
        model: Model,
        precedence: BindGate,
        *,
        subresource: str,
    ) -> None:
        self._client = client
        self._groups = groups
        self._model = model
        self._subresource = subresource
        self._precedence = precedence
        precedence.when_free(self._write_admissions)
        self._decided: dict[Key, GangStatus] = {}  # the last word on each, until it is written
        self._admissions: list[Key] = []  # that make way for binds
        self._reconciler = Reconciler("pod group statuses", self._write, clock, workers=WORKERS)

    async def run(self) -> None:
        await self._reconciler.run()

    def write(self, statuses: Iterable[GangStatus], being_bound: Collection[Key]) -> None:
        """Have ``statuses`` written, each in its time; ``being_bound``: of which members were just placed."""
        for status in statuses:
            self._decided[status.gang] = status
            group = self._groups.get(status.gang)
            if group is not None and (status.phase not in ACTED_ON or group.status.phase == status.phase):
                self._reconciler.enqueue_in(status.gang, WRITE_DELAY_S)
            elif status.gang in being_bound and self._precedence.taken:
                self._admissions.append(status.gang)
                self._reconciler.enqueue_in(status.gang, ADMISSION_WRITE_DELAY_S)
            else:
                self._reconciler.enqueue(status.gang)

    def _write_admissions(self) -> None:
        for key in self._admissions:
            self._reconciler.enqueue(key)
        self._admissions.clear()

    async def _write(self, key: Key) -> None:
        decided = self._decided.get(key)
        group = self._groups.get(key)
        if decided is None:
            return
        if group is not None and group.metadata.uid == decided.uid:
            try:
                written = await self._patch(group, decided)
            except NotFound:
                pass  # what was decided about it has gone with it
            else:
                self._model.status_written(decided, written.metadata)
        if self._decided.get(key) is decided:
            del self._decided[key]

    async def _patch(self, group: PodGroup, decided: GangStatus) -> PodGroup:
        """The group as written; as it was when there is nothing to write."""
        key = group.metadata.key
        difference = _difference(group, decided)
        status = {"status": difference} if difference else {}
        notes = _changed_annotations(group, decided)
        if self._subresource and status:
            body = _versioned(group, status)
            group = await self._client.patch(POD_GROUPS, key, body, subresource=self._subresource)
            status = {}
        if status or notes:
            group = await self._client.patch(POD_GROUPS, key, _versioned(group, status, notes))
        return group


def _versioned(
    group: PodGroup, status: dict[str, Any], notes: dict[str, str | None] | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": group.metadata.resource_version}
    if notes:
        metadata["annotations"] = notes
    return {"metadata": metadata, **status}


def _difference(group: PodGroup, decided: GangStatus) -> dict[str, Any]:
    counts = decided.counts
    wanted = PodGroupStatus(
        phase=decided.phase,
        conditions=decided.conditions,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
    )
    return merge_patch(group.status, wanted)


def _changed_annotations(group: PodGroup, decided: GangStatus) -> dict[str, str | None]:
    stored = group.metadata.annotations
    return {name: value for name, value in annotations_of(decided).items() if stored.get(name) != value}

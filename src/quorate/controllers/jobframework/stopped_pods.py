"""Pods of stopped jobs that may run, although no status counts them.

The controller of a job creates pods before it counts them, so that the status of a job that is stopped soon
after its start may report none.
"""

from asyncio import Lock
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.names.kueue import POD_SET
from quorate.controllers.informers import UNFINISHED, Informers, slices_of, workloads_of
from quorate.controllers.jobframework.interface import J, JobKind
from quorate.kube.client import Client
from quorate.kube.resources import PLACEABLE_PODS

_Selected = tuple[str, str]  # namespace and label selector


@dataclass(slots=True)
class _Lists:
    """Requests for the pods of a namespace with a label selector, of which at most one is made at a time."""

    turn: Lock = field(default_factory=Lock)
    begun: int = 0
    callers: int = 0
    pods: Sequence[Pod] | None = None  # of the last list; None: it has not ended, or failed


class StoppedPods:
    """Looks for pods of workloads of which the quota is about to be released.

    The informers may be late: a pod that they have may run, but the server is asked before quota is released.
    All callers that wait at the same time share one list.
    """

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._informers = informers
        self._lists: dict[_Selected, _Lists] = {}  # exactly those with callers

    async def may_run(self, workloads: Iterable[Workload], selector: str) -> bool:
        """Return True if a pod of ``workloads`` runs or may be bound, and is not being deleted.

        ``selector``: of labels that all of these pods have.
        """
        for workload in workloads:
            if any(map(_may_run, self._informers.pods_of(workload.metadata.key))):
                return True
            pods = await self._listed((workload.metadata.namespace, selector))
            if any(_may_run(pod) and _is_of(pod, workload) for pod in pods):
                return True
        return False

    async def _listed(self, selected: _Selected) -> Sequence[Pod]:
        """Return the unfinished pods of a selection as they are now, or later."""
        lists = self._lists.setdefault(selected, _Lists())
        needed = lists.begun + 1  # a list that has begun may lack pods that exist now
        lists.callers += 1
        try:
            async with lists.turn:
                if lists.begun < needed or lists.pods is None:
                    lists.begun, lists.pods = lists.begun + 1, None
                    namespace, labels = selected
                    listed = await self._client.list(
                        PLACEABLE_PODS, namespace, label_selector=labels, field_selector=UNFINISHED.fields
                    )
                    lists.pods = listed.items
                return lists.pods
        finally:
            lists.callers -= 1
            if not lists.callers:
                del self._lists[selected]


def selector_of(kind: JobKind[J], job: J) -> str:
    """Return a selector of labels that the pods of a job have."""
    label = kind.pods_label(job)
    if label is None or label[1] != job.metadata.uid:
        return POD_SET  # a label with another value may be of the status, and not be known any more
    return "=".join(label)


def _may_run(pod: Pod) -> bool:
    return not pod.is_leaving and not pod.has_ended and bool(pod.node_name or not pod.spec.scheduling_gates)


def _is_of(pod: Pod, workload: Workload) -> bool:
    slices = slices_of(workload.metadata)
    return slices_of(pod.metadata) == slices if slices else workload.metadata.key in workloads_of(pod)

"""Pods of a stopped job that its status does not count yet."""

from quorate.api.kueue import Workload
from quorate.api.meta import Uid
from quorate.api.names.kueue import POD_SET
from quorate.controllers.informers import slices_of, workloads_of
from quorate.controllers.pod_informers import UNFINISHED
from quorate.kube.client import Client
from quorate.kube.resources import PLACEABLE_PODS


async def pods_may_run(client: Client, job: Uid, label: tuple[str, str] | None, workload: Workload) -> bool:
    """Return True if a pod of ``workload`` runs or may be bound, and is not being deleted.

    The controller of a job creates pods before it counts them in the status, so that of a job that is stopped
    soon after its start may report none.  The server is asked, because these pods are not watched.
    ``label``: see ``JobKind.pods_label``; used if it holds the uid of the job, as others are of that status.
    """
    selector = POD_SET if label is None or label[1] != job else "=".join(label)
    listed = await client.list(
        PLACEABLE_PODS, workload.metadata.namespace, label_selector=selector, field_selector=UNFINISHED.fields
    )
    slices = slices_of(workload.metadata)
    for pod in listed.items:
        is_own = slices_of(pod.metadata) == slices if slices else workload.metadata.key in workloads_of(pod)
        if is_own and not pod.is_leaving and (pod.node_name or not pod.spec.scheduling_gates):
            return True
    return False

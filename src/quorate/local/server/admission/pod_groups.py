"""Admission plugins of pod groups: PodGroupProtection, PodGroupWorkloadExists and JobValidation."""

from quorate.api.codec import Json
from quorate.api.native_groups import PROTECTION_FINALIZER
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.storage.store import Entry, Key

JOBS = "jobs.batch"
POD_GROUPS = "podgroups.scheduling.k8s.io"
WORKLOADS = "workloads.scheduling.k8s.io"


def protect(group: Json) -> None:
    """Add the finalizer that keeps a group until no active pod refers to it."""
    finalizers = group["metadata"].setdefault("finalizers", [])
    if PROTECTION_FINALIZER not in finalizers:
        finalizers.append(PROTECTION_FINALIZER)


def check_template(context: RequestContext, group: Json) -> None:
    """Check that the Workload of a new group has the template of the group.  Raises StatusError(403)."""
    reference = (group["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if reference is None:
        return
    workload, template = reference["workloadName"], reference["podGroupTemplateName"]
    entry = context.server.store.get(Key(WORKLOADS, context.namespace, workload))
    if entry is None:
        raise context.forbidden(group, f'PodGroup rejected: Workload "{workload}" not found')
    obj = entry.decode()
    if "deletionTimestamp" in obj["metadata"]:
        raise context.forbidden(group, f'PodGroup rejected: Workload "{workload}" is being deleted')
    if all(listed["name"] != template for listed in obj["spec"]["podGroupTemplates"]):
        message = f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{workload}"'
        raise context.forbidden(group, message)


def check_parallelism(context: RequestContext, new: Json, old: Json) -> None:
    """Check that a job with a gang of pods keeps its parallelism.  Raises StatusError(403)."""
    if new["spec"].get("parallelism") == old["spec"].get("parallelism"):
        return
    store = context.server.store
    template = old["spec"]["template"]["spec"].get("schedulingGroup") or {}
    if name := template.get("podGroupName"):
        group = store.get(Key(POD_GROUPS, context.namespace, name))
        gang = "" if group is None else _gang_name(group, "")
    else:
        uid = old["metadata"]["uid"]
        groups = store.usable(
            POD_GROUPS, lambda entry: _gang_name(entry, uid), "JobValidation", context.namespace
        )
        gang = next(filter(None, groups), "")
    if gang:
        message = f'cannot change parallelism for a Job referencing gang-scheduled PodGroup "{gang}"'
        raise context.forbidden(new, message)


def _gang_name(entry: Entry, controller_uid: str) -> str:
    """Return the name of a pod group if it has the gang policy, else an empty text.

    With a controller's uid, the name is empty also for a group that this controller does not own.
    """
    group = entry.decode()
    owners = group["metadata"].get("ownerReferences", ())
    is_controlled = any(owner.get("controller") and owner["uid"] == controller_uid for owner in owners)
    is_gang = group["spec"]["schedulingPolicy"].get("gang") is not None
    return entry.key.name if is_gang and (is_controlled or not controller_uid) else ""

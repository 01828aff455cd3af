"""Validation of Workloads and their updates beyond the schema of the CRD."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.configuration.feature_gates import WebhookGates
from quorate.api.core import ResourceRequirements
from quorate.api.findings import Finding, child_path
from quorate.api.kueue import PODS_RUN_AGAIN, Admission, PodSet, ReclaimablePod, Workload
from quorate.api.meta import is_true
from quorate.api.names.kueue import ELASTIC_JOB, PRIORITY_BOOST, SLICE_REPLACEMENT_FOR
from quorate.api.normal_form import with_amounts_in_nanos
from quorate.api.quantity import PODS
from quorate.api.validation.fields import (
    Findings,
    annotation_findings,
    gate_findings,
    gate_update_findings,
    known_names_text,
    label_findings,
    template_resources,
    toleration_findings,
)
from quorate.api.validation.topology import topology_request_findings

RESERVED: Final = "QuotaReserved"


def workload_findings(workload: Workload, gates: WebhookGates = WebhookGates()) -> Findings:  # noqa: B008
    """Validate a Workload; its admission gates are treated as given at creation."""
    yield from gate_findings(workload.metadata.annotations)
    yield from _object(workload, gates)
    yield from _reservation(workload)


def workload_warnings(workload: Workload) -> Iterator[str]:
    """Return what is accepted for now, with Kueue's texts."""
    for at, pod_set in enumerate(workload.spec.pod_sets):
        request = pod_set.topology_request
        count = None if request is msgspec.UNSET else request.sub_group_count
        if count is not None and count < 0:
            yield (
                f"spec.podSets[{at}].topologyRequest.subGroupCount: negative value {count} is deprecated and "
                "will be rejected in a future release"
            )


def workload_update_findings(old: Workload, new: Workload, gates: WebhookGates) -> Findings:
    """Validate an update of a Workload."""
    yield from gate_update_findings(old.metadata.annotations, new.metadata.annotations)
    elastic = gates.elastic_jobs and ELASTIC_JOB in new.metadata.annotations
    # A job may shrink below its finished pods: its size is written before finished pods are counted again.
    yield from _object(new, gates, tolerated=old.status.reclaimable_pods if elastic else ())
    if next(_reservation(old), None) is None:  # an object that was invalid in this way must stay editable
        yield from _reservation(new)
    was_reserved = _is_reserved(old)
    if was_reserved:
        yield from _immutable_pod_sets(old.spec.pod_sets, new.spec.pod_sets, may_shrink=gates.elastic_jobs)
    if was_reserved and _is_reserved(new):
        yield from _reclaimed(old, new, elastic=elastic)
    before, after = old.status.admission, new.status.admission
    if before is not None and after is not None and _without_places(before) != _without_places(after):
        rule = f"cannot become another one (it is in {before.cluster_queue}; take it back first)"
        yield Finding("status.admission", after.cluster_queue, rule)
    yield from _immutable_pod_set_updates(old, new)
    if not (gates.elastic_jobs and SLICE_REPLACEMENT_FOR in new.metadata.annotations):
        yield from _cluster_name(old, new)


def _object(workload: Workload, gates: WebhookGates, tolerated: Sequence[ReclaimablePod] = ()) -> Findings:
    pod_sets = workload.spec.pod_sets
    counts = {pod_set.name: pod_set.count for pod_set in pod_sets}
    for at, pod_set in enumerate(pod_sets):
        yield from _pod_set(f"spec.podSets[{at}]", pod_set, gates)
    yield from _min_counts(workload)
    if gates.priority_boost:
        yield from _priority_boost(workload.metadata.annotations)
    yield from _assignments(workload, counts)
    yield from _reclaimable(workload.status.reclaimable_pods, counts, tolerated)
    yield from _pod_set_updates(workload, counts)


def _pod_set(path: str, pod_set: PodSet, gates: WebhookGates) -> Findings:
    if isinstance(pod_set.min_count, int) and pod_set.min_count > pod_set.count:
        yield Finding(f"{path}.minCount", pod_set.min_count, f"is more than count, at most {pod_set.count}")
    try:
        template = decode_template(pod_set.template)
    except msgspec.ValidationError as error:
        decoded = msgspec.json.decode(pod_set.template)
        yield Finding(f"{path}.template", decoded, f"is no pod template: {error}")
        return
    if gates.pod_set_metadata:
        yield from label_findings(f"{path}.template.metadata.labels", template.metadata.labels)
        yield from annotation_findings(f"{path}.template.metadata.annotations", template.metadata.annotations)
    for where, amounts in template_resources(f"{path}.template", template):
        yield from _amounts(where, amounts, non_negative=gates.non_negative_resources)
    if pod_set.topology_request is not msgspec.UNSET and gates.slice_sizes:
        yield from topology_request_findings(f"{path}.topologyRequest", pod_set.topology_request)


def _amounts(path: str, resources: ResourceRequirements, *, non_negative: bool) -> Findings:
    for field, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        for name, amount in amounts.items():
            where = child_path(f"{path}.{field}", name)
            if name == PODS:
                yield Finding(where, str(amount), "must not be requested by pods: a queue counts them itself")
            elif amount.nanos < 0 and non_negative:
                yield Finding(where, str(amount), "is negative, must be at least 0")


def _min_counts(workload: Workload) -> Findings:
    """Validate minCount: at most one pod set may have it, and none in an elastic job.

    Partial admission searches for one number. Workloads that a controller created are exempt, because a job
    with several such pod sets is still admitted.
    """
    varying = [pod_set.name for pod_set in workload.spec.pod_sets if isinstance(pod_set.min_count, int)]
    if len(varying) > 1 and workload.metadata.controller is None:
        rule = "have a minCount, and at most one podSet can use minCount"
        yield Finding("spec.podSets", ", ".join(varying), rule)
    if varying and workload.metadata.annotations.get(ELASTIC_JOB) == "true":
        rule = f"has a minCount, which cannot be used with annotation {ELASTIC_JOB} (leave one out)"
        yield Finding("spec.podSets", varying[0], rule)


def _priority_boost(annotations: Mapping[str, str]) -> Findings:
    text = annotations.get(PRIORITY_BOOST)
    if text is not None and not text.removeprefix("-").removeprefix("+").isdecimal():
        where = child_path("metadata.annotations", PRIORITY_BOOST)
        yield Finding(where, text, "is not an integer (write 10 or -10)")


def _assignments(workload: Workload, counts: Mapping[str, int]) -> Findings:
    if workload.status.admission is None:
        return
    for at, assignment in enumerate(workload.status.admission.pod_set_assignments):
        path = f"status.admission.podSetAssignments[{at}]"
        if assignment.name not in counts:
            rule = f"is not a pod set of this workload ({known_names_text(counts)})"
            yield Finding(f"{path}.name", assignment.name, rule)
            continue
        count = assignment.count or 0  # without a count the amounts are not those of each pod
        for name, total in assignment.resource_usage.items():
            # Cpu is counted in thousandths, all other resources in whole units.
            amount = total.milli if name == "cpu" else total.units
            if count and amount % count:
                rule = f"does not divide evenly among {count} pods"
                yield Finding(child_path(f"{path}.resourceUsage", name), str(total), rule)


def _reclaimable(
    reclaimable: Sequence[ReclaimablePod], counts: Mapping[str, int], tolerated: Sequence[ReclaimablePod]
) -> Findings:
    for at, entry in enumerate(reclaimable):
        path, name = f"status.reclaimablePods[{at}]", entry.name
        if name not in counts:
            yield Finding(
                f"{path}.name", name, f"is not a pod set of this workload ({known_names_text(counts)})"
            )
        elif entry.count > counts[name] and entry not in tolerated:
            rule = f"is more than the pod set holds, at most {counts[name]}"
            yield Finding(f"{path}.count", entry.count, rule)


def _pod_set_updates(workload: Workload, counts: Mapping[str, int]) -> Findings:
    """Validate what admission checks add to pods, as the templates get it."""
    for at, check in enumerate(workload.status.admission_checks):
        for position, update in enumerate(check.pod_set_updates):
            path = f"status.admissionChecks[{at}].podSetUpdates[{position}]"
            if update.name not in counts:
                rule = f"is not a pod set of this workload ({known_names_text(counts)})"
                yield Finding(f"{path}.name", update.name, rule)
            yield from label_findings(f"{path}.labels", update.labels)
            yield from annotation_findings(f"{path}.annotations", update.annotations)
            yield from label_findings(f"{path}.nodeSelector", update.node_selector)
            yield from toleration_findings(f"{path}.tolerations", update.tolerations)


def _is_reserved(workload: Workload) -> bool:
    return is_true(workload.status.conditions, RESERVED)


def _reservation(workload: Workload) -> Findings:
    if _is_reserved(workload) and workload.status.admission is None:
        rule = f"is missing while the condition {RESERVED} is True (write both, or set the condition False)"
        yield Finding("status.admission", None, rule)


def _immutable_pod_sets(old: Sequence[PodSet], new: Sequence[PodSet], *, may_shrink: bool) -> Findings:
    if len(old) != len(new):
        yield Finding("spec.podSets", len(new), f"is a number that cannot change {_WHILE_RESERVED}")
        return
    for at, (before, after) in enumerate(zip(old, new, strict=True)):
        path = f"spec.podSets[{at}]"
        shrinks = may_shrink and after.count < before.count
        if after.count != before.count and not shrinks:
            rule = f"cannot change {_WHILE_RESERVED} (it was {before.count})"
            yield Finding(f"{path}.count", after.count, rule)
        if _without_count(before) != _without_count(after):
            yield Finding(path, after.name, f"cannot change {_WHILE_RESERVED} (evict the workload first)")


_WHILE_RESERVED: Final = "while quota is reserved"


def _without_places(admission: Admission) -> Admission:
    """Return the admission without topology assignments, which may follow later and change."""
    assignments = (
        replace(assignment, topology_assignment=None, delayed_topology_request=None)
        for assignment in admission.pod_set_assignments
    )
    return replace(admission, pod_set_assignments=tuple(assignments))


def _without_count(pod_set: PodSet) -> Any:
    """Return a pod set without its count as plain JSON values, for comparison.

    Clients in Go write ``metadata: {}`` although they did not read it, leave out empty lists and maps, false
    and 0, and write ``cpu: "1"`` for ``cpu: 1``.  Another empty object says something, as ``emptyDir: {}``.
    """
    whole = codec.to_builtins(pod_set)
    template = with_amounts_in_nanos(whole.pop("template", None))
    rest = {name: value for name, value in whole.items() if name != "count"}
    return _without_empty(rest, _EMPTY), _without_empty(template, (*_EMPTY, "", 0))


_EMPTY: Final[tuple[Any, ...]] = (None, [])
_MAY_BE_EMPTY: Final = frozenset(
    {"metadata", "resources", "labels", "annotations", "nodeSelector", "requests", "limits", "matchLabels"}
)


def _without_empty(value: Any, empty: tuple[Any, ...]) -> Any:
    if isinstance(value, list):
        return [_without_empty(item, empty) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _without_empty(item, empty) for name, item in value.items()}
    return {
        name: item
        for name, item in kept.items()
        if item not in empty and not (item == {} and name in _MAY_BE_EMPTY)
    }


def _reclaimed(old: Workload, new: Workload, *, elastic: bool) -> Findings:
    """Validate that reclaimed quota is not taken back, unless the condition PodsRunAgain tells so.

    Other workloads may use that quota, so a client must say that it is needed again.  The ended pods of an
    elastic job are counted anew before it shrinks, because the removed pods may include some.
    """
    if elastic or is_true(new.status.conditions, PODS_RUN_AGAIN):
        return
    now = {entry.name: entry.count for entry in new.status.reclaimable_pods}
    for entry in old.status.reclaimable_pods:
        path = child_path("status.reclaimablePods", entry.name)
        if entry.name not in now:
            if entry.count:
                yield Finding(path, None, f"cannot disappear {_WHILE_RESERVED} (it was {entry.count})")
        elif now[entry.name] < entry.count:
            rule = f"cannot become less {_WHILE_RESERVED}, at least {entry.count}"
            yield Finding(f"{path}.count", now[entry.name], rule)


def shrunk_pod_sets(workload: Workload) -> frozenset[str]:
    """Return the names of pod sets that were admitted with more pods than they have now."""
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    admission = workload.status.admission
    assignments = () if admission is None else admission.pod_set_assignments
    return frozenset(
        assignment.name
        for assignment in assignments
        if assignment.count is not None
        and assignment.name in sizes
        and assignment.count > sizes[assignment.name]
    )


def _cluster_name(old: Workload, new: Workload) -> Findings:
    """Validate that a newly chosen cluster is among those nominated."""
    chosen, nominated = new.status.cluster_name, old.status.nominated_cluster_names
    if chosen and not old.status.cluster_name and chosen not in nominated:
        rule = f"is none of the nominatedClusterNames ({known_names_text(nominated)})"
        yield Finding("status.clusterName", chosen, rule)


def _immutable_pod_set_updates(old: Workload, new: Workload) -> Findings:
    before = {check.name: check for check in old.status.admission_checks}
    for at, check in enumerate(new.status.admission_checks):
        was = before.get(check.name)
        if was is None or (was.state, check.state) != ("Ready", "Ready"):
            continue
        if was.pod_set_updates != check.pod_set_updates:
            path = f"status.admissionChecks[{at}].podSetUpdates"
            names = [update.name for update in check.pod_set_updates]
            yield Finding(path, names, "cannot change while the check stays Ready")

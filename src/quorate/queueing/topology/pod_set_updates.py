"""What the admission checks of a workload add to its pods.

Only checks in state Ready count: the pods start once all of them are.  A key with two values is a conflict,
as in Kueue (v0.19).
"""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quorate.api.batch import decode_template
from quorate.api.codec import to_builtins
from quorate.api.kueue import PodSet, PodSetUpdate, Workload

_MAPS: Final = (("labels", "labels"), ("annotations", "annotations"), ("nodeSelector", "node_selector"))


class UpdateConflict(msgspec.Struct, frozen=True):
    """An admission check wants another value for a key of the pods than they have."""

    pod_set: str
    field: str  # of the pod template: labels, annotations or nodeSelector
    key: str
    wanted: str
    present: str
    check: str

    @property
    def text(self) -> str:
        """Return the message of a workload that gets no places for it."""
        return (
            f"invalid podSetUpdate for PodSet {self.pod_set}, error: conflict for {self.field}[{self.key}]: "
            f"admission check {self.check} wants {self.wanted!r}, but it is {self.present!r}"
        )


def merge_updates(base: PodSetUpdate, workload: Workload) -> PodSetUpdate | UpdateConflict:
    """Return ``base`` with what the Ready checks of ``workload`` add to the pod set of its name."""
    merged = base
    for check in workload.status.admission_checks:
        if check.state != "Ready":
            continue
        for update in check.pod_set_updates:
            if update.name == base.name:
                outcome = _merged(merged, update, check.name)
                if isinstance(outcome, UpdateConflict):
                    return outcome
                merged = outcome
    return merged


def _merged(base: PodSetUpdate, update: PodSetUpdate, check: str) -> PodSetUpdate | UpdateConflict:
    for field, attribute in _MAPS:
        present: dict[str, str] = getattr(base, attribute)
        wanted: dict[str, str] = getattr(update, attribute)
        for key in sorted(wanted):
            if present.get(key, wanted[key]) != wanted[key]:
                return UpdateConflict(base.name, field, key, wanted[key], present[key], check)
    added = (toleration for toleration in update.tolerations if toleration not in base.tolerations)
    return replace(
        base,
        labels=base.labels | update.labels,
        annotations=base.annotations | update.annotations,
        node_selector=base.node_selector | update.node_selector,
        tolerations=(*base.tolerations, *added),
    )


def with_updates(workload: Workload) -> Workload | UpdateConflict:
    """Return ``workload`` with pod templates as its Ready checks update them; itself if they change nothing.

    The result is for placement only.  A template that cannot be decoded is left as it is.
    """
    has_updates = False
    for check in workload.status.admission_checks:  # for each head: a generator would cost more
        if check.pod_set_updates and check.state == "Ready":
            has_updates = True
    if not has_updates:
        return workload
    pod_sets: list[PodSet] = []
    for pod_set in workload.spec.pod_sets:
        updated = _updated(pod_set, workload)
        if isinstance(updated, UpdateConflict):
            return updated
        pod_sets.append(updated)
    return replace(workload, spec=replace(workload.spec, pod_sets=tuple(pod_sets)))


def _updated(pod_set: PodSet, workload: Workload) -> PodSet | UpdateConflict:
    try:
        template = decode_template(pod_set.template)
    except msgspec.ValidationError:
        return pod_set
    base = PodSetUpdate(
        name=pod_set.name,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        node_selector=template.spec.node_selector,
        tolerations=template.spec.tolerations,
    )
    merged = merge_updates(base, workload)
    if isinstance(merged, UpdateConflict) or merged == base:
        return merged if isinstance(merged, UpdateConflict) else pod_set
    stored: dict[str, Any] = msgspec.json.decode(pod_set.template)
    metadata = {**(stored.get("metadata") or {}), "labels": merged.labels, "annotations": merged.annotations}
    spec = {
        **(stored.get("spec") or {}),
        "nodeSelector": merged.node_selector,
        "tolerations": to_builtins(merged.tolerations),
    }
    content = msgspec.json.encode({**stored, "metadata": metadata, "spec": spec})
    return replace(pod_set, template=msgspec.Raw(content))

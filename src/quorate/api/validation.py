"""What is wrong with queueing objects beyond what the schemas of their CRDs can say.

Every function answers with all findings at once, in the order of the fields.  The rules are Kueue's static
ones (those its webhooks enforce), so that they hold without webhooks: controllers make conditions of them,
and ``quorate local run`` refuses a manifest before it is applied.  The rules that schemas do state, such as
lengths and enumerations, are not repeated here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.batch import template_of
from quorate.api.conversion import NEWER, OLDER, convert_version
from quorate.api.core import PodTemplate, ResourceRequirements, Taint, Toleration
from quorate.api.documents import child
from quorate.api.findings import Finding
from quorate.api.kueue import (
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    FairSharing,
    FlavorQuotas,
    LocalQueue,
    PodSet,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    Workload,
)
from quorate.api.meta import LabelSelector
from quorate.api.names import is_label_value, is_qualified_name
from quorate.api.quantity import Quantity

MOST_FLAVORS: Final = 256  # of a queue, over all groups
MOST_RESOURCES: Final = 256
MOST_PAIRS: Final = 512  # flavors times resources, in one group
SMALLEST_WEIGHT: Final = Quantity(1)  # a billionth; below, shares would overflow
PODS: Final = "pods"  # counted by the queue itself, so no pod may ask for it

Findings = Iterator[Finding]


def manifest_findings(body: Mapping[str, Any]) -> list[Finding]:
    """The findings of an object of any version; none for other kinds.

    An object whose shape is wrong gets none either: an API server says that, with all its paths.
    """
    if body.get("apiVersion") not in (OLDER, NEWER) or body.get("kind") not in _VALIDATORS:
        return []
    type_, validate = _VALIDATORS[body["kind"]]
    try:
        return list(validate(codec.convert(type_, convert_version(dict(body), NEWER))))
    except (msgspec.ValidationError, KeyError, TypeError):  # the latter two: conversion trusts shapes
        return []


def resource_flavor_findings(flavor: ResourceFlavor) -> Findings:
    spec = flavor.spec
    yield from _labels("spec.nodeLabels", spec.node_labels)
    yield from _taints("spec.nodeTaints", spec.node_taints)
    yield from _tolerations("spec.tolerations", spec.tolerations)


def cluster_queue_findings(queue: ClusterQueue) -> Findings:
    spec = queue.spec
    yield from _quotas(spec.resource_groups, parent=spec.cohort_name, parent_field="cohortName")
    for at, group in enumerate(spec.resource_groups):
        yield from _lending(f"spec.resourceGroups[{at}]", group)
    yield from _selector("spec.namespaceSelector", spec.namespace_selector)
    yield from _policies(spec)
    flavors = {flavor.name for group in spec.resource_groups for flavor in group.flavors}
    for at, check in enumerate(spec.admission_checks_strategy.admission_checks):
        for position, name in enumerate(check.on_flavors):
            if name not in flavors:
                path = f"spec.admissionChecksStrategy.admissionChecks[{at}].onFlavors[{position}]"
                yield Finding(path, name, f"is no flavor of this queue ({_listed(flavors)})")
    yield from _weight(spec.fair_sharing)


def cohort_findings(cohort: Cohort) -> Findings:
    """As for a cluster queue, except that a cohort may lend more than its own quota."""
    spec = cohort.spec
    yield from _quotas(spec.resource_groups, parent=spec.parent_name, parent_field="parentName")
    yield from _weight(spec.fair_sharing)


def local_queue_findings(queue: LocalQueue) -> Findings:
    if not queue.spec.cluster_queue:
        yield Finding("spec.clusterQueue", queue.spec.cluster_queue, "is missing (name a ClusterQueue)")
    yield from _weight(queue.spec.fair_sharing)


def workload_findings(workload: Workload) -> Findings:
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    for at, pod_set in enumerate(workload.spec.pod_sets):
        yield from _pod_set(f"spec.podSets[{at}]", pod_set)
    yield from _assignments(workload, counts)
    for at, reclaimable in enumerate(workload.status.reclaimable_pods):
        path, name = f"status.reclaimablePods[{at}]", reclaimable.name
        if name not in counts:
            yield Finding(f"{path}.name", name, f"is no pod set of this workload ({_listed(counts)})")
        elif reclaimable.count > counts[name]:
            rule = f"is more than the pod set holds, at most {counts[name]}"
            yield Finding(f"{path}.count", reclaimable.count, rule)


_VALIDATORS: Final[Mapping[str, tuple[Any, Any]]] = {
    "ClusterQueue": (ClusterQueue, cluster_queue_findings),
    "Cohort": (Cohort, cohort_findings),
    "LocalQueue": (LocalQueue, local_queue_findings),
    "ResourceFlavor": (ResourceFlavor, resource_flavor_findings),
    "Workload": (Workload, workload_findings),
}


def _quotas(groups: Sequence[ResourceGroup], *, parent: str, parent_field: str) -> Findings:
    """The rules of a list of resource groups; without a parent there is nobody to borrow from or lend to."""
    resource_paths: dict[str, str] = {}
    flavor_paths: dict[str, str] = {}
    for at, group in enumerate(groups):
        path = f"spec.resourceGroups[{at}]"
        covered = [
            (f"{path}.coveredResources[{position}]", name)
            for position, name in enumerate(group.covered_resources)
        ]
        flavors = [
            (f"{path}.flavors[{position}].name", flavor.name) for position, flavor in enumerate(group.flavors)
        ]
        yield from _repeated(covered, resource_paths)
        yield from _repeated(flavors, flavor_paths)
        pairs = len(covered) * len(flavors)
        if pairs > MOST_PAIRS:
            yield Finding(path, pairs, f"pairs of flavor and resource are too many, at most {MOST_PAIRS}")
        for position, flavor in enumerate(group.flavors):
            below = f"{path}.flavors[{position}]"
            yield from _flavor_quotas(below, flavor, group.covered_resources)
            for index, quota in enumerate(flavor.resources):
                yield from _limits(f"{below}.resources[{index}]", quota, parent, parent_field)
    if len(flavor_paths) > MOST_FLAVORS:
        rule = f"flavors in all groups are too many, at most {MOST_FLAVORS}"
        yield Finding("spec.resourceGroups", len(flavor_paths), rule)
    if len(resource_paths) > MOST_RESOURCES:
        rule = f"resources in all groups are too many, at most {MOST_RESOURCES}"
        yield Finding("spec.resourceGroups", len(resource_paths), rule)


def _repeated(places: Iterable[tuple[str, str]], seen: dict[str, str]) -> Findings:
    """Names that stand in two places; the first places of all names are gathered in ``seen``."""
    for path, name in places:
        if name in seen:
            yield Finding(path, name, f"is given already in {seen[name]} (keep one of them)")
        seen.setdefault(name, path)


def _flavor_quotas(path: str, flavor: FlavorQuotas, covered: Sequence[str]) -> Findings:
    names = tuple(quota.name for quota in flavor.resources)
    if names != tuple(covered):
        rule = f"must match coveredResources, in the same order ({_in_order(covered)})"
        yield Finding(f"{path}.resources", _in_order(names), rule)


def _limits(path: str, quota: ResourceQuota, parent: str, parent_field: str) -> Findings:
    limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
    for field, amount in {"nominalQuota": quota.nominal_quota, **limits}.items():
        if amount is not None and amount.nanos < 0:
            yield Finding(f"{path}.{field}", str(amount), "is negative, must be at least 0")
    for field, limit in limits.items():
        if limit is not None and not parent:
            rule = f"needs spec.{parent_field} (set that or leave this out)"
            yield Finding(f"{path}.{field}", str(limit), rule)


def _lending(path: str, group: ResourceGroup) -> Findings:
    for at, flavor in enumerate(group.flavors):
        for position, quota in enumerate(flavor.resources):
            if quota.lending_limit is not None and quota.lending_limit > quota.nominal_quota:
                rule = f"is more than nominalQuota, at most {quota.nominal_quota}"
                where = f"{path}.flavors[{at}].resources[{position}].lendingLimit"
                yield Finding(where, str(quota.lending_limit), rule)


def _policies(spec: ClusterQueueSpec) -> Findings:
    """Policies that exclude each other.  Schemas say this too, but not those of every Kueue release."""
    fungibility, preemption = spec.flavor_fungibility, spec.preemption
    both = (fungibility.when_can_borrow, fungibility.when_can_preempt)
    if fungibility.preference is not None and both != ("TryNextFlavor", "TryNextFlavor"):
        rule = "needs whenCanBorrow and whenCanPreempt to be TryNextFlavor (or leave it out)"
        yield Finding("spec.flavorFungibility.preference", fungibility.preference, rule)
    policy = preemption.borrow_within_cohort.policy
    if policy != "Never" and preemption.reclaim_within_cohort == "Never":
        rule = "needs reclaimWithinCohort to be LowerPriority or Any (or write Never)"
        yield Finding("spec.preemption.borrowWithinCohort.policy", policy, rule)


def _weight(sharing: FairSharing | None) -> Findings:
    if sharing is None:
        return
    if sharing.weight.nanos < 0:
        yield Finding("spec.fairSharing.weight", str(sharing.weight), "is negative, must be at least 0")
    elif Quantity(0) < sharing.weight <= SMALLEST_WEIGHT:
        rule = "is too small a share, must be 0 or more than a billionth (write 1 for an equal share)"
        yield Finding("spec.fairSharing.weight", str(sharing.weight), rule)


def _pod_set(path: str, pod_set: PodSet) -> Findings:
    if isinstance(pod_set.min_count, int) and pod_set.min_count > pod_set.count:
        yield Finding(f"{path}.minCount", pod_set.min_count, f"is more than count, at most {pod_set.count}")
    template = template_of(pod_set.template)
    yield from _labels(f"{path}.template.metadata.labels", template.metadata.labels)
    for key in template.metadata.annotations:
        if not is_qualified_name(key):
            where = child(f"{path}.template.metadata.annotations", key)
            yield Finding(where, key, "is not the key of an annotation (write name or example.com/name)")
    for where, requirements in _requirements(f"{path}.template.spec", template):
        yield from _amounts(where, requirements)


def _requirements(path: str, template: PodTemplate) -> Iterator[tuple[str, ResourceRequirements]]:
    for field, containers in (
        ("initContainers", template.spec.init_containers),
        ("containers", template.spec.containers),
    ):
        for at, container in enumerate(containers):
            yield f"{path}.{field}[{at}].resources", container.resources
    yield f"{path}.resources", template.spec.resources


def _amounts(path: str, requirements: ResourceRequirements) -> Findings:
    for field, amounts in (("requests", requirements.requests), ("limits", requirements.limits)):
        for name, amount in amounts.items():
            where = child(f"{path}.{field}", name)
            if name == PODS:
                yield Finding(where, str(amount), "is not for pods to ask: a queue counts them itself")
            elif amount.nanos < 0:
                yield Finding(where, str(amount), "is negative, must be at least 0")


def _assignments(workload: Workload, counts: Mapping[str, int]) -> Findings:
    if workload.status.admission is None:
        return
    for at, assignment in enumerate(workload.status.admission.pod_set_assignments):
        path = f"status.admission.podSetAssignments[{at}]"
        if assignment.name not in counts:
            rule = f"is no pod set of this workload ({_listed(counts)})"
            yield Finding(f"{path}.name", assignment.name, rule)
            continue
        count = counts[assignment.name] if assignment.count is None else assignment.count
        for name, total in assignment.resource_usage.items():
            # Cpu is counted in thousandths, everything else in whole units.
            amount = total.milli if name == "cpu" else total.units
            if count and amount % count:
                rule = f"does not divide evenly among {count} pods"
                yield Finding(child(f"{path}.resourceUsage", name), str(total), rule)


def _labels(path: str, labels: Mapping[str, str]) -> Findings:
    for key, value in labels.items():
        if not is_qualified_name(key):
            rule = "is not the key of a label (write name or example.com/name)"
            yield Finding(child(path, key), key, rule)
        if not is_label_value(value):
            yield Finding(child(path, key), value, _LABEL_VALUE_RULE)


_LABEL_VALUE_RULE: Final = "is not the value of a label (at most 63 letters, digits, '-', '_' or '.')"


def _taints(path: str, taints: Sequence[Taint]) -> Findings:
    seen: dict[tuple[str, str], int] = {}
    for at, taint in enumerate(taints):
        if not is_qualified_name(taint.key):
            yield Finding(
                f"{path}[{at}].key", taint.key, "is not the key of a taint (write example.com/name)"
            )
        if not is_label_value(taint.value):
            yield Finding(f"{path}[{at}].value", taint.value, _LABEL_VALUE_RULE)
        first = seen.setdefault((taint.key, taint.effect), at)
        if first != at:
            rule = f"with effect {taint.effect} is given already in {path}[{first}] (keep one of them)"
            yield Finding(f"{path}[{at}].key", taint.key, rule)


def _tolerations(path: str, tolerations: Sequence[Toleration]) -> Findings:
    for at, toleration in enumerate(tolerations):
        if toleration.key and not is_qualified_name(toleration.key):
            rule = "is not the key of a taint (write example.com/name)"
            yield Finding(f"{path}[{at}].key", toleration.key, rule)


def _selector(path: str, selector: LabelSelector | None) -> Findings:
    if selector is None:
        return
    yield from _labels(f"{path}.matchLabels", selector.match_labels)
    for at, requirement in enumerate(selector.match_expressions):
        where = f"{path}.matchExpressions[{at}]"
        if not is_qualified_name(requirement.key):
            yield Finding(f"{where}.key", requirement.key, "is not the key of a label")
        match requirement.operator:
            case "In" | "NotIn" if not requirement.values:
                rule = f"must list a value for operator {requirement.operator}"
                yield Finding(f"{where}.values", list(requirement.values), rule)
            case "Exists" | "DoesNotExist" if requirement.values:
                rule = f"must be empty for operator {requirement.operator}"
                yield Finding(f"{where}.values", list(requirement.values), rule)
            case "In" | "NotIn" | "Exists" | "DoesNotExist":
                pass
            case unknown:
                rule = "is no operator (write In, NotIn, Exists or DoesNotExist)"
                yield Finding(f"{where}.operator", unknown, rule)


def _listed(names: Iterable[str]) -> str:
    return f"there is {', '.join(sorted(names)) or 'none'}"


def _in_order(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"

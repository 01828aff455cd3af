"""Validation of flavors and queues beyond the schemas of their CRDs."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.api.findings import Finding
from quorate.api.kueue import (
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    FairSharing,
    FlavorQuotas,
    LocalQueue,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
)
from quorate.api.quantity import Quantity
from quorate.api.syntax import is_qualified_name
from quorate.api.validation.fields import (
    Findings,
    join_names,
    known_names_text,
    label_findings,
    selector_findings,
    taint_findings,
    toleration_findings,
)

MAX_FLAVORS: Final = 256  # of a queue, over all groups
MAX_RESOURCES: Final = 256
MAX_FLAVOR_RESOURCE_PAIRS: Final = 512  # flavors times resources in one group
MIN_WEIGHT: Final = Quantity(1)  # one billionth; a smaller weight could overflow shares


def resource_flavor_findings(flavor: ResourceFlavor) -> Findings:
    spec = flavor.spec
    yield from label_findings("spec.nodeLabels", spec.node_labels)
    yield from taint_findings("spec.nodeTaints", spec.node_taints)
    yield from toleration_findings("spec.tolerations", spec.tolerations)


def cluster_queue_findings(queue: ClusterQueue) -> Findings:
    yield from _cluster_queue(queue.spec, tolerated=frozenset())


def cluster_queue_update_findings(old: ClusterQueue, new: ClusterQueue, *, strict_checks: bool) -> Findings:
    """Validate an update, ignoring unknown flavors of checks that ``old`` had too.

    Queues stored before that rule existed must stay editable, so those findings are tolerated while the
    queue's flavors do not change. ``strict_checks`` (gate RejectUpdatesToCQWithInvalidOnFlavors) disables the
    tolerance.
    """
    is_same = not strict_checks and _flavors(old.spec) == _flavors(new.spec)
    yield from _cluster_queue(
        new.spec, tolerated=_unknown_check_flavors(old.spec) if is_same else frozenset()
    )


def stored_cluster_queue_findings(spec: ClusterQueueSpec) -> Findings:
    """Return findings that make a stored cluster queue unusable.

    Unknown flavors of a check are not among them, because such a check applies to no flavor.
    """
    yield from _cluster_queue(spec, tolerated=_unknown_check_flavors(spec))


def _cluster_queue(spec: ClusterQueueSpec, tolerated: frozenset[tuple[str, str]]) -> Findings:
    """Validate a spec; ``tolerated`` contains pairs of check and flavor that are tolerated."""
    yield from _quotas(spec.resource_groups, parent=spec.cohort_name, parent_field="cohortName")
    for at, group in enumerate(spec.resource_groups):
        yield from _lending(f"spec.resourceGroups[{at}]", group)
    yield from selector_findings("spec.namespaceSelector", spec.namespace_selector)
    yield from _policies(spec)
    flavors = _flavors(spec)
    for at, check in enumerate(spec.admission_checks_strategy.admission_checks):
        for position, name in enumerate(check.on_flavors):
            if name not in flavors and (check.name, name) not in tolerated:
                path = f"spec.admissionChecksStrategy.admissionChecks[{at}].onFlavors[{position}]"
                yield Finding(path, name, f"is not a flavor of this queue ({known_names_text(flavors)})")
    yield from _weight(spec.fair_sharing)


def _flavors(spec: ClusterQueueSpec) -> frozenset[str]:
    return frozenset(flavor.name for group in spec.resource_groups for flavor in group.flavors)


def _unknown_check_flavors(spec: ClusterQueueSpec) -> frozenset[tuple[str, str]]:
    """Return the pairs of a check and one of its flavors that is not in the queue."""
    flavors, checks = _flavors(spec), spec.admission_checks_strategy.admission_checks
    pairs = ((check.name, name) for check in checks for name in check.on_flavors)
    return frozenset((check, name) for check, name in pairs if name not in flavors)


def cohort_findings(cohort: Cohort) -> Findings:
    """Validate a cohort, by the rules of cluster queues except the bound of lendingLimit."""
    spec = cohort.spec
    yield from _quotas(spec.resource_groups, parent=spec.parent_name, parent_field="parentName")
    yield from _weight(spec.fair_sharing)


def local_queue_findings(queue: LocalQueue) -> Findings:
    if not queue.spec.cluster_queue:
        yield Finding("spec.clusterQueue", queue.spec.cluster_queue, "is missing (name a ClusterQueue)")
    yield from _weight(queue.spec.fair_sharing)


def _quotas(groups: Sequence[ResourceGroup], *, parent: str, parent_field: str) -> Findings:
    """Validate resource groups; without a parent, borrowing and lending limits are not allowed."""
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
        for where, name in covered:
            if not is_qualified_name(name):
                yield Finding(where, name, "is not the name of a resource (write cpu or example.com/gpu)")
        yield from _duplicates(covered, resource_paths)
        yield from _duplicates(flavors, flavor_paths)
        pairs = len(covered) * len(flavors)
        if pairs > MAX_FLAVOR_RESOURCE_PAIRS:
            yield Finding(
                path, pairs, f"pairs of flavor and resource are too many, at most {MAX_FLAVOR_RESOURCE_PAIRS}"
            )
        for position, flavor in enumerate(group.flavors):
            below = f"{path}.flavors[{position}]"
            yield from _flavor_quotas(below, flavor, group.covered_resources)
            for index, quota in enumerate(flavor.resources):
                if (
                    quota.nominal_quota.nanos >= 0
                    and quota.borrowing_limit is None
                    and quota.lending_limit is None
                ):
                    continue  # most quotas
                yield from _limits(f"{below}.resources[{index}]", quota, parent, parent_field)
    if len(flavor_paths) > MAX_FLAVORS:
        rule = f"flavors in all groups are too many, at most {MAX_FLAVORS}"
        yield Finding("spec.resourceGroups", len(flavor_paths), rule)
    if len(resource_paths) > MAX_RESOURCES:
        rule = f"resources in all groups are too many, at most {MAX_RESOURCES}"
        yield Finding("spec.resourceGroups", len(resource_paths), rule)


def _duplicates(places: Iterable[tuple[str, str]], seen: dict[str, str]) -> Findings:
    """Find names that occur twice; ``seen`` collects the first path of each name."""
    for path, name in places:
        if name in seen:
            yield Finding(path, name, f"is given already in {seen[name]} (keep one of them)")
        seen.setdefault(name, path)


def _flavor_quotas(path: str, flavor: FlavorQuotas, covered: Sequence[str]) -> Findings:
    names = tuple(quota.name for quota in flavor.resources)
    if names != tuple(covered):
        rule = f"must match coveredResources, in the same order ({join_names(covered)})"
        yield Finding(f"{path}.resources", join_names(names), rule)


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
    """Find policies that exclude each other.  Schemas of some Kueue releases do not check this."""
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
    elif Quantity(0) < sharing.weight <= MIN_WEIGHT:
        rule = "is too small a share, must be 0 or more than a billionth (write 1 for an equal share)"
        yield Finding("spec.fairSharing.weight", str(sharing.weight), rule)

"""Rules that relate fields of Workloads and PodGroups of ``scheduling.k8s.io``, and of their conditions."""

from collections.abc import Sequence

from quorate.api.codec import Json
from quorate.local.objects.errors import duplicate, invalid_value, too_many
from quorate.local.server.registry.validation.field_rules import Causes, Scope, check, relation
from quorate.local.server.registry.validation.formats import check_format, long_name

MAX_TEMPLATES = 8
MAX_CLAIMS = 4
MAX_TOPOLOGY_CONSTRAINTS = 1
CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def _exactly_one(obj: Json, path: str, fields: Sequence[str]) -> Causes:
    present = [field for field in fields if obj.get(field) is not None]
    if len(present) == 1:
        return
    choices = ", ".join(f"`{field}`" for field in fields)
    value, rule = (f"{{{', '.join(present)}}}", "exactly one of") if present else ("", "one of")
    yield invalid_value(path, value, f"must specify {rule}: {choices}")


def _named_items(items: Sequence[Json], path: str, most: int, type_name: str, scope: Scope) -> Causes:
    """Yield that the list is too long; else items with a name that occurred before, and what each breaks."""
    if len(items) > most:
        yield too_many(path, len(items), most)
        return
    yield from _duplicates(items, path)
    for index, item in enumerate(items):
        yield from check(type_name, item, f"{path}[{index}]", scope)


def _duplicates(items: Sequence[Json], path: str) -> Causes:
    names: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        if name in names:
            yield duplicate(f"{path}[{index}]", item)
        names.add(name)


@relation
def pod_group_templates(workload: Json, _: str, scope: Scope) -> Causes:
    templates = workload["spec"].get("podGroupTemplates") or ()
    yield from _named_items(templates, "spec.podGroupTemplates", MAX_TEMPLATES, "PodGroupTemplate", scope)


@relation
def pod_group_claims(terms: Json, path: str, scope: Scope) -> Causes:
    claims = terms.get("resourceClaims", ())
    yield from _named_items(claims, f"{path}.resourceClaims", MAX_CLAIMS, "PodGroupResourceClaim", scope)


@relation
def topology_constraints(constraints: Json, path: str, scope: Scope) -> Causes:
    listed = constraints.get("topology", ())
    if len(listed) > MAX_TOPOLOGY_CONSTRAINTS:
        yield too_many(f"{path}.topology", len(listed), MAX_TOPOLOGY_CONSTRAINTS)
        return
    for index, constraint in enumerate(listed):
        yield from check("TopologyConstraint", constraint, f"{path}.topology[{index}]", scope)


@relation
def basic_or_gang(policy: Json, path: str, _: Scope) -> Causes:
    yield from _exactly_one(policy, path, ("basic", "gang"))


@relation
def workload_of_template(reference: Json, path: str, _: Scope) -> Causes:
    yield from _exactly_one(reference, path, ("workload",))


@relation
def claim_or_template(claim: Json, path: str, _: Scope) -> Causes:
    yield from _exactly_one(claim, path, CLAIM_SOURCES)


@relation
def names_of_claim(claim: Json, path: str, _: Scope) -> Causes:
    for field in CLAIM_SOURCES:
        if field in claim:
            yield from check_format(claim[field], f"{path}.{field}", long_name)


@relation
def pod_group_claim_statuses(group: Json, _: str, scope: Scope) -> Causes:
    """Check that a claim's status names a claim of the group, once, and a possible ResourceClaim."""
    path = "status.resourceClaimStatuses"
    statuses = group.get("status", {}).get("resourceClaimStatuses", ())
    claims = {claim["name"] for claim in group["spec"].get("resourceClaims", ())}
    for index, status in enumerate(statuses):
        if status["name"] not in claims:
            message = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid_value(f"{path}[{index}].name", status["name"], message)
    yield from _named_items(statuses, path, MAX_CLAIMS, "PodGroupResourceClaimStatus", scope)


@relation
def pod_group_name(group: Json, path: str, _: Scope) -> Causes:
    name = group.get("podGroupName")
    if name is None:
        yield invalid_value(f"{path}.podGroupName", None, "must specify one of: `podGroupName`")
    else:
        yield from check_format(name, f"{path}.podGroupName", long_name)

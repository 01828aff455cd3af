"""Roles and who has them."""

from quorate.local.server.errors import Cause, invalid_value, not_supported, required
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import Causes, Json, spelled

GROUP = "rbac.authorization.k8s.io"
RESOURCE_FIELDS = ("apiGroups", "resources", "resourceNames")


def role(given: Json) -> list[Cause]:
    return list(_rules(given, namespaced=True))


def cluster_role(given: Json) -> list[Cause]:
    return list(_rules(given, namespaced=False))


def _rules(given: Json, namespaced: bool) -> Causes:
    for index, rule in enumerate(given.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            yield from _non_resource(rule, path, namespaced)
        else:
            for field in ("apiGroups", "resources"):
                if not rule.get(field):
                    yield required(f"{path}.{field}", "resource rules must supply at least one")


def _non_resource(rule: Json, path: str, namespaced: bool) -> Causes:
    where, given = f"{path}.nonResourceURLs", rule["nonResourceURLs"]
    if namespaced:
        yield invalid_value(where, given, "namespaced rules cannot apply to non-resource URLs")
    if any(rule.get(field) for field in RESOURCE_FIELDS):
        why = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid_value(where, given, why)


def role_binding(given: Json) -> list[Cause]:
    return list(_binding(given, ("Role", "ClusterRole")))


def cluster_role_binding(given: Json) -> list[Cause]:
    return list(_binding(given, ("ClusterRole",)))


def _binding(given: Json, kinds: tuple[str, ...]) -> Causes:
    granted = given.get("roleRef", {})
    if granted.get("apiGroup") not in (None, "", GROUP):
        yield not_supported("roleRef.apiGroup", granted["apiGroup"], [GROUP])
    if granted.get("kind") not in kinds:
        yield not_supported("roleRef.kind", granted.get("kind", ""), kinds)
    if not granted.get("name"):
        yield required("roleRef.name")
    yield from spelled(granted.get("name", ""), "roleRef.name", formats.path_segment)
    for index, subject in enumerate(given.get("subjects", ())):
        yield from _subject(subject, f"subjects[{index}]", namespaced="Role" in kinds)


def _subject(subject: Json, path: str, namespaced: bool) -> Causes:
    group, name = subject.get("apiGroup", ""), subject.get("name", "")
    if not name:
        yield required(f"{path}.name")
    match subject.get("kind"):
        case "ServiceAccount":
            if name:
                yield from spelled(name, f"{path}.name", formats.subdomain)
            if group:
                yield not_supported(f"{path}.apiGroup", group, [""])
            if not namespaced and not subject.get("namespace"):
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group not in ("", GROUP):
                yield not_supported(f"{path}.apiGroup", group, [GROUP])
        case kind:
            yield not_supported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group"))


def binding_update(new: Json, old: Json) -> list[Cause]:
    """Who holds a role may change; which role it is may not."""
    if new.get("roleRef") != old.get("roleRef"):
        return [invalid_value("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []

"""Rules that relate fields of RBAC roles and bindings."""

from quorate.local.server.errors import invalid_value, not_supported, required
from quorate.local.server.registry.validation.field_rules import Causes, Json, Scope, relation
from quorate.local.server.registry.validation.formats import check_format, subdomain

GROUP = "rbac.authorization.k8s.io"
RESOURCE_FIELDS = ("apiGroups", "resources", "resourceNames")


@relation
def resources_or_urls(rule: Json, path: str, scope: Scope) -> Causes:
    """Check that a rule is about resources or, in a ClusterRole, about non-resource URLs."""
    urls = rule.get("nonResourceURLs")
    if not urls:
        for field in ("apiGroups", "resources"):
            if not rule.get(field):
                yield required(f"{path}.{field}", "resource rules must supply at least one")
        return
    if scope.container.type == "Role":
        message = "namespaced rules cannot apply to non-resource URLs"
        yield invalid_value(f"{path}.nonResourceURLs", urls, message)
    if any(rule.get(field) for field in RESOURCE_FIELDS):
        message = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid_value(f"{path}.nonResourceURLs", urls, message)


@relation
def subject_kind(subject: Json, path: str, scope: Scope) -> Causes:
    group, name = subject.get("apiGroup", ""), subject.get("name", "")
    match subject.get("kind"):
        case "ServiceAccount":
            if name:
                yield from check_format(name, f"{path}.name", subdomain)
            if group:
                yield not_supported(f"{path}.apiGroup", group, [""])
            if scope.container.type == "ClusterRoleBinding" and not subject.get("namespace"):
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group not in ("", GROUP):
                yield not_supported(f"{path}.apiGroup", group, [GROUP])
        case kind:
            yield not_supported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group"))

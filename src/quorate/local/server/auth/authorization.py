"""RBAC authorization: roles and bindings, read from the latest state of the store.

Rules only allow; a user has the union of the rules of all bound roles.  The group system:masters is always
allowed, so that no stored object can lock out the administrator.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from quorate.api.codec import Json
from quorate.local.server.auth.authentication import SERVICE_ACCOUNT_PREFIX, User
from quorate.local.server.request_info import RequestInfo
from quorate.local.server.storage.store import Entry, Key, Store

GROUP = "rbac.authorization.k8s.io"
ROLES = f"roles.{GROUP}"
CLUSTER_ROLES = f"clusterroles.{GROUP}"
ROLE_BINDINGS = f"rolebindings.{GROUP}"
CLUSTER_ROLE_BINDINGS = f"clusterrolebindings.{GROUP}"
RESOURCES = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
MASTERS = "system:masters"
CACHE_SIZE = 10_000

UserKey = tuple[str, tuple[str, ...]]
"""Name and groups of a user, the key of bindings."""


@dataclass(frozen=True, slots=True)
class AuthorizationAttributes:
    """A request as the authorizer sees it: a verb on a resource or on a non-resource path."""

    verb: str
    group: str = ""
    resource: str = ""  # pods, pods/status; empty: a non-resource path
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def from_request(cls, info: RequestInfo, field_selector: str = "") -> "AuthorizationAttributes":
        """Return the attributes of a request."""
        if not info.resource:
            return cls(info.verb, path=info.path)
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        # As in kube-apiserver, the namespace of a Namespace is its own name.
        is_namespace = info.resource == "namespaces" and not info.group
        return cls(
            info.verb,
            info.group,
            resource,
            info.name if is_namespace else info.namespace,
            info.name or _selected_name(field_selector),
        )


def _selected_name(field_selector: str) -> str:
    """Return the object name that a field selector requires, or an empty string."""
    for term in field_selector.split(","):
        field, _, name = term.replace("==", "=").partition("=")
        if field == "metadata.name":
            return name
    return ""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule of a role; ``*`` matches everything."""

    verbs: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()  # empty: all objects
    paths: frozenset[str] = frozenset()

    def allows(self, attributes: AuthorizationAttributes) -> bool:
        if self.verbs.isdisjoint((attributes.verb, "*")):
            return False
        if not attributes.resource:
            return any(_path_matches(path, attributes.path) for path in self.paths)
        _, _, subresource = attributes.resource.partition("/")
        patterns = (attributes.resource, "*", *((f"*/{subresource}",) if subresource else ()))
        return (
            not self.groups.isdisjoint((attributes.group, "*"))
            and not self.resources.isdisjoint(patterns)
            and (not self.names or attributes.name in self.names)
        )

    def to_json(self) -> Json:
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {name: sorted(values) for name, values in fields.items() if values}


def _path_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def parse_rule(rule: Json) -> PolicyRule:
    fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return PolicyRule(*(frozenset(rule.get(field, ())) for field in fields))


ALL_RULES = (
    PolicyRule(frozenset("*"), frozenset("*"), frozenset("*")),
    PolicyRule(frozenset("*"), paths=frozenset("*")),
)


@dataclass(frozen=True, slots=True)
class BoundRules:
    """The rules that a binding grants: in a namespace, or in all if the namespace is empty."""

    namespace: str
    rules: Sequence[PolicyRule]


class Authorizer:
    """Decides from the latest state; caches results until a role or a binding changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._revisions: tuple[int, ...] = ()
        self._rules_by_subject: dict[str, list[BoundRules]] = {}  # by subject: "User x" or "Group x"
        # by user and attributes without the object name: the rules that allow it for some name
        self._cache: dict[tuple[UserKey, AuthorizationAttributes], tuple[PolicyRule, ...]] = {}

    def allows(self, user: User, attributes: AuthorizationAttributes) -> bool:
        if MASTERS in user.groups:
            return True
        self._refresh()
        key = ((user.name, user.groups), replace(attributes, name=""))
        rules = self._cache.get(key)
        if rules is None:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            rules = tuple(
                rule
                for rule in self.rules_for(user, attributes.namespace)
                if replace(rule, names=frozenset()).allows(key[1])
            )
            self._cache[key] = rules
        return any(not rule.names or attributes.name in rule.names for rule in rules)

    def rules_for(self, user: User, namespace: str) -> Iterator[PolicyRule]:
        """Yield the rules of a user in a namespace, or the cluster-wide rules if it is empty."""
        if MASTERS in user.groups:
            yield from ALL_RULES
            return
        self._refresh()
        for subject in (f"User {user.name}", *(f"Group {group}" for group in user.groups)):
            for bound in self._rules_by_subject.get(subject, ()):
                if bound.namespace in ("", namespace):
                    yield from bound.rules

    def role_rules(self, reference: Json, namespace: str) -> Sequence[PolicyRule]:
        """Return the rules of a binding's roleRef; none if the role does not exist."""
        if reference["kind"] == "Role":
            entry = self._store.get(Key(ROLES, namespace, reference["name"]))
        else:
            entry = self._store.get(Key(CLUSTER_ROLES, "", reference["name"]))
        return [parse_rule(rule) for rule in entry.decode().get("rules") or ()] if entry else ()

    def _refresh(self) -> None:
        revisions = tuple(self._store.last_revision(resource) for resource in RESOURCES)
        if revisions == self._revisions:
            return
        self._revisions, self._rules_by_subject = revisions, {}
        self._cache.clear()
        for resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            for bindings in self._store.usable(resource, self._bindings, "authorization"):
                for subject, bound in bindings:
                    self._rules_by_subject.setdefault(subject, []).append(bound)

    def _bindings(self, entry: Entry) -> list[tuple[str, BoundRules]]:
        """Return the subjects of a binding, each with the rules of its role."""
        binding, namespace = entry.decode(), entry.key.namespace
        bound = BoundRules(namespace, self.role_rules(binding["roleRef"], namespace))
        return [(subject, bound) for subject in _subjects(binding.get("subjects") or (), namespace)]


def _subjects(subjects: Iterable[Json], namespace: str) -> Iterator[str]:
    for subject in subjects:
        if subject["kind"] == "ServiceAccount":
            yield f"User {SERVICE_ACCOUNT_PREFIX}{subject.get('namespace') or namespace}:{subject['name']}"
        else:
            yield f"{subject['kind']} {subject['name']}"

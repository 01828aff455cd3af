"""Who may do what: roles and bindings, read from the store as they are now.

What a role grants is the union of its rules; there is no rule that forbids.  Members of system:masters may do
everything, whatever is stored, so that nobody can lock the administrator out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quorate.local.server.auth.authentication import ACCOUNT_PREFIX, User
from quorate.local.server.requests.request_info import Asked
from quorate.local.server.storage.store import Key, Store

Json = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
ROLES = f"roles.{GROUP}"
CLUSTER_ROLES = f"clusterroles.{GROUP}"
ROLE_BINDINGS = f"rolebindings.{GROUP}"
CLUSTER_ROLE_BINDINGS = f"clusterrolebindings.{GROUP}"
RESOURCES = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
MASTERS = "system:masters"
MOST_REMEMBERED = 10_000

Identity = tuple[str, tuple[str, ...]]
"""A user's name and groups, which is all that bindings know of users."""


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody wants to do: something to a resource, or to a path that is about none."""

    verb: str
    group: str = ""
    resource: str = ""  # pods, pods/status; empty: a path
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def of(cls, asked: Asked, field_selector: str = "") -> "Action":
        """A request as the rules see it."""
        if not asked.resource:
            return cls(asked.verb, path=asked.path)
        resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        # To the rules of access a namespace is in itself.
        in_itself = asked.resource == "namespaces" and not asked.group
        return cls(
            asked.verb,
            asked.group,
            resource,
            asked.name if in_itself else asked.namespace,
            asked.name or _only_name(field_selector),
        )


def _only_name(field_selector: str) -> str:
    """The one object that a list or a watch is about, if its selector says so."""
    for term in field_selector.split(","):
        field, _, name = term.replace("==", "=").partition("=")
        if field == "metadata.name":
            return name
    return ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role; ``*`` stands for everything."""

    verbs: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """of the objects meant; empty: all of them"""
    paths: frozenset[str] = frozenset()

    def allows(self, action: Action) -> bool:
        if self.verbs.isdisjoint((action.verb, "*")):
            return False
        if not action.resource:
            return any(_covers(path, action.path) for path in self.paths)
        _, _, subresource = action.resource.partition("/")
        spellings = (action.resource, "*", *((f"*/{subresource}",) if subresource else ()))
        return (
            not self.groups.isdisjoint((action.group, "*"))
            and not self.resources.isdisjoint(spellings)
            and (not self.names or action.name in self.names)
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


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def read_rule(rule: Json) -> Rule:
    fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return Rule(*(frozenset(rule.get(field, ())) for field in fields))


EVERYTHING = (
    Rule(frozenset("*"), frozenset("*"), frozenset("*")),
    Rule(frozenset("*"), paths=frozenset("*")),
)


@dataclass(frozen=True, slots=True)
class Grant:
    """The rules of one binding, for one namespace or (empty) for all."""

    namespace: str
    rules: Sequence[Rule]


class Authorizer:
    """Answers from the newest state; what it has worked out is forgotten when a role or a binding changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read_at: tuple[int, ...] = ()
        self._grants: dict[str, list[Grant]] = {}  # by subject: "User x" or "Group x"
        # By user and action without the name: the rules that allow it for some name.
        self._remembered: dict[tuple[Identity, Action], tuple[Rule, ...]] = {}

    def allows(self, user: User, action: Action) -> bool:
        if MASTERS in user.groups:
            return True
        self._refresh()
        question = ((user.name, user.groups), replace(action, name=""))
        rules = self._remembered.get(question)
        if rules is None:
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.clear()
            unnamed = question[1]
            rules = tuple(
                rule
                for rule in self.rules(user, action.namespace)
                if replace(rule, names=frozenset()).allows(unnamed)
            )
            self._remembered[question] = rules
        return any(not rule.names or action.name in rule.names for rule in rules)

    def rules(self, user: User, namespace: str) -> Iterator[Rule]:
        """Everything the user may do in a namespace; cluster-wide, if it is empty."""
        if MASTERS in user.groups:
            yield from EVERYTHING
            return
        self._refresh()
        for subject in (f"User {user.name}", *(f"Group {group}" for group in user.groups)):
            for grant in self._grants.get(subject, ()):
                if grant.namespace in ("", namespace):
                    yield from grant.rules

    def rules_of(self, reference: Json, namespace: str) -> Sequence[Rule]:
        """What a binding's roleRef stands for; nothing if there is no such role."""
        if reference["kind"] == "Role":
            entry = self._store.get(Key(ROLES, namespace, reference["name"]))
        else:
            entry = self._store.get(Key(CLUSTER_ROLES, "", reference["name"]))
        return [read_rule(rule) for rule in entry.decode().get("rules") or ()] if entry else ()

    def _refresh(self) -> None:
        newest = tuple(self._store.newest(resource) for resource in RESOURCES)
        if newest == self._read_at:
            return
        self._read_at, self._grants = newest, {}
        self._remembered.clear()
        for resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            for entry in self._store.entries(resource):
                self._read(entry.decode(), entry.key.namespace)

    def _read(self, binding: Json, namespace: str) -> None:
        grant = Grant(namespace, self.rules_of(binding["roleRef"], namespace))
        for subject in _subjects(binding.get("subjects") or (), namespace):
            self._grants.setdefault(subject, []).append(grant)


def _subjects(subjects: Iterable[Json], namespace: str) -> Iterator[str]:
    for subject in subjects:
        if subject["kind"] == "ServiceAccount":
            yield f"User {ACCOUNT_PREFIX}{subject.get('namespace') or namespace}:{subject['name']}"
        else:
            yield f"{subject['kind']} {subject['name']}"

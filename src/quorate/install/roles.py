"""RBAC roles: of the controllers, and roles that an administrator binds to users.

Names and aggregation labels of the user roles are Kueue's, so that existing bindings keep working.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from quorate.api import explanation, quorate, volcano
from quorate.api.codec import Json
from quorate.api.scheduler_configuration import in_force
from quorate.api.volcano import job as volcano_job
from quorate.install import labels
from quorate.install.controller_rules import (
    ADMIN,
    CONTROLLER_RULES,
    JOBS,
    OWN,
    PENDING_GROUP,
    QUEUEING_KINDS,
    READ,
    USER,
    PolicyRule,
)

ACCOUNT: Final = "quorate-controllers"
NAME_LABEL: Final = labels.NAME_LABEL
IN_FORCE: Final = "quorate-configuration-in-force"  # a ConfigMap that the controllers write
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_EDIT: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_HIDDEN_FROM_USERS: Final = ("rayclusters", "rayservices")  # as in Kueue: they are parts of a user's RayJob


def controller_roles(namespace: str) -> Iterator[Json]:
    """Yield the roles of the controllers, and their bindings to the service account."""
    return account_roles(ACCOUNT, ACCOUNT, CONTROLLER_RULES, namespace)


def account_roles(name: str, account: str, rules: Iterable[PolicyRule], namespace: str) -> Iterator[Json]:
    """Yield roles called ``name`` and their bindings to a service account of ``namespace``."""
    rules = tuple(rules)
    for of_rule, where in (("", ""), (OWN, namespace), (in_force.NAMESPACE, in_force.NAMESPACE)):
        if granted := _rules(rule for rule in rules if rule.namespace == of_rule):
            yield _role(name, granted, where)
            yield role_binding(name, account, namespace, where)


def metrics_reader(name: str = "kueue-metrics-reader") -> Json:
    """Return the role for scraping the metrics."""
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    return _role(name, rules)


def user_roles() -> Iterator[Json]:
    """Yield two aggregated roles to bind users to, and the roles of each kind that they aggregate."""
    for user_role in (ADMIN, USER):
        selector = {"matchLabels": {f"rbac.kueue.x-k8s.io/{user_role}": "true"}}
        aggregated = metadata(f"kueue-{user_role}-role")
        # Without rules: a controller fills them, and owns them for the next server-side apply.
        rule = {"clusterRoleSelectors": [selector]}
        yield manifest(_RBAC, "ClusterRole", aggregated, aggregationRule=rule)
    for kind in QUEUEING_KINDS:
        editor = _editor(kind.group, kind.plural, kind.singular, kind.editors)
        viewer = _viewer(kind.group, kind.plural, kind.singular, kind.viewers, kind.built_in_viewers)
        for role in (editor, viewer):
            yield _with_explanation(role, kind.plural)
    for job in JOBS:
        if job.group == "apps":
            continue  # the built-in roles include them
        viewers = (ADMIN,) if job.plural in _HIDDEN_FROM_USERS else (ADMIN, USER)
        singular = job.kind.lower()
        yield _editor(job.group, job.plural, singular, (ADMIN, USER))
        yield _viewer(job.group, job.plural, singular, viewers, ("view", "edit", "admin"))
    for short, plural, viewers, built_in in (
        ("cq", "clusterqueues", (ADMIN,), ("view", "edit", "admin")),
        ("lq", "localqueues", (ADMIN, USER), ("view", "edit", "admin")),
    ):
        rules = [_rule(PENDING_GROUP, (f"{plural}/pendingworkloads",), READ)]
        labels = _aggregation(viewers, built_in)
        yield _role(f"kueue-pending-workloads-{short}-viewer-role", rules, labels=labels)
    names = [IN_FORCE, in_force.NAME]
    rules = [{**_rule("", ("configmaps",), ("get",)), "resourceNames": names}]
    labels = _aggregation((ADMIN,), ())
    yield _role("quorate-configuration-viewer-role", rules, labels=labels)


def gang_roles() -> Iterator[Json]:
    """Yield roles for Volcano's kinds that are aggregated to the built-in roles, and one for the metrics.

    Only namespace administrators edit pod groups: their status is not a subresource, so an editor of a pod
    group could write that it is admitted.
    """
    jobs, commands = (volcano_job.GROUP, ("jobs",)), (volcano_job.BUS_GROUP, ("commands",))
    viewed = [_rule(*jobs, READ), _rule(volcano.GROUP, ("podgroups", "queues"), READ)]
    viewed.append(_explanation_rule("podgroups"))
    viewed.append(_rule(explanation.GROUP, (explanation.EXPLANATIONS,), ("list",)))
    yield _role("quorate-gang-viewer-role", viewed, labels=_aggregation((), ("view",)))
    edited = [_rule(*jobs, _EDIT), _rule(*commands, _EDIT)]
    yield _role("quorate-gang-job-editor-role", edited, labels=_aggregation((), ("edit",)))
    groups = [_rule(volcano.GROUP, ("podgroups",), _EDIT)]
    yield _role("quorate-gang-editor-role", groups, labels=_aggregation((), ("admin",)))
    yield metrics_reader("quorate-scheduler-metrics-reader")


def _editor(group: str, plural: str, singular: str, user_roles: tuple[str, ...]) -> Json:
    rules = [_rule(group, (plural,), _EDIT), _rule(group, (f"{plural}/status",), ("get",))]
    name = f"{_prefix(group)}-{singular}-editor-role"
    return _role(name, rules, labels=_aggregation(user_roles, ()))


def _viewer(
    group: str, plural: str, singular: str, user_roles: tuple[str, ...], built_in: tuple[str, ...]
) -> Json:
    rules = [_rule(group, (plural,), READ), _rule(group, (f"{plural}/status",), ("get",))]
    labels = _aggregation(user_roles, built_in)
    return _role(f"{_prefix(group)}-{singular}-viewer-role", rules, labels=labels)


def _prefix(group: str) -> str:
    """Return the first part of the names of the roles for a group; Kueue has none for ours."""
    return "quorate" if group == quorate.GROUP else "kueue"


def _with_explanation(role: Json, plural: str) -> Json:
    """Return the role with the right to read explanations, if objects of the kind have some."""
    if plural not in {explained for explained, _, _ in explanation.EXPLAINED}:
        return role
    plurals = (plural, "jobs") if plural == "workloads" else (plural,)  # jobs: those without a Workload
    rules = [*role["rules"], _explanation_rule(*plurals)]
    if plural == "workloads":
        lists = (explanation.ESTIMATES, explanation.EXPLANATIONS)
        rules.append(_rule(explanation.GROUP, lists, ("list",)))
    return {**role, "rules": rules}


def _explanation_rule(*plurals: str) -> Json:
    resources = tuple(f"{plural}/{explanation.SUBRESOURCE}" for plural in plurals)
    return _rule(explanation.GROUP, resources, ("get",))


def _aggregation(user_roles: Iterable[str], built_in: Iterable[str]) -> dict[str, str]:
    labels = {f"rbac.kueue.x-k8s.io/{role}": "true" for role in user_roles}
    return labels | {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in built_in}


def _rules(rules: Iterable[PolicyRule]) -> list[Json]:
    return [
        {
            **_rule(rule.group, rule.resources, rule.verbs),
            **({"resourceNames": list(rule.names)} if rule.names else {}),
        }
        for rule in rules
    ]


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str]) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _role(name: str, rules: list[Json], namespace: str = "", labels: dict[str, str] | None = None) -> Json:
    """Return a role in ``namespace``, or a cluster role if that is empty."""
    kind = "Role" if namespace else "ClusterRole"
    return manifest(_RBAC, kind, metadata(name, namespace, labels), rules=rules)


def role_binding(name: str, account: str, account_namespace: str, namespace: str, role: str = "") -> Json:
    """Return the binding, in ``namespace`` or of the cluster, of ``role``, by default called ``name`` too."""
    kind = "Role" if namespace else "ClusterRole"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role or name}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}]
    named = metadata(name, namespace)
    return manifest(_RBAC, f"{kind}Binding", named, roleRef=reference, subjects=subjects)


def manifest(api_version: str, kind: str, named: Json, **fields: Any) -> Json:
    """Return an object with the metadata ``named`` and ``fields``."""
    return {"apiVersion": api_version, "kind": kind, "metadata": named, **fields}


def metadata(name: str, namespace: str = "", labels: dict[str, str] | None = None) -> Json:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "labels": {**NAME_LABEL, **(labels or {})}}

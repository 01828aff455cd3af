"""The roles: that of the controllers, and those an administrator hands out to people.

Names and aggregation labels of the latter are Kueue's, so that bindings made for it go on working.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from quorate.api import volcano
from quorate.api.kueue import GROUP
from quorate.api.volcano import job as volcano_job
from quorate.cli.deployment.controller_rules import (
    ADMIN,
    JOBS,
    OWN,
    PENDING_GROUP,
    QUEUEING_KINDS,
    READ,
    RIGHTS,
    USER,
    Right,
)

Json = dict[str, Any]

ACCOUNT: Final = "quorate-controllers"
NAME_LABEL: Final = {"app.kubernetes.io/name": "quorate"}
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_EDIT: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_USERS_DO_NOT_SEE: Final = ("rayclusters", "rayservices")  # as in Kueue: they are parts of a user's RayJob


def controller_roles(namespace: str) -> Iterator[Json]:
    """What the controllers may, and its binding to their service account."""
    return account_roles(ACCOUNT, ACCOUNT, RIGHTS, namespace)


def account_roles(name: str, account: str, rights: Iterable[Right], namespace: str) -> Iterator[Json]:
    """Roles called ``name`` with these rights, and their bindings to a service account of ``namespace``."""
    rights = tuple(rights)
    everywhere = _rules(right for right in rights if not right.namespace)
    own = _rules(right for right in rights if right.namespace == OWN)
    yield _role("ClusterRole", name, everywhere)
    yield _binding("ClusterRoleBinding", name, account, namespace, "")
    if own:
        yield _role("Role", name, own, namespace)
        yield _binding("RoleBinding", name, account, namespace, namespace)


def metrics_reader(name: str = "kueue-metrics-reader") -> Json:
    """For whoever scrapes the metrics."""
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    return _role("ClusterRole", name, rules)


def people_roles() -> Iterator[Json]:
    """Two empty roles to bind people to, and one for each kind that fills them."""
    for who in (ADMIN, USER):
        selector = {"matchLabels": {f"rbac.kueue.x-k8s.io/{who}": "true"}}
        role = _role("ClusterRole", f"kueue-{who}-role", [])
        yield {**role, "aggregationRule": {"clusterRoleSelectors": [selector]}}
    for kind in QUEUEING_KINDS:
        yield _editor(GROUP, kind.plural, kind.singular, kind.edited_by)
        yield _viewer(GROUP, kind.plural, kind.singular, kind.seen_by, kind.aggregated_to)
    for job in JOBS:
        if job.group == "apps":
            continue  # the built-in roles have them
        seen_by = (ADMIN,) if job.plural in _USERS_DO_NOT_SEE else (ADMIN, USER)
        yield _editor(job.group, job.plural, job.singular, (ADMIN, USER))
        yield _viewer(job.group, job.plural, job.singular, seen_by, ("view", "edit", "admin"))
    for short, plural, seen_by, aggregated in (
        ("cq", "clusterqueues", (ADMIN,), ("view", "edit", "admin")),
        ("lq", "localqueues", (ADMIN, USER), ()),
    ):
        rules = [_rule(PENDING_GROUP, (f"{plural}/pendingworkloads",), READ)]
        labels = _aggregation(seen_by, aggregated)
        yield _role("ClusterRole", f"kueue-pending-workloads-{short}-viewer-role", rules, labels=labels)


def gang_roles() -> Iterator[Json]:
    """What people may do with Volcano's kinds, added to the built-in roles; and reading the metrics.

    Pod groups are for who administers a namespace: their status is a field like any other, so who may
    change them may say that they are admitted.
    """
    jobs, commands = (volcano_job.GROUP, ("jobs",)), (volcano_job.BUS_GROUP, ("commands",))
    seen = [_rule(*jobs, READ), _rule(volcano.GROUP, ("podgroups", "queues"), READ)]
    yield _role("ClusterRole", "quorate-gang-viewer-role", seen, labels=_aggregation((), ("view",)))
    edited = [_rule(*jobs, _EDIT), _rule(*commands, _EDIT)]
    yield _role("ClusterRole", "quorate-gang-job-editor-role", edited, labels=_aggregation((), ("edit",)))
    groups = [_rule(volcano.GROUP, ("podgroups",), _EDIT)]
    yield _role("ClusterRole", "quorate-gang-editor-role", groups, labels=_aggregation((), ("admin",)))
    yield metrics_reader("quorate-scheduler-metrics-reader")


def _editor(group: str, plural: str, singular: str, for_: tuple[str, ...]) -> Json:
    rules = [_rule(group, (plural,), _EDIT), _rule(group, (f"{plural}/status",), ("get",))]
    return _role("ClusterRole", f"kueue-{singular}-editor-role", rules, labels=_aggregation(for_, ()))


def _viewer(
    group: str, plural: str, singular: str, for_: tuple[str, ...], aggregated_to: tuple[str, ...]
) -> Json:
    rules = [_rule(group, (plural,), READ), _rule(group, (f"{plural}/status",), ("get",))]
    labels = _aggregation(for_, aggregated_to)
    return _role("ClusterRole", f"kueue-{singular}-viewer-role", rules, labels=labels)


def _aggregation(for_: Iterable[str], aggregated_to: Iterable[str]) -> dict[str, str]:
    labels = {f"rbac.kueue.x-k8s.io/{who}": "true" for who in for_}
    return labels | {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in aggregated_to}


def _rules(rights: Iterable[Right]) -> list[Json]:
    return [
        {
            **_rule(right.group, right.resources, right.verbs),
            **({"resourceNames": list(right.names)} if right.names else {}),
        }
        for right in rights
    ]


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str]) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _role(
    kind: str, name: str, rules: list[Json], namespace: str = "", labels: dict[str, str] | None = None
) -> Json:
    return {
        "apiVersion": _RBAC,
        "kind": kind,
        "metadata": metadata(name, namespace, labels or {}),
        "rules": rules,
    }


def _binding(kind: str, name: str, account: str, account_namespace: str, namespace: str) -> Json:
    role = "ClusterRole" if kind == "ClusterRoleBinding" else "Role"
    return {
        "apiVersion": _RBAC,
        "kind": kind,
        "metadata": metadata(name, namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    }


def metadata(name: str, namespace: str = "", labels: dict[str, str] | None = None) -> Json:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "labels": {**NAME_LABEL, **(labels or {})}}

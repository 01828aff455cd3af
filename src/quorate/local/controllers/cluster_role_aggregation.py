"""Aggregated ClusterRoles: their rules are the union of the rules of selected roles."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from quorate.api.meta import Key, LabelSelector, ObjectMeta, Struct, matches_selector
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import Resource
from quorate.local.controllers.controller import Controller, ControllerContext


class PolicyRule(Struct):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(name="nonResourceURLs", default=())


class AggregationRule(Struct):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(Struct):
    metadata: ObjectMeta
    rules: tuple[PolicyRule, ...] | None = None
    aggregation_rule: AggregationRule | None = None


def aggregated_rules(
    role: ClusterRole, rule: AggregationRule, roles: Iterable[ClusterRole]
) -> tuple[PolicyRule, ...]:
    """Return the distinct rules of all other roles that a selector matches, by role name."""
    picked = sorted(
        (
            other
            for other in roles
            if other.metadata.name != role.metadata.name
            and any(matches_selector(s, other.metadata.labels) for s in rule.cluster_role_selectors)
        ),
        key=lambda other: other.metadata.name,
    )
    return tuple(dict.fromkeys(rule for other in picked for rule in other.rules or ()))


CLUSTER_ROLES: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, ClusterRole
)


class ClusterRoleAggregator(Controller):
    """Sets the rules of aggregated roles."""

    def __init__(self, context: ControllerContext, roles: Informer[ClusterRole]) -> None:
        super().__init__("cluster-role", context, roles)
        self._roles = roles
        roles.subscribe(self._on_role)

    def _on_role(self, _: Change[ClusterRole]) -> None:
        """Enqueue all aggregated roles: they are few, and roles change rarely."""
        for role in self._roles:
            if role.aggregation_rule is not None:
                self._reconciler.enqueue(role.metadata.key)

    async def reconcile(self, key: Key) -> None:
        role = self._roles.get(key)
        if role is None or role.aggregation_rule is None:
            return
        rules = aggregated_rules(role, role.aggregation_rule, self._roles)
        if rules == (role.rules or ()):
            return
        body: dict[str, Any] = {"rules": msgspec.to_builtins(rules)}
        with suppress(NotFound):  # deleted meanwhile
            await self._client.patch(CLUSTER_ROLES, key, body)

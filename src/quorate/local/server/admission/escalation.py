"""RBAC escalation check: a user cannot grant permissions beyond its own.

The verbs ``escalate`` on a role and ``bind`` on a role exempt from the check.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import msgspec

from quorate.api.codec import Json
from quorate.local.objects.errors import StatusError
from quorate.local.server.auth.authorization import (
    ALL_RULES,
    GROUP,
    AuthorizationAttributes,
    PolicyRule,
    parse_rule,
)
from quorate.local.server.requests.context import RequestContext

ROLES = ("roles", "clusterroles")
BINDINGS = ("rolebindings", "clusterrolebindings")


def check_escalation(context: RequestContext, new: Json, old: Json | None = None) -> None:
    """Check that the user has every permission of a new role or binding.  Raises StatusError(403)."""
    if context.kind.group != GROUP:
        return
    if context.kind.plural in ROLES and _rules_of(new) != _rules_of(old or {}):
        granted = ALL_RULES if new.get("aggregationRule") else map(parse_rule, new.get("rules") or ())
        _check_rules(
            context, "escalate", context.kind.plural, context.name or new["metadata"]["name"], new, granted
        )
    elif context.kind.plural in BINDINGS and (old is None or new.get("subjects") != old.get("subjects")):
        reference = new["roleRef"]
        plural = "roles" if reference["kind"] == "Role" else "clusterroles"
        rules = context.server.authorizer.role_rules(reference, context.namespace)
        _check_rules(context, "bind", plural, reference["name"], new, rules)


def _rules_of(role: Json) -> tuple[Any, Any]:
    return role.get("rules") or [], role.get("aggregationRule")


def _check_rules(
    context: RequestContext, verb: str, plural: str, name: str, obj: Json, granted: Iterable[PolicyRule]
) -> None:
    authorizer, user = context.server.authorizer, context.user
    if authorizer.allows(user, AuthorizationAttributes(verb, GROUP, plural, context.namespace, name)):
        return
    held = list(authorizer.rules_for(user, context.namespace))
    missing = [rule for rule in granted if not _is_covered(rule, held)]
    if missing:
        raise _escalation_error(context, obj, missing)


def _is_covered(granted: PolicyRule, held: Sequence[PolicyRule]) -> bool:
    """Return True if the held rules cover each single permission of a rule."""
    resources = product(granted.verbs, granted.groups, granted.resources, granted.names or ("",))
    permissions = [
        *(
            AuthorizationAttributes(verb, group, resource, name=name)
            for verb, group, resource, name in resources
        ),
        *(AuthorizationAttributes(verb, path=path) for verb, path in product(granted.verbs, granted.paths)),
    ]
    return all(any(rule.allows(permission) for rule in held) for permission in permissions)


def _escalation_error(context: RequestContext, obj: Json, missing: Sequence[PolicyRule]) -> StatusError:
    listed = "\n".join(msgspec.json.encode(rule.to_json()).decode() for rule in missing)
    groups = " ".join(f'"{group}"' for group in context.user.groups)
    message = (
        f'user "{context.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions'
        f" not currently held:\n{listed}"
    )
    return context.forbidden(obj, message)

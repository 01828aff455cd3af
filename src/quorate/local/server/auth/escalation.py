"""Nobody hands out rights they do not have: what a role may say and who may get it depends on who asks.

Exempt is who may ``escalate`` a role, or ``bind`` it.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import msgspec

from quorate.local.server.auth.authorization import EVERYTHING, GROUP, Action, Rule, read_rule
from quorate.local.server.errors import StatusError, forbidden
from quorate.local.server.requests.context import Call

Json = dict[str, Any]

ROLES = ("roles", "clusterroles")
BINDINGS = ("rolebindings", "clusterrolebindings")


def require_rights(call: Call, new: Json, old: Json | None = None) -> None:
    """Raises StatusError(403) if a role or a binding grants what the user does not have."""
    if call.kind.group != GROUP:
        return
    if call.kind.plural in ROLES and _grants(new) != _grants(old or {}):
        wanted = EVERYTHING if new.get("aggregationRule") else map(read_rule, new.get("rules") or ())
        _require(call, "escalate", call.kind.plural, call.name or new["metadata"]["name"], new, wanted)
    elif call.kind.plural in BINDINGS and (old is None or new.get("subjects") != old.get("subjects")):
        reference = new["roleRef"]
        plural = "roles" if reference["kind"] == "Role" else "clusterroles"
        rules = call.context.authorizer.rules_of(reference, call.namespace)
        _require(call, "bind", plural, reference["name"], new, rules)


def _grants(role: Json) -> tuple[Any, Any]:
    return role.get("rules") or [], role.get("aggregationRule")


def _require(call: Call, verb: str, plural: str, name: str, obj: Json, wanted: Iterable[Rule]) -> None:
    authorizer, user = call.context.authorizer, call.user
    if authorizer.allows(user, Action(verb, GROUP, plural, call.namespace, name)):
        return
    held = list(authorizer.rules(user, call.namespace))
    missing = [rule for rule in wanted if not _covered(rule, held)]
    if missing:
        raise _refusal(call, obj, missing)


def _covered(wanted: Rule, held: Sequence[Rule]) -> bool:
    """Whether each single right of a rule is given by one of the rules held."""
    resources = product(wanted.verbs, wanted.groups, wanted.resources, wanted.names or ("",))
    actions = [
        *(Action(verb, group, resource, name=name) for verb, group, resource, name in resources),
        *(Action(verb, path=path) for verb, path in product(wanted.verbs, wanted.paths)),
    ]
    return all(any(rule.allows(action) for rule in held) for action in actions)


def _refusal(call: Call, obj: Json, missing: Sequence[Rule]) -> StatusError:
    listed = "\n".join(msgspec.json.encode(rule.to_json()).decode() for rule in missing)
    groups = " ".join(f'"{group}"' for group in call.user.groups)
    why = (
        f'user "{call.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently'
        f" held:\n{listed}"
    )
    return forbidden(call.kind.group, call.kind.plural, obj["metadata"].get("name", ""), why)

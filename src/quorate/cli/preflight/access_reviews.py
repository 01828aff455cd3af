"""Asking the API server whether somebody may do all that the controllers do."""

import asyncio
from collections.abc import Iterable, Mapping

from quorate.api import codec
from quorate.api.meta import Struct
from quorate.cli.deployment.controller_rules import OWN, PolicyRule
from quorate.kube.client import Client

_GROUP = "/apis/authorization.k8s.io/v1"


class _Answer(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _Answer = _Answer()


async def denied_requests(
    client: Client, rights: Iterable[PolicyRule], namespace: str, account: str
) -> Mapping[str, tuple[str, ...]]:
    """The rights that are missing, by what they are needed for.

    ``account`` is a service account NAMESPACE/NAME, or empty for whoever asks; ``namespace`` is the
    controllers' own.  Raises ``Forbidden`` for who may not ask about others.
    """
    asked = [(right, verb, resource) for right in rights for verb, resource in right]
    allowed = await asyncio.gather(
        *(_may(client, right, verb, resource, namespace, account) for right, verb, resource in asked)
    )
    missing: dict[str, list[str]] = {}
    for (right, verb, resource), is_allowed in zip(asked, allowed, strict=True):
        if not is_allowed:
            full = f"{verb} {resource}.{right.group}" if right.group else f"{verb} {resource}"
            missing.setdefault(right.needed_for, []).append(full)
    return {needed_for: tuple(rights_) for needed_for, rights_ in missing.items()}


async def _may(
    client: Client, right: PolicyRule, verb: str, resource: str, namespace: str, account: str
) -> bool:
    name, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": right.group, "resource": name, "subresource": subresource}
    if right.names:
        attributes["name"] = right.names[0]
    if right.namespace:
        attributes["namespace"] = namespace if right.namespace == OWN else right.namespace
    spec: dict[str, object] = {"resourceAttributes": attributes}
    kind = "SelfSubjectAccessReview"
    if account:
        home, _, _ = account.partition("/")
        kind = "SubjectAccessReview"
        spec |= {
            "user": f"system:serviceaccount:{account.replace('/', ':')}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"],
        }
    body = codec.encode({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
    answer = await client.request("POST", f"{_GROUP}/{kind.lower()}s", body=body)
    return codec.decode(_Review, answer).status.allowed

"""What somebody tries to do to one object, as webhooks are told of it."""

import copy
from dataclasses import dataclass, replace
from typing import Any

from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests.context import Call

Json = dict[str, Any]

OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One operation on one object, in the version it was asked for in."""

    operation: str  # CREATE, UPDATE or DELETE
    path: Kind  # whose path was asked
    kind: Kind  # of the objects: another one for some subresources, such as Scale
    subresource: str
    namespace: str
    name: str
    new: Json | None
    old: Json | None
    options: Json
    dry_run: bool

    @property
    def about_namespace(self) -> bool:
        return self.path.resource == "namespaces"


def attempt(
    call: Call, operation: str, new: Json | None, old: Json | None, kind: Kind | None, options: Json | None
) -> Attempt:
    """``kind``: of the objects, if not the request's.  ``options``: if the query does not tell."""
    meta = (new or old or {}).get("metadata", {})
    name = meta.get("name") or call.name
    # To webhooks as to the rules of access, a namespace is in itself.
    in_itself = call.kind.resource == "namespaces"
    given = _options(call) if options is None else options
    return Attempt(
        operation,
        call.kind,
        kind or call.kind,
        call.asked.subresource,
        name if in_itself else meta.get("namespace") or call.namespace,
        name,
        new,
        old,
        {"kind": OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"} | given,
        bool(given.get("dryRun")),
    )


def _options(call: Call) -> Json:
    """What the query of a write says about how to do it."""
    named = {name: call.query[name] for name in ("fieldManager", "fieldValidation") if call.query.get(name)}
    return named | ({"dryRun": ["All"]} if call.query.get("dryRun") else {})


async def in_version(given: Attempt, path: Kind) -> Attempt:
    """The same in another version of the kind.  Raises StatusError(500)."""
    new, old = [obj and await convert(obj, given.path, path) for obj in (given.new, given.old)]
    return replace(given, path=path, kind=path, new=new, old=old)


def replaced(given: Attempt, new: Json) -> Attempt:
    """The same attempt with another object."""
    return replace(given, new=new, name=new["metadata"].get("name") or given.name)


async def convert(obj: Json, source: Kind, target: Kind) -> Json:
    """An object of one version of a kind in another one.  Raises StatusError(500)."""
    converted = await source.stored(copy.deepcopy(obj))
    if target.convert is not None:
        (converted,) = await target.convert([converted], False)
    return converted | {"kind": target.kind, "apiVersion": target.api_version}

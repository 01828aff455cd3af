"""What somebody tries to do to one object, as webhooks are told of it."""

import copy
from dataclasses import dataclass, replace
from typing import Any

from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests.context import RequestContext

Json = dict[str, Any]

OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(frozen=True, slots=True)
class AdmissionAttributes:
    """One operation on one object, in the version it was asked for in."""

    operation: str  # CREATE, UPDATE or DELETE
    request_kind: Kind  # whose path was asked
    kind: Kind  # of the objects: another one for some subresources, such as Scale
    subresource: str
    namespace: str
    name: str
    new: Json | None
    old: Json | None
    options: Json
    dry_run: bool

    @property
    def is_namespace(self) -> bool:
        return self.request_kind.resource == "namespaces"


def admission_attributes(
    context: RequestContext,
    operation: str,
    new: Json | None,
    old: Json | None,
    kind: Kind | None,
    options: Json | None,
) -> AdmissionAttributes:
    """``kind``: of the objects, if not the request's.  ``options``: if the query does not tell."""
    meta = (new or old or {}).get("metadata", {})
    name = meta.get("name") or context.name
    # To webhooks as to the rules of access, a namespace is in itself.
    in_itself = context.kind.resource == "namespaces"
    given = _options(context) if options is None else options
    return AdmissionAttributes(
        operation,
        context.kind,
        kind or context.kind,
        context.info.subresource,
        name if in_itself else meta.get("namespace") or context.namespace,
        name,
        new,
        old,
        {"kind": OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"} | given,
        bool(given.get("dryRun")),
    )


def _options(context: RequestContext) -> Json:
    """What the query of a write says about how to do it."""
    named = {
        name: context.query[name] for name in ("fieldManager", "fieldValidation") if context.query.get(name)
    }
    return named | ({"dryRun": ["All"]} if context.query.get("dryRun") else {})


async def convert_attributes(given: AdmissionAttributes, request_kind: Kind) -> AdmissionAttributes:
    """The same in another version of the kind.  Raises StatusError(500)."""
    new, old = [
        obj and await convert_object(obj, given.request_kind, request_kind) for obj in (given.new, given.old)
    ]
    return replace(given, request_kind=request_kind, kind=request_kind, new=new, old=old)


def with_object(given: AdmissionAttributes, new: Json) -> AdmissionAttributes:
    """The same attempt with another object."""
    return replace(given, new=new, name=new["metadata"].get("name") or given.name)


async def convert_object(obj: Json, source: Kind, target: Kind) -> Json:
    """An object of one version of a kind in another one.  Raises StatusError(500)."""
    converted = await source.to_storage(copy.deepcopy(obj))
    if target.convert is not None:
        (converted,) = await target.convert([converted], False)
    return converted | {"kind": target.kind, "apiVersion": target.api_version}

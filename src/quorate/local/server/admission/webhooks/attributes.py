"""Admission attributes: one operation on one object, as webhooks receive it."""

import copy
from dataclasses import dataclass, replace

from quorate.api.codec import Json
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.parameters import boolean

OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(frozen=True, slots=True)
class AdmissionAttributes:
    """One operation on one object, in the requested version."""

    operation: str  # CREATE, UPDATE or DELETE
    request_kind: Kind  # the kind of the requested path
    kind: Kind  # the kind of the objects; another one for some subresources, such as Scale
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
    """Return the attributes of a request.

    ``kind``: of the objects, if not that of the request.  ``options``: if they are not in the query.
    """
    meta = (new or old or {}).get("metadata", {})
    name = meta.get("name") or context.name
    if context.info.verb == "deletecollection":
        name = ""  # the request names no object
    # As for authorization, the namespace of a Namespace is its own name.
    is_namespace = context.kind.resource == "namespaces"
    given_options = _options(context) if options is None else options
    return AdmissionAttributes(
        operation,
        context.kind,
        kind or context.kind,
        context.info.subresource,
        name if is_namespace else meta.get("namespace") or context.namespace,
        name,
        new,
        old,
        {"kind": OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"} | given_options,
        bool(given_options.get("dryRun")),
    )


def _options(context: RequestContext) -> Json:
    """Return the options in the query of a write."""
    named = {
        name: context.query[name] for name in ("fieldManager", "fieldValidation") if context.query.get(name)
    }
    force = {"force": boolean(context.query, "force")} if "force" in context.query else {}
    return named | force | ({"dryRun": ["All"]} if "dryRun" in context.query else {})


async def convert_attributes(attributes: AdmissionAttributes, request_kind: Kind) -> AdmissionAttributes:
    """Return the attributes in another version of the kind.  Raises StatusError(500)."""
    new, old = [
        obj and await convert_object(obj, attributes.request_kind, request_kind)
        for obj in (attributes.new, attributes.old)
    ]
    return replace(attributes, request_kind=request_kind, kind=request_kind, new=new, old=old)


def with_object(attributes: AdmissionAttributes, new: Json) -> AdmissionAttributes:
    """Return the attributes with another object."""
    return replace(attributes, new=new, name=new["metadata"].get("name") or attributes.name)


async def convert_object(obj: Json, source: Kind, target: Kind) -> Json:
    """Convert an object from one version of a kind to another.  Raises StatusError(500)."""
    converted = await source.to_storage(copy.deepcopy(obj))
    if target.convert is not None:
        (converted,) = await target.convert([converted], False)
    return converted | {"kind": target.kind, "apiVersion": target.api_version}

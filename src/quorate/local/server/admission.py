"""What depends on other objects when one is created: its namespace, priority, limits and quota."""

from typing import Any

from quorate.local.server.call import Call
from quorate.local.server.errors import Cause, forbidden, not_found
from quorate.local.server.store import Key

Json = dict[str, Any]


def require_namespace(call: Call, obj: Json) -> None:
    """Raises StatusError: 404 if the namespace does not exist, 403 if it is being deleted."""
    if not call.namespace:
        return
    entry = call.context.store.get(Key("namespaces", "", call.namespace))
    if entry is None:
        raise not_found("", "namespaces", call.namespace)
    if entry.decode().get("status", {}).get("phase") == "Terminating":
        name = obj["metadata"].get("name", "")
        why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        cause = Cause(
            "metadata.namespace", "NamespaceTerminating", f"namespace {call.namespace} is being terminated"
        )
        raise forbidden(call.kind.group, call.kind.plural, name, why, [cause])


def complete(call: Call, obj: Json) -> None:
    """Fill in what other objects say."""


def permit(call: Call, obj: Json) -> None:
    """Raises StatusError(403) if another object forbids this one."""

"""Decoding of built-in kinds, and the JSON that kube-apiserver writes for them."""

from quorate.api.codec import Json
from quorate.local.objects import decoding, schema_types
from quorate.local.objects.errors import bad_request
from quorate.local.objects.protobuf import go_json
from quorate.local.objects.protobuf.table import Message, find_message, message_named
from quorate.local.objects.schema_types import MapOf
from quorate.local.server.registry.kinds import Decoded, Kind


def type_of(kind: Kind) -> MapOf:
    """Return the type of a built-in kind.  Raises KeyError if the table of types does not have it."""
    builtin = schema_types.builtin_type(kind.api_version, kind.kind)
    if builtin is None:
        raise KeyError(kind.api_version, kind.kind)
    return builtin


def decode(kind: Kind, obj: Json) -> Decoded:
    """Decode an object of a built-in kind.  Raises StatusError(400) for a value of the wrong type."""
    type_ = type_of(kind)
    try:
        decoded, unknown = decoding.decode_object(obj, type_)
    except decoding.UndecodableObject as error:
        where = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{where}: {error}") from error
    sparse = go_json.without_empty(message_of(kind), decoded)
    if decoded.get("metadata", {}).get("managedFields") == []:
        sparse["metadata"]["managedFields"] = [{}]  # also removes all owners, and is not empty
    return Decoded(sparse, tuple(f'unknown field "{path}"' for path in unknown))


def message_of(kind: Kind) -> Message:
    """Return the message of a built-in kind, which says what Go writes for empty fields."""
    message = find_message(kind.api_version, kind.kind)
    assert message is not None, f"{kind.kind} of {kind.api_version} has no message"
    return message


def complete(kind: Kind, obj: Json) -> Json:
    """Return an object as kube-apiserver stores it, with all fields that Go writes."""
    return go_json.complete(message_of(kind), obj)


def complete_metadata(metadata: Json) -> Json:
    return go_json.complete(message_named("meta.ObjectMeta"), metadata)


def empty_object(kind: Kind) -> Json:
    """Return the server's form of an empty object; a creator owns all fields beyond it."""
    return {} if kind.custom else go_json.empty_object(message_of(kind))

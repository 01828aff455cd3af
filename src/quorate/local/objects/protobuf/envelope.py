"""Bodies in Kubernetes' protobuf format: four bytes, then an envelope with the kind and its message."""

from typing import Final, NamedTuple

from quorate.api.codec import Json
from quorate.local.objects.protobuf.reader import read_message
from quorate.local.objects.protobuf.table import Malformed, find_message, message_named
from quorate.local.objects.protobuf.writer import Unwritable, write_message

MAGIC: Final = b"k8s\0"
ENVELOPE: Final = "runtime.Unknown"


class Envelope(NamedTuple):
    api_version: str
    kind: str
    message: bytes

    def read(self) -> Json:
        """Return the object, with `apiVersion` and `kind`.  Raises Malformed."""
        message = find_message(self.api_version, self.kind)
        if message is None:
            raise Malformed(f"{self.kind} of {self.api_version} has no protobuf format")
        type_meta = {"apiVersion": self.api_version, "kind": self.kind}
        return type_meta | read_message(message, self.message)


def open_envelope(body: bytes) -> Envelope:
    """Return the content of a body without reading its message.  Raises Malformed."""
    if not body.startswith(MAGIC):
        raise Malformed(
            "provided data does not appear to be a protobuf message,"
            f" expected prefix [{' '.join(str(byte) for byte in MAGIC)}]"
        )
    fields = read_message(message_named(ENVELOPE), body[len(MAGIC) :])
    names = fields["typeMeta"]
    return Envelope(names.get("apiVersion", ""), names.get("kind", ""), fields.get("raw", b""))


def write_body(obj: Json) -> bytes:
    """Return the body of an object with `apiVersion` and `kind`; lists of it may be iterators.

    Raises Unwritable.
    """
    message = find_message(obj["apiVersion"], obj["kind"])
    if message is None:
        raise Unwritable(f"{obj['kind']} of {obj['apiVersion']} has no protobuf format")
    type_meta = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    fields = {"typeMeta": type_meta, "raw": write_message(message, obj)}
    return MAGIC + write_message(message_named(ENVELOPE), fields)


def write_watch_event(event: str, body: bytes) -> bytes:
    """Return one frame of a watch: its size in four bytes, then an event with the body of an object."""
    fields = {"type": event, "object": {"raw": body}}
    message = write_message(message_named("runtime.WatchEvent"), fields)
    return len(message).to_bytes(4, "big") + message

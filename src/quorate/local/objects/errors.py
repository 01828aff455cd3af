"""Errors as Status objects, and the causes that validation reports.

Texts and structure follow kube-apiserver, since clients compare ``reason`` and ``details``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from quorate.api.codec import Json

JSON_PARSE_LIMIT = 3 * 1024 * 1024
"""The largest request body in bytes; a larger one is answered with 413."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One violation of a validation rule by one field."""

    field: str
    reason: str
    message: str

    def to_json(self) -> Json:
        return {"reason": self.reason, "message": self.message, "field": self.field}


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {format_value(value)}: {detail}")


def type_invalid(field: str, value: object, detail: str) -> Cause:
    return Cause(field, "FieldValueTypeInvalid", f"Invalid value: {format_value(value)}: {detail}")


def not_supported(field: str, value: object, supported: Iterable[str]) -> Cause:
    choices = ", ".join(f'"{name}"' for name in supported)
    return Cause(
        field,
        "FieldValueNotSupported",
        f"Unsupported value: {format_value(value)}: supported values: {choices}",
    )


def forbidden_field(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: object) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {format_value(value)}")


def invalid_object(field: str, detail: str) -> Cause:
    """Return the cause for an invalid value that the message leaves out."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {detail}")


def missing_reference(field: str, value: object, detail: str = "") -> Cause:
    message = f"Not found: {format_value(value)}"
    return Cause(field, "FieldValueNotFound", f"{message}: {detail}" if detail else message)


def too_long(field: str, value: object, limit: int) -> Cause:
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> Cause:
    noun = "item" if limit == 1 else "items"
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} {noun}")


def format_value(value: object) -> str:
    """Return a value as messages show it: JSON without spaces."""
    return msgspec.json.encode(value).decode()


class StatusError(Exception):
    """An unsuccessful response; the HTTP layer writes it as a Status."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(code, reason, message, details)
        self.code, self.reason, self.message, self.details = code, reason, message, details
        self.metadata: Json = {}

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def to_json(self) -> Json:
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status | {"code": self.code}


def group_resource(group: str, plural: str) -> str:
    """Return the name of a resource as messages show it: ``pods``, ``jobs.batch``."""
    return f"{plural}.{group}" if group else plural


def status_details(group: str, kind: str, name: str) -> Json:
    """Return the details that identify an object, without empty parts."""
    details: Json = {"name": name} if name else {}
    return details | ({"group": group} if group else {}) | ({"kind": kind} if kind else {})


def not_found(group: str, plural: str, name: str) -> StatusError:
    message = f'{group_resource(group, plural)} "{name}" not found'
    return StatusError(404, "NotFound", message, status_details(group, plural, name))


def already_exists(group: str, plural: str, name: str) -> StatusError:
    message = f'{group_resource(group, plural)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, status_details(group, plural, name))


OPTIMISTIC_LOCK_ERROR = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, plural: str, name: str, detail: str = OPTIMISTIC_LOCK_ERROR) -> StatusError:
    message = f'Operation cannot be fulfilled on {group_resource(group, plural)} "{name}": {detail}'
    return StatusError(409, "Conflict", message, status_details(group, plural, name))


def forbidden(group: str, plural: str, name: str, detail: str, causes: Sequence[Cause] = ()) -> StatusError:
    details = status_details(group, plural, name)
    if causes:
        details["causes"] = [cause.to_json() for cause in causes]
    message = f'{group_resource(group, plural)} "{name}" is forbidden: {detail}'
    return StatusError(403, "Forbidden", message, details)


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """Return the 422 that lists all causes; ``kind`` is the kind, not the resource."""
    findings = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    listed = findings[0] if len(findings) == 1 else f"[{', '.join(findings)}]"
    details = status_details(group, kind, name) | {"causes": [cause.to_json() for cause in causes]}
    return StatusError(
        422, "Invalid", f'{group_resource(group, kind)} "{name}" is invalid: {listed}', details
    )


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def no_such_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def resource_expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_large() -> StatusError:
    message = f"Request entity too large: limit is {JSON_PARSE_LIMIT}"
    return StatusError(413, "RequestEntityTooLarge", message)


def too_many_values(most: int) -> StatusError:
    message = f"Request entity too large: more than {most} values"
    return StatusError(413, "RequestEntityTooLarge", message)


def request_timeout() -> StatusError:
    message = "Timeout: request did not complete within the allotted timeout"
    return StatusError(504, "Timeout", message, {})


def internal_error(message: str) -> StatusError:
    """Return the 500 for a failure of a dependency, such as a webhook."""
    return StatusError(
        500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]}
    )


def insufficient_storage(message: str) -> StatusError:
    return StatusError(507, "InsufficientStorage", message)


def internal(message: str) -> StatusError:
    """Return a 500 without a reason."""
    return StatusError(500, "", message)

"""What to wait for: conditions of an object, written as for ``kubectl wait``."""

from collections.abc import Callable
from typing import Any, Final

Json = dict[str, Any]
Predicate = Callable[[Json | None], object]

CREATED: Final = "create"
DELETED: Final = "delete"


def predicate(written: str | Callable[[Json], object]) -> Predicate:
    """Return a predicate of an object, or of None if it does not exist.

    ``Complete`` is a condition with status True, ``Ready=False`` one with another status,
    ``status.phase=Running`` the value of a field, ``create`` that it exists and ``delete`` that it does not.
    """
    if callable(written):
        return lambda obj: obj is not None and written(obj)
    if written == DELETED:
        return lambda obj: obj is None
    if written == CREATED:
        return lambda obj: obj is not None
    name, _, value = written.partition("=")
    if "." in name:
        return lambda obj: obj is not None and _text(_field(obj, name.split("."))) == value
    wanted = (name, value or "True")
    return lambda obj: (
        obj is not None
        and any((condition.get("type"), condition.get("status")) == wanted for condition in conditions(obj))
    )


def conditions(obj: Json) -> list[Json]:
    """Return the conditions in the status of an object."""
    status = obj.get("status")
    listed = status.get("conditions") if isinstance(status, dict) else None
    return (
        [condition for condition in listed if isinstance(condition, dict)] if isinstance(listed, list) else []
    )


def describe(obj: Json | None) -> str:
    """Return the state of an object as text: its phase and its conditions."""
    if obj is None:
        return "it does not exist"
    status = obj.get("status")
    phase = status.get("phase") if isinstance(status, dict) else None
    parts = [f"phase {phase}"] if phase else []
    for condition in conditions(obj):
        reason = ": ".join(text for text in (condition.get("reason"), condition.get("message")) if text)
        parts.append(f"{condition.get('type')}={condition.get('status')}{f' ({reason})' if reason else ''}")
    return ", ".join(parts) or "it has no conditions"


_SUCCEEDED: Final = ("Complete", "Completed", "Succeeded")
_FAILED: Final = ("Failed", "Aborted", "Terminated")


def ending(obj: Json | None) -> tuple[bool, str] | None:
    """Return whether a job succeeded and with which message; None while it has not ended.

    Read are the conditions of Jobs, of jobs of the training operators and of Workloads, and the phases of
    pods and of Volcano Jobs.
    """
    if obj is None:
        return None
    for condition in conditions(obj):
        if condition.get("status") == "True":
            message = str(condition.get("message") or "")
            if condition.get("type") == "Finished":
                return condition.get("reason") == "Succeeded", message
            if condition.get("type") in (*_SUCCEEDED, *_FAILED):
                return condition["type"] in _SUCCEEDED, message
    for path in ("phase", "jobStatus", "state.phase"):
        phase = _text(_field(obj, ["status", *path.split(".")])).capitalize()
        if phase in (*_SUCCEEDED, *_FAILED):
            return phase in _SUCCEEDED, _text(_field(obj, ["status", "message"]))
    return None


def _field(value: Any, path: list[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)

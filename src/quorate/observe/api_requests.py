"""What metrics tell of a request to the API server."""

from typing import Final

# An object that is gone, a conflict, and a server that is busy are part of an ordinary run.
_ORDINARY_CODES: Final = frozenset({404, 409, 429})


def is_refused_write(verb: str, code: int) -> bool:
    """Return True if the API server refused a write, and would again.

    For example 403 for a missing right, or 422 for an object that a schema or an admission plugin refuses.
    """
    return verb not in ("GET", "WATCH") and 400 <= code < 500 and code not in _ORDINARY_CODES


def resource_of(path: str) -> str:
    """Return the plural of a request path, with its group (except core) and its subresource.

    ``/apis/batch/v1/namespaces/a/jobs/b/status`` is ``jobs.batch/status``.  Paths without a kind, such as the
    paths of discovery, are ``other``.
    """
    match path.removeprefix("/").split("/"):
        case ["api", _, *rest]:
            group = ""
        case ["apis", group, _, *rest]:
            pass
        case _:
            return "other"
    match rest:
        case ["namespaces", _, plural, *tail] if plural not in ("status", "finalize"):
            pass
        case [plural, *tail]:
            pass
        case _:
            return "other"
    subresource = f"/{tail[1]}" if len(tail) > 1 else ""
    return f"{plural}{'.' if group else ''}{group}{subresource}"

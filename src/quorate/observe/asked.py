"""What a request to the API server was about."""


def resource_of(path: str) -> str:
    """The plural of the kind, with its group unless that is the core one, and the subresource if any.

    ``/apis/batch/v1/namespaces/a/jobs/b/status`` is about ``jobs.batch/status``.  Paths that lead to no kind,
    such as those of discovery, are ``other``.
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

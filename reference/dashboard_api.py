"""The reference page of the dashboard's API."""

from collections.abc import Iterator
from typing import Final

from quorate.dashboard.serving.operations import CSRF_HEADER, OPERATIONS, PREFIX, Operation

_HEAD: Final = f"""\
# Dashboard API

The operations of `quorate dashboard`, below `{PREFIX}`. `GET {PREFIX}/openapi.json` has their types, as
OpenAPI 3.1. Those that are marked need the cookie of a session; those that change something also the header
`{CSRF_HEADER}` with the `csrfToken` of that session. See also [Use the dashboard](../tasks/dashboard.md).

| operation | session | effect |
|---|---|---|
"""
_QUERY: Final = """
## Query parameters

| operation | parameters |
|---|---|
"""
_TAIL: Final = """
`pods` and what each pod requests describe a gang: `pods=8&cpu=4&memory=16Gi&nvidia.com/gpu=1`. `limit` is at
most 500 for lists.
"""


def page() -> str:
    rows = "".join(
        f"| `{op.method} {op.path}` | {'yes' if op.needs_session else 'no'} | {op.summary} |\n"
        for op in OPERATIONS
    )
    return f"{_HEAD}{rows}{_QUERY}{''.join(_parameters())}{_TAIL}"


def _parameters() -> Iterator[str]:
    for operation in OPERATIONS:
        if operation.parameters:
            yield f"| `{operation.method} {operation.path}` | {_names(operation)} |\n"


def _names(operation: Operation) -> str:
    return ", ".join(f"`{parameter.name}`" for parameter in operation.parameters)

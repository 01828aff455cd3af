"""What ``quorate vcjob`` and ``quorate vcqueue`` share: names as in vcctl, and Commands to objects."""

from typing import Any

from quorate.api.meta import Key
from quorate.cli.verbs.printing import as_untyped
from quorate.cli.verbs.writing import Results
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.kube.resources import COMMANDS, Resource, metadata_of


def one_name(argument: str, option: str, flag: str) -> str:
    """Return the name, given as an argument or, as in vcctl, as an option."""
    if bool(argument) == bool(option):
        problem = "exclude each other" if argument else "are missing: one of them is needed"
        raise UsageError(f"NAME and {flag} NAME {problem}")
    return argument or option


async def send_command(
    connection: Connection,
    resource: Resource[Any],
    key: Key,
    namespace: str,
    action: str,
    done: str,
    results: Results,
) -> None:
    """Create the Command ``action`` to an object, which is deleted with it; report the object as ``done``."""
    stored = await connection.client.get(as_untyped(resource), key)
    metadata = metadata_of(stored)
    target = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
    }
    body = {
        "metadata": {"generateName": f"{metadata.name[:200]}-{action.lower()}-", "ownerReferences": [target]},
        "action": action,
        "target": target,
    }
    await connection.client.create(as_untyped(COMMANDS), body, namespace)
    results.add(resource, stored, done)

"""Patch, create and delete objects, and print what was done, or what a dry run would do."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import typer

from quorate.api.meta import Key
from quorate.cli.verbs.options import DryRun, Output
from quorate.cli.verbs.printing import as_untyped, is_structured, print_documents, qualified_name
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.kube.patches import merged
from quorate.kube.resources import COMMANDS, Json, Resource, metadata_of


class Results:
    """What a command wrote: a line for each object at once, or all objects as one document at the end.

    A context manager, so that the document is complete if a later write fails.
    """

    def __init__(self, output: Output, dry_run: DryRun = DryRun.NONE) -> None:
        self.dry_run = dry_run
        self._output = output
        self._objects: dict[tuple[str, Key], tuple[Resource[Any], Json]] = {}  # the last of each object

    def add(self, resource: Resource[Any], document: Json, done: str) -> None:
        """Report that the object is ``done``; ``document`` has its name at least."""
        if is_structured(self._output):
            key = Key(document["metadata"].get("namespace", ""), document["metadata"]["name"])
            self._objects[qualified_name(resource, ""), key] = resource, document
        else:
            suffix = "" if self.dry_run is DryRun.NONE else f" ({self.dry_run} dry run)"
            typer.echo(f"{qualified_name(resource, document['metadata']['name'])} {done}{suffix}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._objects or (error is None and is_structured(self._output)):
            print_documents([*self._objects.values()], self._output, is_list=False)


def identity(key: Key, uid: str = "") -> Json:
    """Return the names of an object as a document, which says what was deleted."""
    fields = {"name": key.name, "namespace": key.namespace, "uid": uid}
    return {"metadata": {field: value for field, value in fields.items() if value}}


async def patch_spec(
    connection: Connection,
    resource: Resource[Any],
    key: Key,
    spec: Mapping[str, Any],
    done: str,
    results: Results,
) -> None:
    """Patch the fields of ``spec``; report that the object is ``done``."""
    patch = {"spec": spec}
    if results.dry_run is DryRun.CLIENT:
        document = merged(await connection.client.get(as_untyped(resource), key), patch)
    else:
        document = await connection.client.patch(
            as_untyped(resource), key, patch, dry_run=results.dry_run is DryRun.SERVER
        )
    results.add(resource, document, done)


async def delete_object(
    connection: Connection, resource: Resource[Any], key: Key, results: Results, uid: str = ""
) -> None:
    """Delete an object, in the background also its dependents; report the deletion. Raises ``NotFound``."""
    if results.dry_run is not DryRun.CLIENT:
        await connection.client.delete(
            resource, key, uid=uid, propagation="Background", dry_run=results.dry_run is DryRun.SERVER
        )
    results.add(resource, identity(key, uid), "deleted")


async def create_object(
    connection: Connection, resource: Resource[Any], name: str, spec: Mapping[str, Any], results: Results
) -> None:
    """Create an object with ``spec``, and report it."""
    metadata = {"name": name} | ({"namespace": connection.namespace} if resource.namespaced else {})
    await create_document(connection, resource, {"metadata": metadata, "spec": spec}, results)


async def create_document(
    connection: Connection, resource: Resource[Any], document: Json, results: Results
) -> None:
    """Create ``document``, which has its name and namespace, and report it."""
    if results.dry_run is not DryRun.CLIENT:
        document = await connection.client.create(
            as_untyped(resource), document, dry_run=results.dry_run is DryRun.SERVER
        )
    results.add(resource, document, "created")


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

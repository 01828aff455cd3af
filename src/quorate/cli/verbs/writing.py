"""Patch or create one object, or show the result of a dry run."""

from collections.abc import Mapping
from typing import Any

import typer

from quorate.api.meta import Key
from quorate.cli.verbs.options import DryRun, Output
from quorate.cli.verbs.printing import as_untyped, is_structured, print_document, qualified_name
from quorate.inspect.connection import Connection
from quorate.kube.patches import merged
from quorate.kube.resources import Json, Resource


async def patch_spec(
    connection: Connection,
    resource: Resource[Any],
    key: Key,
    spec: Mapping[str, Any],
    done: str,
    dry_run: DryRun,
    output: Output,
) -> None:
    """Patch the fields of ``spec``; print that the object is ``done``, or the object."""
    patch = {"spec": spec}
    if dry_run is DryRun.CLIENT:
        document = merged(await connection.client.get(as_untyped(resource), key), patch)
    else:
        document = await connection.client.patch(
            as_untyped(resource), key, patch, dry_run=dry_run is DryRun.SERVER
        )
    _print_result(resource, document, done, dry_run, output)


async def create_object(
    connection: Connection,
    resource: Resource[Any],
    name: str,
    spec: Mapping[str, Any],
    dry_run: DryRun,
    output: Output,
) -> None:
    """Create an object with ``spec``; print its name, or the object."""
    metadata = {"name": name} | ({"namespace": connection.namespace} if resource.namespaced else {})
    await create_document(connection, resource, {"metadata": metadata, "spec": spec}, dry_run, output)


async def create_document(
    connection: Connection, resource: Resource[Any], document: Json, dry_run: DryRun, output: Output
) -> None:
    """Create ``document``, which has its name and namespace; print its name, or the object."""
    if dry_run is not DryRun.CLIENT:
        document = await connection.client.create(
            as_untyped(resource), document, dry_run=dry_run is DryRun.SERVER
        )
    _print_result(resource, document, "created", dry_run, output)


def _print_result(
    resource: Resource[Any], document: Json, done: str, dry_run: DryRun, output: Output
) -> None:
    if is_structured(output) and output is not Output.NAME:
        print_document(resource, document, output)
        return
    dry_run_suffix = "" if dry_run is DryRun.NONE else f" ({dry_run} dry run)"
    suffix = "" if output is Output.NAME else f" {done}{dry_run_suffix}"
    typer.echo(f"{qualified_name(resource, document['metadata']['name'])}{suffix}")

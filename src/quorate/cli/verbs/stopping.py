"""Stopping and resuming: one small patch of a spec, or what it would make of the object."""

from collections.abc import Mapping
from typing import Any

import typer

from quorate.api.meta import Key
from quorate.cli.verbs.options import Connection, DryRun, Output
from quorate.cli.verbs.tables import name_of, print_document, wants_documents, whole
from quorate.kube.patches import merged
from quorate.kube.resources import Resource


async def patch_spec(
    connection: Connection,
    resource: Resource[Any],
    key: Key,
    spec: Mapping[str, Any],
    done: str,
    dry_run: DryRun,
    output: Output,
) -> None:
    """Write the fields of ``spec`` and say that the object is ``done``, or show it as it is then."""
    patch = {"spec": spec}
    if dry_run is DryRun.CLIENT:
        document = merged(await connection.client.get(whole(resource), key), patch)
    else:
        document = await connection.client.patch(
            whole(resource), key, patch, dry_run=dry_run is DryRun.SERVER
        )
    if output is Output.NAME or not wants_documents(output):
        rehearsed = "" if dry_run is DryRun.NONE else f" ({dry_run} dry run)"
        said = "" if output is Output.NAME else f" {done}{rehearsed}"
        typer.echo(f"{name_of(resource, key.name)}{said}")
        return
    print_document(resource, document, output)

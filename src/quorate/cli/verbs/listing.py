"""Read the objects that a list command shows, such as ``quorate queue list``, or print them whole."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer

from quorate.api import codec
from quorate.api.explanation import ExplanationSummary
from quorate.api.meta import Key
from quorate.cli.verbs.options import Output, print_none_found
from quorate.cli.verbs.printing import as_untyped, is_structured, print_documents
from quorate.inspect.connection import Connection
from quorate.inspect.explain.summaries import Summaries, summaries
from quorate.kube.errors import NotFound
from quorate.kube.resources import HasMetadata, Json, Resource, metadata_of

T = TypeVar("T", bound=HasMetadata)
K = TypeVar("K", bound=HasMetadata | Json)


async def list_objects(
    connection: Connection,
    resource: Resource[T],
    output: Output,
    label_selector: str = "",
    field_selector: str = "",
    is_listed: Callable[[T], bool] | None = None,
    completed: Callable[[Json], Json] | None = None,
    others: Sequence[T] = (),
    other_documents: Sequence[tuple[Resource[Any], Json]] = (),
    may_be_unserved: bool = False,
) -> Sequence[T]:
    """Return the objects to show as a table, and ``others`` after them.

    If ``output`` is structured, print whole documents, each as ``completed`` returns it, and
    ``other_documents`` after them, and return no objects.  If no object is to be listed, print that, and
    return none.  ``may_be_unserved``: a cluster without the kind has no objects of it.

    Raises ``UsageError`` if the namespace does not exist.
    """
    namespace = connection.namespace if resource.namespaced else ""

    async def listed(kind: Resource[K]) -> Sequence[K]:
        try:
            return (await connection.client.list(kind, namespace, label_selector, field_selector)).items
        except NotFound:
            if may_be_unserved:
                return ()
            raise

    if is_structured(output):
        documents = await listed(as_untyped(resource))
        if namespace and not documents:
            await connection.require_namespace()
        if is_listed is not None:
            objects = await listed(resource)
            keys = {metadata.key for metadata in map(metadata_of, filter(is_listed, objects))}
            documents = tuple(document for document in documents if metadata_of(document).key in keys)
        if completed is not None and output is not Output.NAME:
            documents = tuple(map(completed, documents))
        print_documents([*((resource, document) for document in documents), *other_documents], output)
        return ()
    objects = await listed(resource)
    shown = (*(objects if is_listed is None else filter(is_listed, objects)), *others)
    if not shown:
        if namespace:
            await connection.require_namespace()
        print_none_found(namespace)
    return shown


async def print_whole(
    connection: Connection, targets: Sequence[tuple[Resource[Any], Key]], output: Output
) -> None:
    """Print objects as the server has them: one as it is, several as one List, or their names."""
    get = connection.client.get
    documents = [(resource, await get(as_untyped(resource), key)) for resource, key in targets]
    print_documents(documents, output, is_list=False)


async def listed_summaries(connection: Connection, kind: str) -> Summaries:
    """Return the summaries of what a list shows; print a warning if the controllers did not answer."""
    listed = await summaries(connection.client, kind, connection.namespace)
    if listed.problem:
        typer.echo(f"warning: {listed.problem}", err=True)
    return listed


def with_explanation(type_: type[T], summary_of: Callable[[T], ExplanationSummary]) -> Callable[[Json], Json]:
    """Return a function that adds to an object its state and the reason for it, as ``explanation``."""

    def completed(document: Json) -> Json:
        summary: Json = codec.to_builtins(summary_of(codec.convert(type_, document)))
        del summary["metadata"]
        return {**document, "explanation": summary}

    return completed

"""Read the objects that a list command shows, such as ``quorate queue list``, or print them whole."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from quorate.cli.verbs.options import Output, print_none_found
from quorate.cli.verbs.printing import as_untyped, is_structured, print_documents
from quorate.inspect.connection import Connection
from quorate.kube.resources import HasMetadata, Resource, metadata_of

T = TypeVar("T", bound=HasMetadata)


async def list_objects(
    connection: Connection,
    resource: Resource[T],
    output: Output,
    label_selector: str = "",
    field_selector: str = "",
    is_listed: Callable[[T], bool] | None = None,
) -> Sequence[T]:
    """Return the objects to show as a table.

    If ``output`` is structured, print whole documents and return no objects.  If no object is to be listed,
    print that, and return none.
    """
    namespace = connection.namespace if resource.namespaced else ""
    selection = (namespace, label_selector, field_selector)
    if is_structured(output):
        documents = (await connection.client.list(as_untyped(resource), *selection)).items
        if is_listed is not None:
            objects = (await connection.client.list(resource, *selection)).items
            keys = {metadata.key for metadata in map(metadata_of, filter(is_listed, objects))}
            documents = tuple(document for document in documents if metadata_of(document).key in keys)
        print_documents(resource, documents, output)
        return ()
    objects = (await connection.client.list(resource, *selection)).items
    listed = tuple(objects if is_listed is None else filter(is_listed, objects))
    if not listed:
        print_none_found(namespace)
    return listed

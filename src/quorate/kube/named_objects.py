"""Single objects that are followed by name, without the right to list their kind."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from quorate.api.meta import Key
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, NotFound, ServerError, Unreachable, Unreadable
from quorate.kube.log import logger
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import Resource, T
from quorate.kube.rest.decoding import WatchEvent

if TYPE_CHECKING:
    from quorate.kube.client import Client

RETRY_S: Final = 1.0  # after a refused or failed request, or the end of a watch


async def follow(
    client: "Client", resource: Resource[T], key: Key, clock: Clock
) -> AsyncGenerator[T | ApiError | Unreadable | None, None]:
    """Yield the object now and after each change, with requests for this name only (get and watch).

    None: it does not exist, or its kind is not served.  An error: it cannot be read.  A server that does not
    answer, or fails, is asked again: nothing is known about the object then.
    """
    log = logger(__name__).bind(resource=resource.plural, key=key)
    selector = f"metadata.name={key.name}"
    while True:
        try:
            yield await client.find(resource, key)
            async for event in client.watch(resource, "", key.namespace, field_selector=selector):
                match event:
                    case WatchEvent(type_, obj):
                        yield None if type_ == "DELETED" else obj
                    case ObjectFault(problem=problem, deleted=deleted):
                        yield (
                            None if deleted else Unreadable(f"WATCH {resource.path(key.namespace)}", problem)
                        )
        except (ServerError, Unreachable) as error:
            log.warning("object not read", problem=str(error))
        except NotFound:
            yield None  # the kind is not served
        except (ApiError, Unreadable) as error:
            yield error
        await clock.steady.sleep_until(clock.steady.now() + RETRY_S)

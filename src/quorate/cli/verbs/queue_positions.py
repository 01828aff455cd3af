"""The place of pending workloads in their local queues, from the visibility API where it is served."""

from collections.abc import Iterable
from typing import Final

import typer

from quorate.api import codec
from quorate.api.kueue.visibility import GROUP, VERSION, PendingWorkloadsSummary
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.errors import ApiError, NotFound

_MOST: Final = "100000"


async def positions(client: Client, local_queues: Iterable[Key]) -> dict[Key, int]:
    """From 0 in each local queue.

    A cluster need not serve this API, and not everybody may ask it: a list without places beats none.
    """
    found: dict[Key, int] = {}
    for queue in sorted(set(local_queues)):
        path = (
            f"/apis/{GROUP}/{VERSION}/namespaces/{queue.namespace}/localqueues/{queue.name}/pendingworkloads"
        )
        try:
            answer = await client.request("GET", path, query={"limit": _MOST})
        except NotFound:
            continue
        except ApiError as error:
            typer.echo(f"warning: no positions in queues: {error}", err=True)
            break
        for pending in codec.decode(PendingWorkloadsSummary, answer).items:
            found[pending.metadata.key] = pending.position_in_local_queue
    return found

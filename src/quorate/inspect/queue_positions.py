"""The positions of pending workloads in their local queues, by the visibility API."""

from collections.abc import Iterable
from typing import Final

from quorate.api import codec
from quorate.api.kueue.visibility import GROUP, VERSION, PendingWorkloadsSummary
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.errors import ApiError, NotFound

_MAX_ITEMS: Final = "100000"


async def queue_positions(client: Client, local_queues: Iterable[Key]) -> tuple[dict[Key, int], str]:
    """Return the position of each pending workload in its local queue, from 0, by the visibility API.

    Also return why the API server refused the positions, and an empty string if it does not serve them.
    """
    positions: dict[Key, int] = {}
    for queue in sorted(set(local_queues)):
        path = (
            f"/apis/{GROUP}/{VERSION}/namespaces/{queue.namespace}/localqueues/{queue.name}/pendingworkloads"
        )
        try:
            answer = await client.request("GET", path, query={"limit": _MAX_ITEMS})
        except NotFound:
            continue
        except ApiError as error:
            return positions, str(error)
        for pending in codec.decode(PendingWorkloadsSummary, answer).items:
            positions[pending.metadata.key] = pending.position_in_local_queue
    return positions, ""

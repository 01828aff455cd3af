"""The objects that lists and explanations read, as far as they may be read: pod groups of both APIs, pods."""

from collections.abc import Sequence
from typing import Final, TypeVar

from quorate.api.core.started_pod import StartedPod
from quorate.api.meta import Key
from quorate.api.native_groups import VERSIONS
from quorate.api.volcano import PodGroup
from quorate.kube.client import Client
from quorate.kube.discovery import served_version
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import NATIVE_POD_GROUPS, HasMetadata, Json, Resource

T = TypeVar("T", bound=HasMetadata | Json)

STARTED_PODS: Final = Resource("", "v1", "pods", "Pod", True, StartedPod)  # as explanations read them


async def readable_objects(client: Client, kind: Resource[T], namespace: str = "") -> Sequence[T] | None:
    """Return the objects; None if the cluster does not serve the kind, or they may not be listed."""
    try:
        return (await client.list(kind, namespace)).items
    except (NotFound, Forbidden):
        return None


async def native_pod_group(client: Client, key: Key) -> PodGroup | None:
    """Return one of Kubernetes' own pod groups as ``native_pod_groups`` do; ``key`` is without API group.

    None if it does not exist, or may not be read.
    """
    try:
        groups = await served_version(client, NATIVE_POD_GROUPS, VERSIONS)
        group = None if groups is None else await client.get(groups, key)
    except (NotFound, Forbidden):
        return None
    if group is None:
        return None
    from quorate.gang.cache.native_groups import as_volcano_group  # with numpy, as below

    return as_volcano_group(group)


async def native_pod_groups(
    client: Client, namespace: str, label_selector: str = ""
) -> list[PodGroup] | None:
    """Return Kubernetes' own pod groups as groups of Volcano, with their API group before the name.

    None if the cluster does not serve them, or if they may not be listed.
    """
    _, listed = await stored_native_groups(client, NATIVE_POD_GROUPS, namespace, label_selector)
    if not listed:
        return listed if listed is None else []
    from quorate.gang.cache.native_groups import as_volcano_group  # with numpy, which most lists do not need

    return [as_volcano_group(group) for group in listed]


async def stored_native_groups(
    client: Client, kind: Resource[T], namespace: str, label_selector: str
) -> tuple[Resource[T], Sequence[T] | None]:
    """Return ``kind``, native pod groups in some form, in the version that is served, and its objects.

    The objects are None if the cluster does not serve them, or if they may not be listed.
    """
    try:
        served = await served_version(client, kind, VERSIONS)
        if served is not None:
            return served, (await client.list(served, namespace, label_selector)).items
    except (NotFound, Forbidden):
        pass
    return kind, None

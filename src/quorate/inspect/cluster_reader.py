"""Reads of pods and pod groups of both APIs, as far as they may be read, for lists and explanations."""

import asyncio
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from quorate.api.core.started_pod import FailedCreation, StartedPod
from quorate.api.meta import Key, Uid
from quorate.api.native_groups import PREFIX, VERSIONS
from quorate.api.volcano import PodGroup
from quorate.gang.explanation import GroupFacts, may_wait
from quorate.kube.client import Client
from quorate.kube.discovery import served_version
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import EVENTS, NATIVE_POD_GROUPS, POD_GROUPS, HasMetadata, Json, Resource

_FAILED_CREATE: Final = "reason=FailedCreate"  # of the job controllers of Kubernetes and of Volcano Jobs

T = TypeVar("T", bound=HasMetadata | Json)

STARTED_PODS: Final = Resource("", "v1", "pods", "Pod", True, StartedPod)  # as explanations read them


class ClusterReader:
    """Implements ``observe.explanations.ClusterReader``."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._evaluating = asyncio.Lock()  # a model of the cluster is large

    async def pods(self, namespace: str, label_selector: str) -> Sequence[StartedPod] | None:
        try:
            return (await self._client.list(STARTED_PODS, namespace, label_selector)).items
        except Forbidden:
            return None

    async def pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        return await readable_objects(self._client, POD_GROUPS, namespace) or ()

    async def native_pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        return await native_pod_groups(self._client, namespace) or ()

    async def failed_creations(self, namespace: str) -> Mapping[Uid, FailedCreation]:
        """Return the last failure of each job to create a pod, by job; none if events may not be listed."""
        try:
            events = (await self._client.list(EVENTS, namespace, field_selector=_FAILED_CREATE)).items
        except Forbidden:
            return {}
        return {
            event.regarding.uid: FailedCreation(message=event.note, at=event.last_at)
            for event in sorted(events, key=attrgetter("last_at"))
            if event.regarding is not None
        }

    async def pod_group(self, key: Key) -> PodGroup | None:
        """Return the pod group ``key``, of Kubernetes if the name begins with its API group.

        None if it does not exist, or may not be read.
        """
        if key.name.startswith(PREFIX):
            return await native_pod_group(self._client, Key(key.namespace, key.name.removeprefix(PREFIX)))
        try:
            return await self._client.get(POD_GROUPS, key)
        except (NotFound, Forbidden):
            return None

    async def group_facts(self, group: PodGroup) -> GroupFacts | None:
        """Return what a session of the scheduler would decide about ``group`` now, if it may wait.

        None if the cluster may not be read.
        """
        if not may_wait(group):
            return None
        from quorate.inspect.gang_model import facts_of_group  # with numpy

        async with self._evaluating:
            return await facts_of_group(self._client, group)


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

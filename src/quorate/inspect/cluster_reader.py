"""Reads of pods and pod groups for explanations, which no model keeps."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from quorate.api.core.started_pod import FailedCreation, StartedPod
from quorate.api.meta import Key, Uid
from quorate.api.native_groups import PREFIX
from quorate.api.volcano import PodGroup
from quorate.gang.explanation import GroupFacts, may_wait
from quorate.inspect.listed_groups import STARTED_PODS, native_pod_group, native_pod_groups, readable_objects
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import EVENTS, POD_GROUPS

_FAILED_CREATE: Final = "reason=FailedCreate"  # of the job controllers of Kubernetes and of Volcano Jobs


class ClusterReader:
    """Implements ``observe.explanation_lists.ClusterReader``."""

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

    async def facts_of_groups(self, groups: Iterable[PodGroup]) -> tuple[dict[Key, GroupFacts], str]:
        """Return what a session would decide now about each group that may wait.

        Also return which of them have no facts, as text; empty if all have.
        """
        waiting = [group for group in groups if may_wait(group)]
        if not waiting:
            return {}, ""
        from quorate.inspect.gang_model import facts_of_groups

        async with self._evaluating:
            facts = await facts_of_groups(self._client, waiting)
        left = len(waiting) - len(facts)
        return facts, f", but for {left} of {len(waiting)} pod groups by their status alone" if left else ""

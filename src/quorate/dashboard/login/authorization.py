"""What a user may see, by SubjectAccessReviews; the API server decides, and its answers are kept for seconds.

Objects of all namespaces need the permission to list them everywhere; otherwise each namespace that has
objects is reviewed.  The reviews of one user are sent together, and once for all of its requests.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from quorate.api import kueue, volcano
from quorate.api.meta import Key
from quorate.dashboard.queries import Viewer
from quorate.kube.resources import Resource
from quorate.kube.serving.delegated_auth import DelegatedAuth, ResourceAccess, User
from quorate.queueing.explanation.scope import Scope


class Authorization:
    def __init__(self, auth: DelegatedAuth, namespaces: Callable[[], Iterable[str]]) -> None:
        """``namespaces`` returns those with objects to show."""
        self._auth = auth
        self._namespaces = namespaces
        self._in_flight: dict[User, asyncio.Task[Viewer]] = {}

    async def viewer(self, user: User) -> Viewer:
        """Return what ``user`` may see.  Raises ``ApiError`` or ``Unreachable``."""
        task = self._in_flight.get(user)
        if task is None:
            task = asyncio.create_task(self._reviewed(user))
            self._in_flight[user] = task
            task.add_done_callback(lambda done: self._reviewed_once(user, done))
        return await asyncio.shield(task)

    def _reviewed_once(self, user: User, done: asyncio.Task[Viewer]) -> None:
        del self._in_flight[user]
        if not done.cancelled():
            done.exception()  # retrieved although all requests may have been cancelled

    async def may_patch(self, user: User, resource: Resource[Any], key: Key) -> bool:
        access = ResourceAccess("patch", resource.group, resource.plural, "", key.namespace, key.name)
        return await self._auth.is_allowed(user, access)

    async def may_create(self, user: User, resource: Resource[Any], namespace: str) -> bool:
        """Return whether ``user`` may create objects in a namespace; in all if it is empty."""
        return await self._auth.is_allowed(
            user, ResourceAccess("create", resource.group, resource.plural, "", namespace)
        )

    async def _reviewed(self, user: User) -> Viewer:
        workloads, groups, cluster_queues, nodes = await asyncio.gather(
            self._readable(user, kueue.GROUP, "workloads"),
            self._readable(user, volcano.GROUP, "podgroups"),
            self._may_list(user, kueue.GROUP, "clusterqueues"),
            self._may_list(user, "", "nodes"),
        )
        return Viewer(Scope(workloads, cluster_queues), nodes, groups)

    async def _readable(self, user: User, group: str, resource: str) -> frozenset[str] | None:
        """Return the namespaces in which ``user`` may list objects of a kind; None: in all."""
        if await self._may_list(user, group, resource):
            return None
        namespaces = sorted(set(self._namespaces()))
        answers = await asyncio.gather(
            *(self._may_list(user, group, resource, namespace) for namespace in namespaces)
        )
        return frozenset(namespace for namespace, may in zip(namespaces, answers, strict=True) if may)

    async def _may_list(self, user: User, group: str, resource: str, namespace: str = "") -> bool:
        return await self._auth.is_allowed(user, ResourceAccess("list", group, resource, "", namespace))

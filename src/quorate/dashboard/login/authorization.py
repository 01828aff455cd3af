"""What a user may see, by SubjectAccessReviews; the API server decides, and its answers are kept for seconds.

Objects of all namespaces need the permission to list them everywhere; otherwise each namespace that has
objects is reviewed.  The reviews of one user are sent together, and once for all of its requests.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from quorate.api import kueue, native_groups, volcano
from quorate.api.meta import Key
from quorate.dashboard.queries import Viewer
from quorate.kube.cancellation import retrieve_exception
from quorate.kube.resources import Resource
from quorate.kube.serving.delegated_auth import DelegatedAuth, ResourceAccess, User
from quorate.queueing.explanation.scope import Scope


class Authorization:
    def __init__(self, auth: DelegatedAuth, namespaces: Callable[[], Iterable[str]]) -> None:
        """``namespaces`` returns the namespaces that have objects to show."""
        self._auth = auth
        self._namespaces = namespaces
        self._in_flight: dict[User, asyncio.Task[Viewer]] = {}

    async def viewer(self, user: User) -> Viewer:
        """Return what ``user`` may see.  Raises ``RequestFailed``."""
        task = self._in_flight.get(user)
        if task is None:
            task = asyncio.create_task(self._reviewed(user))
            self._in_flight[user] = task
            task.add_done_callback(lambda _: self._in_flight.pop(user))
            task.add_done_callback(retrieve_exception)  # all requests may have been cancelled
        return await asyncio.shield(task)

    async def may_patch(self, user: User, resource: Resource[Any], key: Key) -> bool:
        access = ResourceAccess("patch", resource.group, resource.plural, "", key.namespace, key.name)
        return await self._auth.is_allowed(user, access)

    async def creatable(
        self, user: User, resource: Resource[Any], namespaces: Iterable[str]
    ) -> frozenset[str] | None:
        """Return the ``namespaces`` in which ``user`` may create objects of a kind; None: all namespaces."""
        return await self._allowed(user, "create", resource.group, resource.plural, lambda: namespaces)

    async def _reviewed(self, user: User) -> Viewer:
        workloads, groups, native, cluster_queues, nodes = await asyncio.gather(
            self._allowed(user, "list", kueue.GROUP, "workloads", self._namespaces),
            self._allowed(user, "list", volcano.GROUP, "podgroups", self._namespaces),
            self._allowed(user, "list", native_groups.GROUP, "podgroups", self._namespaces),
            self._may(user, "list", kueue.GROUP, "clusterqueues"),
            self._may(user, "list", "", "nodes"),
        )
        return Viewer(Scope(workloads, cluster_queues), nodes, groups, native)

    async def _allowed(
        self, user: User, verb: str, group: str, resource: str, namespaces: Callable[[], Iterable[str]]
    ) -> frozenset[str] | None:
        """Return the ``namespaces`` in which ``user`` may do ``verb`` with a kind; None: all namespaces."""
        if await self._may(user, verb, group, resource):
            return None
        reviewed = sorted(set(namespaces()))
        answers = await asyncio.gather(
            *(self._may(user, verb, group, resource, namespace) for namespace in reviewed)
        )
        return frozenset(namespace for namespace, may in zip(reviewed, answers, strict=True) if may)

    async def _may(self, user: User, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        return await self._auth.is_allowed(user, ResourceAccess(verb, group, resource, "", namespace))

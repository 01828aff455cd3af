"""The controllers of the objects that own pods: a job may belong to a job of another kind."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from quorate.kube.client import Client
from quorate.kube.discovery import plural_of
from quorate.kube.errors import ApiError, ServerError, TooManyRequests, Unreadable
from quorate.kube.resources import Resource
from quorate.witness.pods import WitnessedPod

_MAX_REMEMBERED: Final = 50_000
_MAX_DEPTH: Final = 10


class _Owner(Struct):
    metadata: ObjectMeta


class OwnerLookup:
    """Reads each owner once: the controller of an object does not change."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[tuple[str, str], Resource[_Owner]] = {}
        self._controllers: OrderedDict[Uid, OwnerReference | None] = OrderedDict()

    @property
    def controllers(self) -> Mapping[Uid, Uid]:
        """Return uids of controllers by uid of the owner that they control."""
        return {uid: owner.uid for uid, owner in self._controllers.items() if owner is not None}

    async def look_up(self, pods: Iterable[WitnessedPod]) -> bool:
        """Read the owners of running pods, and their owners in turn, that are not known yet.

        Return False if the server was too busy to answer for some: the next call reads those.  Raises
        ``Unreachable``.
        """
        is_complete = True
        for pod in pods:
            owner = pod.metadata.controller
            if not pod.holds_node or (owner is not None and owner.kind == "Node"):
                continue
            for _ in range(_MAX_DEPTH):
                if owner is None:
                    break
                if owner.uid not in self._controllers:
                    try:
                        self._remember(owner.uid, await self._controller_of(owner, pod.metadata.namespace))
                    except (ServerError, TooManyRequests):
                        is_complete = False
                        break
                owner = self._controllers[owner.uid]
        return is_complete

    def _remember(self, uid: Uid, controller: OwnerReference | None) -> None:
        if len(self._controllers) >= _MAX_REMEMBERED:
            self._controllers.popitem(last=False)
        self._controllers[uid] = controller

    async def _controller_of(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        """Return the controller of ``owner``; None also if it cannot be read.

        Raises ``ServerError`` and ``TooManyRequests``, which say nothing of the owner.
        """
        try:
            resource = await self._resource(owner)
            stored = (
                None if resource is None else await self._client.get(resource, Key(namespace, owner.name))
            )
        except (ServerError, TooManyRequests):
            raise
        except (ApiError, Unreadable):
            return None
        return None if stored is None or stored.metadata.uid != owner.uid else stored.metadata.controller

    async def _resource(self, owner: OwnerReference) -> Resource[_Owner] | None:
        name = (owner.api_version, owner.kind)
        if name not in self._resources:
            plural = await plural_of(self._client, *name)
            if not plural:
                return None
            group, _, version = owner.api_version.rpartition("/")
            self._resources[name] = Resource(group, version, plural, owner.kind, True, _Owner)
        return self._resources[name]

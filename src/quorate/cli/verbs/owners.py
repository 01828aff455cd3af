"""From the references that objects keep to their owners, to the owners."""

from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from quorate.kube.client import Client
from quorate.kube.errors import NotFound
from quorate.kube.resources import Json, Resource, untyped
from quorate.kube.rest.discovery import plural_of


class _Anything(Struct):
    metadata: ObjectMeta


class Owners:
    """Asks for each kind and each object once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: dict[tuple[str, str], Resource[Json] | None] = {}
        self._known: dict[Uid, ObjectMeta | None] = {}  # None: it is gone

    def know(self, metadata: ObjectMeta) -> None:
        """This one need not be asked for."""
        self._known[metadata.uid] = metadata

    async def kind_of(self, owner: OwnerReference) -> Resource[Json] | None:
        """``None`` when the cluster does not serve it."""
        kind = owner.api_version, owner.kind
        if kind not in self._kinds:
            plural = await plural_of(self._client, *kind)
            group, _, version = owner.api_version.rpartition("/")
            self._kinds[kind] = untyped(group, version, plural, owner.kind, True) if plural else None
        return self._kinds[kind]

    async def leads_to(self, metadata: ObjectMeta, wanted: frozenset[Uid]) -> bool:
        """Whether the object is one of those ``wanted``, or was made by one, or by what one made."""
        passed: set[Uid] = set()
        current: ObjectMeta | None = metadata
        while current is not None and current.uid not in passed:
            if current.uid in wanted:
                return True
            passed.add(current.uid)
            owner = current.controller
            current = await self._of(owner, metadata.namespace) if owner is not None else None
        return False

    async def _of(self, owner: OwnerReference, namespace: str) -> ObjectMeta | None:
        if owner.uid not in self._known:
            self._known[owner.uid] = await self._asked(owner, namespace)
        return self._known[owner.uid]

    async def _asked(self, owner: OwnerReference, namespace: str) -> ObjectMeta | None:
        kind = await self.kind_of(owner)
        if kind is None:
            return None
        anything = Resource(kind.group, kind.version, kind.plural, kind.kind, True, _Anything)
        try:
            found = (await self._client.get(anything, Key(namespace, owner.name))).metadata
        except NotFound:
            return None
        return found if found.uid == owner.uid else None  # another took its name

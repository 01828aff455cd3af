"""Who asks, and may they: answered by the API server, as it answers for every part of a cluster.

Verdicts are kept for ten seconds, as kube-apiserver's own delegates keep them: a dashboard asks often, and
a right that was taken away is gone soon enough.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import msgspec

from quorate.api import codec
from quorate.kube.client import Client
from quorate.kube.clock import Clock

KEPT_S: Final = 10.0
MOST_KEPT: Final = 1000

V = TypeVar("V")


class User(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ResourceAccess(msgspec.Struct, frozen=True):
    """Something done to an object, or with an empty ``name`` to any of its kind."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class PathAccess(msgspec.Struct, frozen=True):
    """Something done to a path that leads to no object; ``verb`` is that of HTTP, in lower case."""

    verb: str
    path: str


Access = ResourceAccess | PathAccess


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _Answer(msgspec.Struct, Generic[V]):
    status: V


class DelegatedAuth:
    """Raises ``ApiError`` or ``Unreachable`` when the API server does not say."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._users: _Kept[str, User | None] = _Kept()
        self._verdicts: _Kept[tuple[User, Access], bool] = _Kept()

    async def authenticate(self, token: str) -> User | None:
        """Whose bearer token this is; None if nobody's."""
        now = self._clock.now()
        known = self._users.get(token, now)
        if known is not None:
            return known[0]
        status = await self._ask("authentication.k8s.io", "TokenReview", {"token": token}, _TokenStatus)
        info = status.user
        extra = tuple((key, tuple(values)) for key, values in sorted(info.extra.items()))
        user = User(info.username, info.uid, tuple(info.groups), extra) if status.authenticated else None
        self._users.put(token, user, now)
        return user

    async def is_allowed(self, user: User, access: Access) -> bool:
        now = self._clock.now()
        known = self._verdicts.get((user, access), now)
        if known is not None:
            return known[0]
        attributes = {key: value for key, value in msgspec.structs.asdict(access).items() if value}
        kind = "resourceAttributes" if isinstance(access, ResourceAccess) else "nonResourceAttributes"
        spec: dict[str, object] = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            kind: attributes,
        }
        status = await self._ask("authorization.k8s.io", "SubjectAccessReview", spec, _AccessStatus)
        self._verdicts.put((user, access), status.allowed, now)
        return status.allowed

    async def _ask(self, group: str, kind: str, spec: dict[str, object], type_: type[V]) -> V:
        body = codec.encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        answer = await self._client.request("POST", f"/apis/{group}/v1/{kind.lower()}s", body=body)
        return codec.decode(_Answer[type_], answer).status  # type: ignore[valid-type]


K = TypeVar("K", bound=Hashable)


class _Kept(Generic[K, V]):
    """The latest answers, for a while."""

    def __init__(self) -> None:
        self._answers: OrderedDict[K, tuple[V, float]] = OrderedDict()  # with the moment each was given

    def get(self, question: K, now: float) -> tuple[V] | None:
        found = self._answers.get(question)
        return None if found is None or now >= found[1] + KEPT_S else (found[0],)

    def put(self, question: K, answer: V, now: float) -> None:
        self._answers[question] = answer, now
        self._answers.move_to_end(question)
        if len(self._answers) > MOST_KEPT:
            self._answers.popitem(last=False)

"""Sessions: the users that are logged in, their credentials, and how long that lasts.

A session lives in the memory of this process only.  Its identifier is the value of a cookie that scripts
cannot read; it is new at each login, so that an identifier which was known before a login is worth nothing.
The API server reviews the credentials again every ``REVIEW_S``: a revoked token ends a session within that.
"""

import asyncio
import hashlib
import hmac
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from quorate.dashboard.limits import LINK_VALID_S, MOST_OF_A_USER, MOST_SESSIONS, SESSION_S, SessionLimits
from quorate.dashboard.queries import Viewer
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Unauthorized
from quorate.kube.rest.config import RestConfig
from quorate.kube.serving.delegated_auth import User, review_self

_ID_BYTES: Final = 32


class InvalidCredentials(Exception):
    """The API server does not accept the credentials."""


@dataclass(eq=False, slots=True)
class Session:
    id: str = field(repr=False)
    csrf_token: str = field(repr=False)
    client: Client  # sends requests as the user
    user: User
    expires_at: float  # epoch seconds
    used_at: float
    reviewed_at: float
    streams: int = 0  # of events that are open
    reviewing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def proves(self, csrf_token: str) -> bool:
        return hmac.compare_digest(self.csrf_token.encode(), csrf_token.encode())


class Sessions:
    def __init__(self, clock: Clock, rng: random.Random, limits: SessionLimits) -> None:
        self._clock = clock
        self._rng = rng
        self._limits = limits
        self._by_id: dict[str, Session] = {}  # in the order of their last use
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._by_id)

    async def open(self, config: RestConfig, expires_at: float | None = None) -> Session:
        """Return a new session for the user of ``config``, which ends at ``expires_at`` at the latest.

        Raises ``InvalidCredentials`` or ``RequestFailed``.
        """
        client = await Client(
            config, self._rng, concurrency=20, field_manager="quorate-dashboard"
        ).__aenter__()
        try:
            user = await _reviewed(client)
        except BaseException:
            await client.__aexit__(None, None, None)
            raise
        now = self._clock.now()
        latest = now + SESSION_S
        session = Session(
            id=secrets.token_urlsafe(_ID_BYTES),
            csrf_token=secrets.token_urlsafe(_ID_BYTES),
            client=client,
            user=user,
            expires_at=latest if expires_at is None else min(latest, expires_at),
            used_at=now,
            reviewed_at=now,
        )
        self._make_room(user)
        self._by_id[session.id] = session
        return session

    async def find(self, id_: str) -> Session | None:
        """Return the session of a cookie while its credentials are valid; None: there is none.

        Raises ``RequestFailed`` if the credentials cannot be reviewed.
        """
        session = self._by_id.get(id_)
        if session is None:
            return None
        now = self._clock.now()
        if now >= min(session.expires_at, session.used_at + self._limits.idle_s):
            self.end(session)
            return None
        session.used_at = now
        self._by_id[id_] = self._by_id.pop(id_)
        return session if await self.is_valid(session) else None

    async def is_valid(self, session: Session) -> bool:
        """Return True if the session has not ended; review its credentials if they were not lately."""
        async with session.reviewing:  # one request for all that wait
            now = self._clock.now()
            if session.id not in self._by_id or now >= session.expires_at:
                self.end(session)
                return False
            if now < session.reviewed_at + self._limits.review_s:
                return True
            try:
                session.user = await _reviewed(session.client)
            except InvalidCredentials:
                self.end(session)
                return False
            session.reviewed_at = self._clock.now()
            return True

    def end(self, session: Session) -> None:
        if self._by_id.pop(session.id, None) is not None:
            closing = asyncio.ensure_future(session.client.__aexit__(None, None, None))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def end_by_id(self, id_: str) -> None:
        if (session := self._by_id.get(id_)) is not None:
            self.end(session)

    async def close(self) -> None:
        """End all sessions."""
        for session in tuple(self._by_id.values()):
            self.end(session)
        await asyncio.gather(*self._closing)

    def _make_room(self, user: User) -> None:
        own = [session for session in self._by_id.values() if session.user.name == user.name]
        ending = own[: max(0, len(own) - MOST_OF_A_USER + 1)]
        if not ending and len(self._by_id) >= MOST_SESSIONS:
            ending = [next(iter(self._by_id.values()))]
        for session in ending:
            self.end(session)


async def _reviewed(client: Client) -> User:
    try:
        user = await review_self(client)
    except Unauthorized as error:
        raise InvalidCredentials from error
    if user.name == "system:anonymous":
        raise InvalidCredentials
    return user


class OneTimeLinks:
    """Links that log in once, with the credentials of this process; only on loopback.

    A terminal shows the link to the user that started the process, which could use these credentials anyway.
    One code is valid at a time: ``announce`` gets the first link, and the next one after each use.
    """

    def __init__(self, clock: Clock, announce: Callable[[str], None]) -> None:
        self._clock = clock
        self._announce = announce
        self._digest = b""  # of the valid code
        self._ends_at = 0.0

    def renew(self) -> None:
        code = secrets.token_urlsafe(32)
        self._digest = _digest(code)
        self._ends_at = self._clock.now() + LINK_VALID_S
        self._announce(code)

    def redeem(self, code: str) -> bool:
        """Return True for the valid code, which is invalid from then on."""
        if not secrets.compare_digest(_digest(code), self._digest):
            return False
        is_late = self._clock.now() >= self._ends_at
        self.renew()
        return not is_late


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a request."""

    session: Session
    viewer: Viewer  # what it may see

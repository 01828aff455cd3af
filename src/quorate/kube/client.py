"""The client of one API server, typed by resource.

It has one connection pool, at most ``concurrency`` requests in flight, a deadline for each, and retries where
they are safe (see ``flowcontrol``).  Refusals are raised as exceptions (see ``errors``).  A typed object has
only the fields we read: patch existing objects, and replace only objects that were composed completely.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from enum import StrEnum
from typing import Any, Final, Self

from quorate.api import codec
from quorate.api.meta import Key
from quorate.kube.cancellation import end_tasks, retrieve_exception
from quorate.kube.errors import (
    AnswerTooLarge,
    ApiError,
    Gone,
    NotFound,
    StatusDetails,
    Unauthorized,
    Unreachable,
    error_from_answer,
)
from quorate.kube.flowcontrol import TokenBucketRateLimiter, retry_delay_s
from quorate.kube.limits import (
    MAX_ANSWER_BYTES,
    MAX_FULL_PAGES,
    PAGE_SIZE,
    SMALL_PAGE_SIZE,
    WATCH_S,
    WATCH_SLACK_S,
)
from quorate.kube.object_faults import ObjectFault, ObjectFaults
from quorate.kube.own_writes import OwnWrites
from quorate.kube.resources import Body, Resource, T
from quorate.kube.rest.bounded_reads import Lines, batched_pieces, pieces
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.connection import Connection, TransportFailed
from quorate.kube.rest.connection_pool import ConnectionPool, Permit, Request
from quorate.kube.rest.decoding import (
    AnyObject,
    Bookmark,
    E,
    Listing,
    WatchEvent,
    decode_answer,
    decode_frame,
    decode_page,
    read_undecodable_event,
    read_undecodable_of,
)
from quorate.kube.rest.encoding import (
    encode_object,
    encode_patch,
    encoded_query,
    namespace_of,
    selectors_query,
)

METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class PatchKind(StrEnum):
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"  # JSON is YAML


# Called for each attempt: verb (``WATCH`` for the start of a watch), path, status code (0: none), seconds.
OnResponse = Callable[[str, str, int, float], None]


def _ignore(*_: object) -> None: ...


def _path_of(resource: Resource[Any], key: Key, subresource: str = "") -> str:
    """Return the path of an object; raise ``NotFound`` for a name with which it would be another path."""
    if key.name in ("", ".", ".."):
        plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        problem = f"{plural}: {key.name!r} is no name (write the name of an object)"
        raise NotFound(plural, 404, "NotFound", problem, StatusDetails(kind=plural))
    return resource.path(key.namespace, key.name, subresource)


class Client:
    """An async context manager; requests are sent within its block only, and fail as unreachable after it.

    ``deadline_s`` bounds a request with all its attempts, but not the wait for a free slot.  Without a
    ``rate_limiter`` the API priority and fairness of the server limits the rate, by responses with code 429.
    ``permit`` is asked right before each attempt of a write is sent; a refusal raises ``WriteNotPermitted``.
    A response of more than ``answer_bytes`` raises ``AnswerTooLarge``.
    """

    def __init__(
        self,
        config: RestConfig,
        rng: random.Random,
        *,
        concurrency: int = 100,
        deadline_s: float = 30.0,
        field_manager: str = "quorate",
        on_response: OnResponse = _ignore,
        rate_limiter: TokenBucketRateLimiter | None = None,
        permit: Permit | None = None,
        answer_bytes: int = MAX_ANSWER_BYTES,
        streams_lists: bool = False,
    ) -> None:
        """``streams_lists``: informers get existing objects with the watch, which the server must support."""
        self.config, self._answer_bytes = config, answer_bytes
        self.streams_lists = streams_lists
        self._on_response = on_response
        self.faults = ObjectFaults()  # of objects that were read with this client
        self.own_writes = OwnWrites()
        self.rng = rng  # spreads the retries of clients that failed together
        self._slots = asyncio.Semaphore(concurrency)
        self._rate_limiter = rate_limiter
        self.permit = permit
        self._deadline_s = deadline_s
        self._field_manager = field_manager
        self._pool = ConnectionPool(config, permit)
        self.writes_in_flight = 0  # sent or about to be sent, also of cancelled callers
        self._no_writes = asyncio.Event()  # set when the last of them ends
        self._unread: set[asyncio.Task[bytes]] = set()  # reads of responses, for cancelled callers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._pool.refuse()
        await end_tasks(self._unread)
        await self._pool.close()

    async def get(self, resource: Resource[T], key: Key) -> T:
        path = _path_of(resource, key)
        return await self.request_as(resource.type, "GET", path)

    async def find(self, resource: Resource[T], key: Key) -> T | None:
        """Return the object as the API server has it; None if it does not exist."""
        try:
            return await self.get(resource, key)
        except NotFound:
            return None

    async def list(
        self, resource: Resource[T], namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing[T]:
        """Return all objects that match, in pages.

        When the continue token has expired (410) the list starts over; the third attempt requests everything
        in one page, which cannot expire.
        """
        query = selectors_query(label_selector, field_selector)
        for limit in (PAGE_SIZE, PAGE_SIZE):
            try:
                return await self._list_paged(resource, namespace, query | {"limit": str(limit)})
            except Gone:
                continue
            except AnswerTooLarge:
                return await self._list_paged(resource, namespace, query | {"limit": str(SMALL_PAGE_SIZE)})
        return await self._list_paged(resource, namespace, query)

    async def _list_paged(
        self, resource: Resource[T], namespace: str, query: Mapping[str, str]
    ) -> Listing[T]:
        path = resource.path(namespace)
        items: list[T] = []
        undecodable: list[ObjectFault] = []
        continue_: dict[str, str] = {}
        left = MAX_FULL_PAGES * self._answer_bytes
        while True:
            body = await self.request("GET", path, query={**query, **continue_})
            left -= len(body)
            if left < 0:
                raise AnswerTooLarge(f"GET {path}", MAX_FULL_PAGES * self._answer_bytes)
            page = await read_undecodable_of(resource, decode_page(resource, f"GET {path}", body))
            items += page.items
            undecodable += page.undecodable
            if not page.continue_:
                return Listing(tuple(items), page.resource_version, tuple(undecodable))
            continue_ = {"continue": page.continue_}

    async def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, dry_run: bool = False
    ) -> T:
        """Create an object and return it as stored; ``namespace`` is by default the namespace of the body."""
        path = resource.path(namespace or namespace_of(body))
        encoded = await encode_object(resource, body)
        return await self.request_as(resource.type, "POST", path, query=self._query(dry_run), body=encoded)

    async def replace(
        self, resource: Resource[T], key: Key, body: Body, *, subresource: str = "", dry_run: bool = False
    ) -> T:
        path = _path_of(resource, key, subresource)
        encoded = await encode_object(resource, body)
        return await self.request_as(resource.type, "PUT", path, query=self._query(dry_run), body=encoded)

    async def patch(
        self,
        resource: Resource[T],
        key: Key,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        subresource: str = "",
        kind: PatchKind = PatchKind.MERGE,
        force: bool = False,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        """Patch an object and return it as stored; ``force`` takes over fields of other managers (APPLY).

        ``field_manager`` is by default the manager of the client.
        """
        path = _path_of(resource, key, subresource)
        query = self._query(dry_run) | ({"force": "true"} if force else {})
        if field_manager:
            query["fieldManager"] = field_manager
        answer = await self.request(
            "PATCH",
            path,
            query=query,
            body=await encode_patch(resource, patch),
            headers={"Content-Type": kind.value},
        )
        return decode_answer(resource.type, f"PATCH {path}", answer)

    async def patch_for_version(
        self, resource: Resource[Any], key: Key, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> str:
        """Apply a merge patch and return only the resource version of the object as stored.

        The response costs the server less to encode.  One that has no such form sends the whole object.
        """
        path = _path_of(resource, key, subresource)
        headers = {"Content-Type": PatchKind.MERGE.value, "Accept": METADATA_ONLY}
        body = await encode_patch(resource, patch)
        query = self._query(False)
        stored = await self.request_as(AnyObject, "PATCH", path, query=query, body=body, headers=headers)
        return stored.metadata.resource_version

    async def apply(
        self,
        resource: Resource[T],
        key: Key,
        content: Mapping[str, Any],
        *,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        """Apply ``content`` on the server, create a missing object, and return the object as stored.

        API version, kind, name and namespace are taken from ``resource`` and ``key``.  Fields of other
        managers are taken over.
        """
        named = {"name": key.name} | ({"namespace": key.namespace} if key.namespace else {})
        body = {
            **content,
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {**content.get("metadata", {}), **named},
        }
        kind = PatchKind.APPLY
        return await self.patch(
            resource, key, body, kind=kind, force=True, field_manager=field_manager, dry_run=dry_run
        )

    async def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        propagation: str | None = None,
        uid: str = "",
        resource_version: str = "",
        grace_period_s: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete an object; finalizers may delay its removal.

        ``uid`` and ``resource_version`` are preconditions: ``Conflict`` is raised if they do not hold.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_period_s,
            "preconditions": {name: value for name, value in preconditions.items() if value} or None,
            "dryRun": ["All"] if dry_run else None,
        }
        present = {name: value for name, value in options.items() if value is not None}
        await self.request_as(AnyObject, "DELETE", _path_of(resource, key), body=codec.encode(present))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the body of a successful response; ``path`` is quoted already, ``query`` is not.

        Raises ``ApiError`` or ``Unreachable``.
        """
        clock = asyncio.get_running_loop().time
        async with self._slots:
            if self._rate_limiter is not None:
                await self._rate_limiter.wait()
            deadline = clock() + self._deadline_s
            attempt = 1
            while True:
                await self.config.credentials.renew()
                authorization = self.config.credentials.authorization()
                try:
                    sent = self._new_request(method, method, path, query, authorization, body, headers)
                    return await self._exchange(sent, path, deadline, clock())
                except Unauthorized:
                    # Credentials expire; the rejected request had no effect and is sent with fresh ones.
                    if attempt > 1 or not await self.config.credentials.refresh(authorization):
                        raise
                except (ApiError, Unreachable) as failure:
                    delay_s = retry_delay_s(method, attempt, failure)
                    if delay_s is None:
                        raise
                    delay_s *= 1 + self.rng.random() / 2
                    if clock() + delay_s >= deadline:
                        raise
                    await asyncio.sleep(delay_s)
                attempt += 1

    async def request_as(
        self,
        type_: type[E],
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> E:
        """Return the response to ``request``, decoded.  Raises ``Unreadable`` if it is not a ``type_``."""
        answer = await self.request(method, path, query=query, body=body, headers=headers)
        return decode_answer(type_, f"{method} {path}", answer)

    async def writes_finished(self) -> None:
        """Return once no write is in flight, also of cancelled callers; at most after the deadline."""
        while self.writes_in_flight:
            self._no_writes.clear()
            await self._no_writes.wait()

    async def _exchange(
        self, request: Request, path: str, deadline: float, began: float, sent: Connection | None = None
    ) -> bytes:
        """Return the response to one attempt, which ``began`` at a loop time.

        If the caller is cancelled once a write is sent, a task of its own reads the response on the
        connection ``sent``.
        """
        is_write, connection, code, goes_on = request.method != "GET", sent, 0, False
        self.writes_in_flight += is_write and sent is None
        try:
            if connection is None:
                connection = await self._pool.send(request, deadline)
            answer = await connection.read(request.name, self._answer_bytes, deadline)
            code, retry_after_s = connection.status, connection.retry_after_s
        except TransportFailed as error:
            raise Unreachable(request.name, self.config.server, str(error), error.sent) from error
        except asyncio.CancelledError:
            goes_on = is_write and connection is not None and sent is None
            if goes_on:
                rest = asyncio.create_task(self._exchange(request, path, deadline, began, connection))
                self._unread.add(rest)
                rest.add_done_callback(self._unread.discard)
                rest.add_done_callback(retrieve_exception)
            raise
        finally:
            if not goes_on:
                if connection is not None:
                    self._pool.release(connection)
                self._on_response(request.method, path, code, asyncio.get_running_loop().time() - began)
                self.writes_in_flight -= is_write
                if not self.writes_in_flight:
                    self._no_writes.set()
        if code >= 400:
            raise error_from_answer(request.name, code, answer, retry_after_s)
        return answer

    async def watch(
        self,
        resource: Resource[T],
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        *,
        batched: bool = False,
        on_open: Callable[[], None] = _ignore,
    ) -> AsyncIterator[WatchEvent[T] | Bookmark | ObjectFault]:
        """Yield the events after ``resource_version`` until the server ends the watch (``WATCH_S``).

        If it is empty, first yield an event for each existing object, and a bookmark at their end.
        ``batched``: read it as ``batched_pieces`` does, like that of a kind that ``is_busy``.  ``on_open`` is
        called once the server has accepted the watch.

        Raises ``Gone`` if that version is no longer kept, ``Unreachable`` if the stream breaks, and
        ``Unreadable`` if a frame cannot be parsed.
        """
        path = resource.path(namespace)
        query = selectors_query(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(WATCH_S)),
        }
        if not resource_version:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        request = f"WATCH {path}"
        lines = Lines(request)
        silence_s = WATCH_S + WATCH_SLACK_S
        stream = self.chunks("WATCH", path, query, silence_s, batched or resource.is_busy, on_open=on_open)
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    event = decode_frame(resource, request, line)
                    if isinstance(event, ObjectFault):
                        event = await read_undecodable_event(resource, event)
                    yield event

    async def chunks(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        silence_s: float | None,
        batched: bool = False,
        *,
        on_open: Callable[[], None] = _ignore,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of a response as they arrive, such as the log of a container.

        The deadline applies to its start; after ``silence_s`` the connection is taken for broken.  ``verb``
        is for messages and metrics.  Raises ``ApiError`` for a refusal and ``Unreachable``.
        """
        clock, code = asyncio.get_running_loop().time, 0
        await self.config.credentials.renew()
        authorization, began = self.config.credentials.authorization(), clock()
        request = self._new_request(verb, "GET", path, query, authorization)
        try:
            async with AsyncExitStack() as stack:
                try:
                    opened = self._pool.stream(request, began + self._deadline_s)
                    connection = await stack.enter_async_context(opened)
                    code = connection.status
                finally:
                    self._on_response(verb, path, code, clock() - began)
                if code >= 400:
                    deadline = clock() + self._deadline_s
                    answer = await connection.read(request.name, self._answer_bytes, deadline)
                    raise error_from_answer(request.name, code, answer, connection.retry_after_s)
                on_open()
                read = batched_pieces if batched else pieces
                async for piece in await stack.enter_async_context(aclosing(read(connection, silence_s))):
                    yield piece
        except Unauthorized:
            await self.config.credentials.refresh(authorization)  # for the caller's next attempt
            raise
        except TransportFailed as error:
            raise Unreachable(request.name, self.config.server, str(error), error.sent) from error

    def _new_request(
        self,
        verb: str,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        authorization: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Request:
        sent = {"Accept": "application/json"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        if authorization:
            sent["Authorization"] = authorization
        if headers is not None:
            sent.update(headers)
        target = f"{path}?{encoded_query(tuple(query.items()))}" if query else path
        return Request(f"{verb} {path}", method, target, sent, body)

    def _query(self, dry_run: bool) -> dict[str, str]:
        return {"fieldManager": self._field_manager} | ({"dryRun": "All"} if dry_run else {})

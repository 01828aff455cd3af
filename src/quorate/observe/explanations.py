"""Explanations of workloads, queues and pod groups, computed from the model that decides.

    GET /apis/visibility.quorate.dev/v1beta1/namespaces/NAMESPACE/workloads/NAME/explanation
    GET /apis/visibility.quorate.dev/v1beta1/clusterqueues/NAME/explanation, the same for the other kinds
    GET /apis/visibility.quorate.dev/v1beta1/namespaces/NAMESPACE/explanations, the summaries of all
    GET /apis/visibility.quorate.dev/v1beta1/namespaces/NAMESPACE/estimates, when workloads start
    POST to the same, with a StartQuestion: when its Workload would start, in seconds from now

A caller that may get the object gets its explanation.  Names of other objects are left out unless it may list
workloads in their namespaces.  Long queues are read in steps, between which the process does other work.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec
from aiohttp import web

from quorate.api import codec, native_groups
from quorate.api.configuration.integrations import Integrations
from quorate.api.explanation import (
    API_VERSION,
    ESTIMATES,
    EXPLAINED,
    EXPLANATIONS,
    NATIVE_POD_GROUP,
    NO_START,
    SUBRESOURCE,
    Explanation,
    StartQuestion,
)
from quorate.api.kueue import GROUP as KUEUE
from quorate.api.meta import Key
from quorate.api.volcano import GROUP as VOLCANO
from quorate.kube.clock import Clock
from quorate.kube.errors import RequestFailed
from quorate.kube.log import logger
from quorate.kube.serving.delegated_auth import Access, ResourceAccess, User
from quorate.observe.authorization import USER, Auth, refusal
from quorate.observe.explanation_lists import (
    ClusterReader,
    ExplanationLists,
    Page,
    explain_read_group,
    in_steps,
    prefers_table,
    started_of,
)
from quorate.observe.limits import MAX_DIGITS
from quorate.observe.replica import Replica
from quorate.observe.view import View
from quorate.queueing.explain import first_pending, pending_facts
from quorate.queueing.explanation.jobs import UnqueuedJob, explain_unqueued_job
from quorate.queueing.explanation.queues import explain_cluster_queue, explain_local_queue
from quorate.queueing.explanation.scope import UNLIMITED_SCOPE, Scope, namespaces_of, scoped
from quorate.queueing.explanation.workload import explain_workload

PREFIX: Final = f"/apis/{API_VERSION}"
_GROUPS: Final = {plural: group for plural, _, group in EXPLAINED}

_LISTED: Final = {
    "Workload": (KUEUE, "workloads"),
    "PodGroup": (VOLCANO, "podgroups"),
    NATIVE_POD_GROUP: (native_groups.GROUP, "podgroups"),
}  # by kind

_SELECTED_KIND: Final = "kind="

Answer = Callable[[View, web.Request], Awaitable[bytes | web.Response]]
Explain = Callable[[View, Key, web.Request], Awaitable[Explanation | None]]


class Explainer:
    """Answers for one replica; ``auth`` tells what a caller may read besides the explained object."""

    def __init__(
        self,
        replica: Replica,
        reader: ClusterReader,
        auth: Auth,
        why_not_queued: Callable[[Integrations, str, str], str],
        clock: Clock,
    ) -> None:
        """``why_not_queued`` returns why jobs of a group and kind are not queued; empty if they are.

        Ages in Tables are at the time of ``clock``.
        """
        self._replica = replica
        self._why_not_queued = why_not_queued
        self._reader = reader
        self._auth = auth
        self._lists = ExplanationLists(reader, clock.now)

    def add_routes(self, app: web.Application) -> None:
        explain_by_plural: dict[str, Explain] = {
            "workloads": self._workload,
            "localqueues": self._local_queue,
            "clusterqueues": self._cluster_queue,
            "podgroups": self._pod_group,
            "jobs": self._job,
        }
        for plural, namespaced, _ in EXPLAINED:
            where = "/namespaces/{namespace}" if namespaced else ""
            path = f"{where}/{plural}/{{name}}/{SUBRESOURCE}"
            handler = self._answering(self._handler(plural, explain_by_plural[plural]))
            for prefix in (PREFIX, "/visibility"):
                app.router.add_get(f"{prefix}{path}", handler)
        for where in ("", "/namespaces/{namespace}"):
            app.router.add_get(f"{PREFIX}{where}/{ESTIMATES}", self._answering(self._estimates))
            app.router.add_get(f"{PREFIX}{where}/{EXPLANATIONS}", self._answering(self._summaries))
        questions = f"{PREFIX}/namespaces/{{namespace}}/{ESTIMATES}"
        app.router.add_post(questions, self._answering(self._would_start))

    def _answering(self, answer: Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def respond(request: web.Request) -> web.Response:
            view = self._replica.view
            if view is None:
                return refusal(503, "ServiceUnavailable", "not synced with the API server yet")
            try:
                body = await answer(view, request)
            except RequestFailed as error:
                logger(__name__).warning("not explained", path=request.path, problem=str(error))
                return refusal(503, "ServiceUnavailable", "the API server did not answer")
            if isinstance(body, web.Response):
                return body
            return web.Response(body=body, content_type="application/json")

        return respond

    async def _estimates(self, view: View, request: web.Request) -> bytes:
        namespace = request.match_info.get("namespace", "")
        return codec.encode(self._replica.estimates.in_namespace(view.state, namespace))

    async def _would_start(self, view: View, request: web.Request) -> bytes | web.Response:
        try:
            question = codec.decode(StartQuestion, await request.read())
        except msgspec.MsgspecError as error:
            return refusal(400, "BadRequest", f"the body is no question about a Workload: {error}")
        namespaces = {workload.metadata.namespace for workload in (question.workload, *question.ahead)}
        if question.workload.metadata.namespace != request.match_info["namespace"]:
            return refusal(400, "BadRequest", "the Workload is of another namespace than the path")
        user = request.get(USER)
        answers = await asyncio.gather(*(self._may_create(user, name) for name in sorted(namespaces)))
        if not all(answers):
            return refusal(403, "Forbidden", "it needs to create workloads in all namespaces of the question")
        return codec.encode(await self._replica.estimates.would_start(question))

    async def _may_create(self, user: User | None, namespace: str) -> bool:
        access = ResourceAccess("create", KUEUE, "workloads", "", namespace)
        return user is None or await self._auth.is_allowed(user, access)

    async def _summaries(self, view: View, request: web.Request) -> bytes | web.Response:
        namespace, kind = request.match_info.get("namespace", ""), _listed_kind(request)
        if kind not in _LISTED:
            return refusal(400, "BadRequest", f"kind: {kind!r} is not one of {', '.join(_LISTED)}")
        page = _page_of(request)
        if page is None:
            return refusal(
                400, "BadRequest", "limit must be a whole number, and continue the token of a list"
            )
        if kind != "Workload":
            return await self._lists.pod_group_list(namespace, page, native=kind == NATIVE_POD_GROUP)
        user, scope = request.get(USER), UNLIMITED_SCOPE
        if user is not None and namespace and not await self._may_list(user, "workloads"):
            scope = Scope(frozenset({namespace}), cluster_queues=False)
        return await self._lists.workloads(view, namespace, scope, page)

    def _handler(self, plural: str, explain: Explain) -> Answer:
        async def answer(view: View, request: web.Request) -> bytes | web.Response:
            key = Key(request.match_info.get("namespace", ""), request.match_info["name"])
            explanation = await explain(view, key, request)
            if explanation is None:
                return refusal(404, "NotFound", f'{plural}.{_GROUPS[plural]} "{key.name}" not found')
            return codec.encode(explanation)

        return answer

    async def _workload(self, view: View, key: Key, request: web.Request) -> Explanation | None:
        if view.workload(key) is None:
            return None
        facts = await in_steps(pending_facts(view.state, key))
        if facts is not None:
            facts = scoped(facts, await self._scope(request.get(USER), namespaces_of(facts)))
        workload = view.workload(key)  # it may have changed meanwhile
        if workload is None:
            return None
        explained = explain_workload(view.state, workload, facts, await started_of(self._reader, workload))
        if explained.state in NO_START:
            return explained
        return msgspec.structs.replace(explained, estimate=self._replica.estimates.of(view.state, key))

    async def _cluster_queue(self, view: View, key: Key, request: web.Request) -> Explanation | None:
        first = await in_steps(first_pending(view.state, key.name))
        scope = await self._scope(request.get(USER), {workload.namespace for workload in first})
        return explain_cluster_queue(view.state, key.name, first, scope)

    async def _local_queue(self, view: View, key: Key, request: web.Request) -> Explanation | None:
        queue = view.ledger.local_queues.get(key)
        first = await in_steps(first_pending(view.state, queue.cluster_queue)) if queue is not None else ()
        scope = await self._scope(request.get(USER), {workload.namespace for workload in first})
        return explain_local_queue(view.state, key, first, scope)

    async def _pod_group(self, view: View, key: Key, request: web.Request) -> Explanation | None:
        is_native = request.query.get("group") == native_groups.GROUP
        group = await self._reader.pod_group(
            Key(key.namespace, native_groups.PREFIX + key.name) if is_native else key
        )
        return None if group is None else await explain_read_group(self._reader, group)

    async def _job(self, view: View, key: Key, request: web.Request) -> Explanation | None:
        kind = request.query.get("kind", "Job")
        integrations = view.state.configuration.integrations
        group = request.query.get("group", "")
        why = self._why_not_queued(integrations, group, kind)
        suspended = {"true": True, "false": False}.get(request.query.get("suspended", ""))
        job = UnqueuedJob(kind, key, request.query.get("queue", ""), why, suspended, group)
        return explain_unqueued_job(view.state, job)

    async def _scope(self, user: User | None, namespaces: Iterable[str]) -> Scope:
        """Return what ``user`` may read, with one review for each namespace; all if ``user`` is None."""
        if user is None or await self._may_list(user, "workloads"):
            return UNLIMITED_SCOPE
        requested = sorted(set(namespaces))
        answers = await asyncio.gather(
            self._may_list(user, "clusterqueues"),
            *(self._may_list(user, "workloads", namespace) for namespace in requested),
        )
        readable = frozenset(namespace for namespace, may in zip(requested, answers[1:], strict=True) if may)
        return Scope(readable, cluster_queues=answers[0])

    async def _may_list(self, user: User, plural: str, namespace: str = "") -> bool:
        return await self._auth.is_allowed(user, ResourceAccess("list", KUEUE, plural, "", namespace))


def _page_of(request: web.Request) -> Page | None:
    """Return the page of a list that is asked for; None if the parameters are invalid."""
    limit, token = request.query.get("limit", "0"), request.query.get("continue", "")
    namespace, slash, name = token.partition("/")
    if not limit.isascii() or not limit.isdigit() or len(limit) > MAX_DIGITS or bool(token) != bool(slash):
        return None
    as_table = prefers_table(request.headers.get("Accept", ""))
    return Page(int(limit), Key(namespace, name) if token else None, as_table)


def _listed_kind(request: web.Request) -> str:
    """Return the kind of a list: as ``kind=PodGroup``, or as a field selector, which kubectl can send."""
    selected = request.query.get("fieldSelector", "").removeprefix(_SELECTED_KIND)
    return request.query.get("kind") or selected or "Workload"


def explanation_access(request: web.Request) -> Access | None:
    """Return the access that an explanation needs: to get the object.  Lists need to list the objects.

    None for other requests.
    """
    match, parts = request.match_info, request.path.rstrip("/").split("/")
    if parts[-1] == ESTIMATES and request.path.startswith(PREFIX):
        verb = "create" if request.method == "POST" else "list"
        return ResourceAccess(verb, KUEUE, "workloads", "", match.get("namespace", ""))
    if parts[-1] == EXPLANATIONS and request.path.startswith(PREFIX):
        group, plural = _LISTED.get(_listed_kind(request), _LISTED["Workload"])
        return ResourceAccess("list", group, plural, "", match.get("namespace", ""))
    if parts[-1] != SUBRESOURCE or "name" not in match:
        return None
    plural = parts[-3]
    group = _GROUPS[plural]
    if plural == "jobs":
        group, plural = request.query.get("group", ""), request.query.get("resource", "")
    elif plural == "podgroups" and request.query.get("group") == native_groups.GROUP:
        group = native_groups.GROUP
    return ResourceAccess("get", group, plural, "", match.get("namespace", ""), match["name"])

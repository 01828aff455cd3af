"""Lists that say of each workload, or of each pod group, why it waits or its pods do not run.

    GET /apis/visibility.quorate.dev/v1beta1/namespaces/NAMESPACE/explanations, of one namespace
    GET /apis/visibility.quorate.dev/v1beta1/explanations, of all namespaces

Each item is a summary of the explanation of an object: state, code and message, and what would be enough.
While more than ``MAX_COMPLETE`` workloads are pending, the summaries of pending workloads are without what
would be enough and without the name of a preemptor.  Pods are read namespace by namespace, and only where
workloads are admitted or pod groups exist.  A list is computed in slices, between which other work is
done, and callers that ask for the same list within ``KEEP_S`` share it.
"""

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

import msgspec

from quorate.api import codec
from quorate.api.core.started_pod import FailedCreation, StartedPod
from quorate.api.explanation import (
    Explanation,
    ExplanationSummary,
    ExplanationSummaryList,
    ListMeta,
    summary_of,
)
from quorate.api.human_duration import human_duration
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid, epoch
from quorate.api.volcano import PodGroup
from quorate.gang.explanation import GroupFacts, explain_group, groups_by_owner, waiting_group
from quorate.kube.cancellation import retrieve_exception
from quorate.observe.limits import KEEP_S, MAX_COMPLETE, SLICE_S, SLICE_WORKLOADS
from quorate.observe.view import View
from quorate.queueing.conditions import is_admitted, is_finished
from quorate.queueing.explain import (
    PendingFacts,
    Steps,
    blocking_workload,
    of_turn,
    outcome_of,
    pending_facts,
)
from quorate.queueing.explanation.pods import (
    PodIndex,
    failed_creation,
    has_ended,
    selector_of,
    with_members,
)
from quorate.queueing.explanation.scope import Scope, scoped
from quorate.queueing.explanation.workload import NOT_READ, Started, explain_workload
from quorate.queueing.state import State

T = TypeVar("T")

# Title, format, whether only ``-o wide`` shows it, and a description.
_COLUMNS: Final = (
    ("Name", "name", False, "The workload or the pod group."),
    ("State", "", False, "Its state, such as Queued, Held, Stuck or Running."),
    ("Reason", "", False, "The code of the reason that decides the state; empty if it runs."),
    ("Since", "", False, "How long it has been in this state."),
    ("Message", "", False, "The reason as a sentence, with numbers."),
    ("Enough", "", True, "What would let it start."),
)
_TABLE: Final = frozenset(("as=Table", "v=v1", "g=meta.k8s.io"))


async def in_steps(steps: Steps[T]) -> T:
    """Return the result of ``steps``; other tasks run between them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


class NamespaceReader(Protocol):
    """Reads what the model does not keep."""

    async def pods(self, namespace: str, label_selector: str) -> Sequence[StartedPod] | None:
        """Return the pods; None if they cannot be read."""

    async def pod_groups(self, namespace: str) -> Sequence[PodGroup]: ...

    async def native_pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        """Return Kubernetes' own pod groups as groups of Volcano, with their API group before the name."""

    async def failed_creations(self, namespace: str) -> Mapping[Uid, FailedCreation]:
        """Return the last failure of each job to create a pod, as far as it is known."""


class ClusterReader(NamespaceReader, Protocol):
    async def pod_group(self, key: Key) -> PodGroup | None: ...

    async def group_facts(self, group: PodGroup) -> GroupFacts | None:
        """Return what a session would decide about the group now; None if that is not known."""


class Page(msgspec.Struct, frozen=True):
    """A part of a sorted list: at most ``limit`` objects after ``after``; all of these if ``limit`` is 0."""

    limit: int = 0
    after: Key | None = None
    as_table: bool = False

    def of(self, keys: list[Key]) -> tuple[list[Key], str]:
        """Return the sorted ``keys`` that are on the page, and the token of the next page.

        The token is empty if there is no next page.
        """
        first = 0 if self.after is None else bisect_right(keys, self.after)
        page = keys[first : first + self.limit] if self.limit else keys[first:]
        return page, str(page[-1]) if first + len(page) < len(keys) else ""


class ExplanationLists:
    """Encoded pages of summaries, each kept for ``KEEP_S``, as are the pods and pod groups of a namespace."""

    def __init__(self, reader: NamespaceReader, now: Callable[[], float]) -> None:
        self._reader = reader
        self._now = now
        self._latest: dict[Hashable, asyncio.Task[Any]] = {}

    async def workloads(self, view: View, namespace: str, scope: Scope, page: Page) -> bytes:
        """Return a page of the workloads of a namespace, or of all if it is empty, for one caller."""

        async def compute() -> bytes:
            keys, token = page.of(view.workload_keys(namespace))
            summaries = workload_summaries(view.state, keys, view.workload, self, scope)
            return await encoded_list(summaries, token, self._now if page.as_table else None)

        return await self._shared((view, namespace, scope, page), compute)

    async def pod_group_list(self, namespace: str, page: Page, *, native: bool = False) -> bytes:
        """Return a page of Volcano's or of native pod groups of a namespace, or of all if it is empty."""
        list_groups = self.native_pod_groups if native else self.pod_groups

        async def compute() -> bytes:
            groups = {group.metadata.key: group for group in await list_groups(namespace)}
            keys, token = page.of(sorted(groups))
            summaries = pod_group_summaries(self, [groups[key] for key in keys])
            return await encoded_list(summaries, token, self._now if page.as_table else None)

        return await self._shared((namespace, page, native), compute)

    async def pods(self, namespace: str, label_selector: str) -> Sequence[StartedPod] | None:
        return await self._shared(
            ("pods", namespace, label_selector), lambda: self._reader.pods(namespace, label_selector)
        )

    async def pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        return await self._shared(("pod groups", namespace), lambda: self._reader.pod_groups(namespace))

    async def native_pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        return await self._reader.native_pod_groups(namespace)

    async def failed_creations(self, namespace: str) -> Mapping[Uid, FailedCreation]:
        return await self._shared(("failures", namespace), lambda: self._reader.failed_creations(namespace))

    async def _shared(self, key: Hashable, compute: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the value of the latest ``compute``, which is called again after ``KEEP_S``."""
        task: asyncio.Task[T] | None = self._latest.get(key)
        if task is None:
            task = self._latest[key] = asyncio.create_task(compute())
            task.add_done_callback(lambda done: self._keep(key, done))
        return await asyncio.shield(task)

    def _keep(self, key: Hashable, done: asyncio.Task[Any]) -> None:
        done.get_loop().call_later(KEEP_S, self._latest.pop, key)
        retrieve_exception(done)


async def workload_summaries(
    state: State,
    keys: Iterable[Key],
    stored: Callable[[Key], Workload | None],
    reader: NamespaceReader,
    scope: Scope,
) -> AsyncIterator[ExplanationSummary]:
    """Yield the summaries of the workloads with ``keys``, which are sorted; ``stored`` returns a workload."""
    facts_of = _outcomes(state) if len(state.ledger.entries) > MAX_COMPLETE else partial(pending_facts, state)
    for namespace, of_namespace in groupby(keys, attrgetter("namespace")):
        names = list(of_namespace)
        started = await _started_in(reader, namespace, map(stored, names))
        for key in names:
            facts = await in_steps(facts_of(key))
            if (workload := stored(key)) is None:
                continue
            seen = None if facts is None else scoped(facts, scope)
            explanation = explain_workload(state, workload, seen, started(workload))
            yield summary_of(explanation, workload.metadata)


def _outcomes(state: State) -> Callable[[Key], Steps[PendingFacts | None]]:
    """Return a function like ``pending_facts`` of which the cost does not depend on the pending workloads."""
    blocking: dict[str, Key | None] = {}  # by cluster queue

    def facts_of(key: Key) -> Steps[PendingFacts | None]:
        facts = outcome_of(state, key)
        if facts is None or facts.hold is not None:
            return facts
        queue = state.ledger.entries[key].cluster_queue
        if queue not in blocking:
            blocking[queue] = yield from blocking_workload(state, queue)
        return of_turn(state, key, facts, blocked=blocking[queue] not in (None, key))

    return facts_of


async def _started_in(
    reader: NamespaceReader, namespace: str, workloads: Iterable[Workload | None]
) -> Callable[[Workload], Started]:
    """Return what is known of the pods and the pod groups of the workloads of a namespace."""
    if not await in_steps(_some_have_pods(workloads)):
        return lambda _: NOT_READ
    pods = await reader.pods(namespace, "")
    index, groups = PodIndex(pods or ()), groups_by_owner(await reader.pod_groups(namespace))
    failures = await reader.failed_creations(namespace)

    def started(workload: Workload) -> Started:
        if not _has_pods(workload):
            return NOT_READ
        owners = workload.metadata.owner_references
        own = [group for owner in owners for group in groups.get(owner.uid, ())]
        failure = failed_creation(workload.metadata, failures)
        return Started(None if pods is None else index.of(workload), waiting_group(workload, own), failure)

    return started


def _some_have_pods(workloads: Iterable[Workload | None]) -> Steps[bool]:
    for number, workload in enumerate(workloads, 1):
        if workload is not None and _has_pods(workload):
            return True
        if not number % SLICE_WORKLOADS:
            yield
    return False


def _has_pods(workload: Workload) -> bool:
    return is_admitted(workload) and not is_finished(workload)


async def pod_group_summaries(
    reader: NamespaceReader,
    groups: Iterable[PodGroup],
    facts: Mapping[Key, GroupFacts] = MappingProxyType({}),
) -> AsyncIterator[ExplanationSummary]:
    """Yield the summaries of pod groups, which are sorted; of a group without ``facts`` by its status."""
    for name, of_namespace in groupby(groups, lambda group: group.metadata.namespace):
        pods, failures = await reader.pods(name, ""), await reader.failed_creations(name)
        members: defaultdict[str, list[StartedPod]] = defaultdict(list)
        for pod in pods or ():
            members[pod.pod_group].append(pod)
        for group in of_namespace:
            own = None if pods is None else members[group.metadata.name]
            yield summary_of(
                explain_with_pods(group, facts.get(group.metadata.key), own, failures), group.metadata
            )


def explain_with_pods(
    group: PodGroup,
    facts: GroupFacts | None,
    pods: Sequence[StartedPod] | None,
    failures: Mapping[Uid, FailedCreation],
) -> Explanation:
    """Return the explanation of a pod group with what its pods wait for; ``pods`` may contain others.

    ``pods`` is None if they may not be read.  ``failures``: the last failed creation of a pod, by job.
    """
    if pods is None:
        return explain_group(group, facts)
    key = group.metadata.key
    members = sum(Key(pod.metadata.namespace, pod.pod_group) == key and not has_ended(pod) for pod in pods)
    failure = failed_creation(group.metadata, failures)
    return with_members(explain_group(group, facts, members), pods, failure)


async def started_of(reader: NamespaceReader, workload: Workload) -> Started:
    """Return what the pods and the pod group of ``workload`` say; nothing if it is not admitted."""
    if not is_admitted(workload):
        return NOT_READ
    namespace = workload.metadata.namespace
    pods = await reader.pods(namespace, selector_of(workload))
    group = waiting_group(workload, await reader.pod_groups(namespace))
    failures = await reader.failed_creations(namespace)
    return Started(pods, group, failed_creation(workload.metadata, failures))


async def explain_read_group(reader: ClusterReader, group: PodGroup) -> Explanation:
    """Return the explanation of a pod group with what ``reader`` reads of its pods."""
    namespace = group.metadata.namespace
    facts, pods = await reader.group_facts(group), await reader.pods(namespace, "")
    return explain_with_pods(group, facts, pods, await reader.failed_creations(namespace))


async def encoded_list(
    summaries: AsyncIterator[ExplanationSummary], token: str = "", now: Callable[[], float] | None = None
) -> bytes:
    """Return the list, with the token of the next page, as JSON; other tasks run after each slice of it.

    With ``now`` (epoch seconds) it is a Table.
    """
    items: list[msgspec.Raw] = []
    moment_s = None if now is None else now()
    began = perf_counter()
    async for summary in summaries:
        item = summary if moment_s is None else table_row(summary, moment_s)
        items.append(msgspec.Raw(codec.encode(item)))
        if perf_counter() - began > SLICE_S:
            await asyncio.sleep(0)
            began = perf_counter()
    if moment_s is not None:
        return codec.encode({**table_frame(token), "rows": items})
    frame = codec.to_builtins(ExplanationSummaryList(metadata=ListMeta(continue_=token)))
    return codec.encode({**frame, "items": items})


def prefers_table(accept: str) -> bool:
    """Return True if the first media type of the header ``Accept`` is a Table, as kubectl requests it."""
    _, *parameters = accept.partition(",")[0].split(";")
    return {parameter.strip() for parameter in parameters} >= _TABLE


def table_frame(token: str) -> dict[str, Any]:
    """Return a Table without rows; ``token`` names the next page, and is empty on the last one."""
    columns = [
        {"name": name, "type": "string", "format": form, "description": text, "priority": int(is_wide)}
        for name, form, is_wide, text in _COLUMNS
    ]
    metadata = {"continue": token} if token else {}
    return {
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns
    }  # fmt: skip


def table_row(summary: ExplanationSummary, now: float) -> dict[str, Any]:
    """Return the row of a summary at ``now`` (epoch seconds)."""
    since = "" if summary.since is None else human_duration(now - epoch(summary.since))
    cells = (
        summary.metadata.name, summary.state, summary.code, since, summary.message,
        "; ".join(summary.enough),
    )  # fmt: skip
    identity = {
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": summary.metadata
    }  # fmt: skip
    return {"cells": cells, "object": identity}

"""Ask the controllers for explanations and estimates: they have the model and the Configuration in force."""

from contextlib import suppress
from typing import Final, TypeVar

from quorate.api.explanation import (
    EXPLANATIONS,
    GROUP,
    NATIVE_POD_GROUP,
    SUBRESOURCE,
    Explanation,
    ExplanationSummary,
    ExplanationSummaryList,
    StartEstimate,
    StartEstimateList,
    estimates_path,
    explanations_path,
    path_of,
)
from quorate.api.meta import Key, ObjectMeta
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.native_groups import GROUP as NATIVE_GROUP
from quorate.api.native_groups import PREFIX
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, NotFound, RequestFailed, Unreadable
from quorate.kube.resources import POD_GROUPS, Json, Resource

T = TypeVar("T")

_PAGE: Final = "2000"  # summaries of one answer: some milliseconds to decode
_LONGEST: Final = 200  # of a problem, in messages


class NotServed(Exception):
    """The controllers did not answer; the text says why."""


async def served_explanation(client: Client, plural: str, key: Key) -> Explanation:
    """Return the explanation of a workload, queue or pod group.  Raises ``NotServed``."""
    name = key.name.removeprefix(PREFIX)
    query = {} if name == key.name else {"group": NATIVE_GROUP}
    return await _ask(client, plural, Key(key.namespace, name), query)


async def served_job_explanation(
    client: Client, resource: Resource[Json], job: ObjectMeta, is_suspended: bool | None
) -> Explanation:
    """Return why a job has no Workload.  Raises ``NotServed``."""
    query = {
        "group": resource.group, "resource": resource.plural, "kind": resource.kind,
        "queue": job.labels.get(QUEUE_NAME, ""),
    }  # fmt: skip
    if is_suspended is not None:
        query["suspended"] = str(is_suspended).lower()
    return await _ask(client, "jobs", job.key, query)


async def served_summaries(client: Client, kind: str, namespace: str) -> dict[Key, ExplanationSummary]:
    """Return the summaries of a kind in a namespace, or in all, by key.  Raises ``NotServed``.

    Pod groups are those of Volcano, and Kubernetes' own groups if these may be listed.
    """
    summaries = await _summaries(client, kind, namespace)
    if kind == POD_GROUPS.kind:
        with suppress(NotServed):
            summaries |= await _summaries(client, NATIVE_POD_GROUP, namespace)
    return summaries


async def _summaries(client: Client, kind: str, namespace: str) -> dict[Key, ExplanationSummary]:
    path, needed = explanations_path(namespace), f"list {EXPLANATIONS} in group {GROUP}"
    query = {"kind": kind, "limit": _PAGE}
    summaries: dict[Key, ExplanationSummary] = {}
    while True:
        page = await _read(client, ExplanationSummaryList, path, query, needed)
        summaries.update((item.metadata.key, item) for item in page.items)
        if not page.metadata.continue_:
            return summaries
        query["continue"] = page.metadata.continue_


async def served_estimates(client: Client, namespace: str) -> dict[Key, StartEstimate]:
    """Return when pending workloads of a namespace, or of all, start; no estimates if they are not served."""
    try:
        answer = await _read(client, StartEstimateList, estimates_path(namespace), {}, "list estimates")
    except NotServed:
        return {}
    return {item.metadata.key: item.estimate for item in answer.items}


async def _ask(client: Client, plural: str, key: Key, query: dict[str, str]) -> Explanation:
    needed = f"get {plural}/{SUBRESOURCE} in group {GROUP}"
    return await _read(client, Explanation, path_of(plural, key), query, needed)


async def _read(client: Client, type_: type[T], path: str, query: dict[str, str], needed: str) -> T:
    try:
        return await client.request_as(type_, "GET", path, query=query)
    except NotFound:
        raise NotServed("the cluster does not serve explanations of it") from None
    except Forbidden:
        raise NotServed(f"this needs the permission to {needed}") from None
    except Unreadable as error:
        raise NotServed(f"the answer is of another version: {error.problem}"[:_LONGEST]) from None
    except RequestFailed as error:
        raise NotServed(str(error)[:_LONGEST]) from None

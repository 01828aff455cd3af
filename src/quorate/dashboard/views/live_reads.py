"""What the page shows of one object beyond the model, read with the credentials of the user.

Whatever the user may not read is left out.
"""

import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from quorate.api.core.started_pod import StartedPod
from quorate.api.events import Event
from quorate.api.explanation import Explanation, ExplanationSummary
from quorate.api.meta import Key, is_true
from quorate.api.names.kueue import POD_SET
from quorate.dashboard.limits import MAX_LIVE_PODS, MAX_SHOWN_EVENTS
from quorate.dashboard.schema import EventRow, PodRow
from quorate.inspect.cluster_reader import ClusterReader
from quorate.inspect.explain.served import NotServed, served_explanation
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, Invalid, NotFound
from quorate.kube.resources import EVENTS
from quorate.queueing.explanation.pods import wait_text

_PHASES: Final = ("Failed", "Pending", "Unknown", "Running", "Succeeded")


async def explanation_of(reader: Client, plural: str, key: Key) -> tuple[Explanation | None, str]:
    """Return the explanation that the controllers serve to the user, or why they serve none."""
    try:
        return await served_explanation(reader, plural, key), ""
    except NotServed as problem:
        return None, str(problem)


def readable_explanation(explanation: Explanation, readable: Callable[[str], str]) -> Explanation:
    """Return an explanation from the status of an object, without what the user may not read."""
    return replace(
        explanation,
        message=readable(explanation.message),
        reasons=tuple(replace(reason, text=readable(reason.text)) for reason in explanation.reasons),
    )


def as_listed(
    explanation: Explanation, summary: ExplanationSummary | None, readable: Callable[[str], str]
) -> Explanation:
    """Return an explanation from the status of an object, with state and reason of its ``summary``."""
    if summary is None:
        return explanation
    message, enough = readable(summary.message), tuple(map(readable, summary.enough))
    return replace(explanation, state=summary.state, code=summary.code, message=message, enough=enough)


async def events_of(
    reader: Client, namespace: str, subjects: Iterable[tuple[str, str]]
) -> tuple[EventRow, ...]:
    """Return the events about objects of one namespace, each a kind and a name; newest first."""
    rows: list[EventRow] = []
    for kind, name in subjects:
        selector = f"regarding.kind={kind},regarding.name={name}"
        try:
            events = (await reader.list(EVENTS, namespace, "", selector)).items
        except (Forbidden, NotFound, Invalid):
            continue
        rows.extend(map(_event_row, events))
    rows.sort(key=lambda row: row.at, reverse=True)
    return tuple(rows[:MAX_SHOWN_EVENTS])


def _event_row(event: Event) -> EventRow:
    return EventRow(
        at=event.last_at, type=event.type, reason=event.reason, message=event.note, count=event.occurrences
    )


def pod_rows(pods: Iterable[StartedPod]) -> tuple[PodRow, ...]:
    rows = [
        PodRow(
            name=pod.metadata.name,
            pod_set=pod.metadata.labels.get(POD_SET, ""),
            phase=pod.status.phase,
            node=pod.spec.node_name,
            ready=is_true(pod.status.conditions, "Ready"),
            reason=wait_text(pod),
            containers=tuple(
                status.name
                for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
            ),
        )
        for pod in pods
    ]
    rank = {phase: number for number, phase in enumerate(_PHASES)}
    rows.sort(key=lambda row: (rank.get(row.phase, 0), row.name))
    return tuple(rows[:MAX_LIVE_PODS])


def first_created(pods: Iterable[StartedPod]) -> datetime | None:
    created = (pod.metadata.creation_timestamp for pod in pods)
    return min((moment for moment in created if moment is not None), default=None)


async def pods_of(reader: Client, namespace: str, label_selector: str) -> Sequence[StartedPod]:
    """Return the pods; none if the user may not list them."""
    return await ClusterReader(reader).pods(namespace, label_selector) or ()


def command(*parts: str) -> str:
    """Return a command for a shell, with what its parts need of quotes."""
    return shlex.join(parts)

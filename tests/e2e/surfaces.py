"""What each surface says of the same objects of one cluster: one truth, or a line for each difference.

The explanation that the controllers serve is compared with lists, conditions, ``quorate status``, positions,
queue statuses, events, estimates, metrics, the dashboard, the model of a command, simulation and witness.
"""

import asyncio
import json
import random
import re
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from quorate.api.configuration import default_configuration
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.events import Event
from quorate.api.explanation import (
    NO_START,
    TAKES_TURNS,
    Explanation,
    ExplanationSummary,
    PodCounts,
    summary_of,
)
from quorate.api.kueue import ClusterQueue, LocalQueue, Workload
from quorate.api.meta import Key, find_condition, true_condition
from quorate.dashboard.model.explanation_feed import ExplanationFeed
from quorate.dashboard.model.model import DashboardModel, run_model
from quorate.dashboard.queries import ADMINISTRATOR, NO_ESTIMATES, PodGroupQuery, WorkloadQuery
from quorate.dashboard.views import overview, pod_group_views, queue_views, workload_views
from quorate.inspect.cluster_model import effective_configuration
from quorate.inspect.connection import Connection
from quorate.inspect.explain.own_model import OwnModel
from quorate.inspect.explain.served import served_estimates, served_explanation, served_summaries
from quorate.inspect.explain.summaries import Summaries, summaries
from quorate.inspect.listed_groups import native_pod_groups
from quorate.inspect.live_cluster import read_objects
from quorate.inspect.status.cluster import read_status
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import CLUSTER_QUEUES, COHORTS, EVENTS, LOCAL_QUEUES, NODES, POD_GROUPS, WORKLOADS
from quorate.queueing import conditions as c
from quorate.sdk.blocking import run_blocking
from quorate.sdk.cluster import Cluster
from quorate.simulate.engine.player import play
from quorate.simulate.estimates.snapshot import run_times, snapshot_world
from quorate.witness.admissions import WITNESSED_WORKLOADS
from quorate.witness.pods import WITNESSED_PODS
from quorate.witness.process import OwnerLookup
from quorate.witness.witness import Facts, Witness

Explained = dict[Key, tuple[Workload, Explanation]]
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"
_SERIES = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def differences(cluster: Cluster, metrics_url: str) -> list[str]:
    """Return a line for each fact of which two surfaces say something else; none in a cluster at rest."""

    async def read() -> list[str]:
        async with cluster.connect() as (client, _):
            listed = (await client.list(WORKLOADS)).items
            keys = [workload.metadata.key for workload in listed]
            answers = [await served_explanation(client, "workloads", key) for key in keys]
            states = await summaries(client, "PodGroup", "")
            explained = dict(zip(keys, zip(listed, answers, strict=True), strict=True))
            queues = (await client.list(CLUSTER_QUEUES)).items
            local_queues = (await client.list(LOCAL_QUEUES)).items
            return [
                *[line async for line in _of_workloads(client, explained)],
                *[line async for line in _of_queues(client, explained, queues, local_queues)],
                *_of_metrics(_series(metrics_url), queues, local_queues),
                *await _of_dashboard(client, explained, states, queues, local_queues),
                *await _of_pod_groups(client, states),
                *await _of_simulation(client, explained),
                *await _of_witness(client, queues),
            ]

    return run_blocking(read)


def _unequal(what: str, **said: Any) -> Iterator[str]:
    """Yield a line if not all of ``said``, by surface, are equal."""
    first, *others = said.values()
    if any(other != first for other in others):
        yield f"{what}: {', '.join(f'{surface} {value!r}' for surface, value in said.items())}"


async def _of_workloads(client: Client, explained: Explained) -> Any:
    """Yield differences of lists, conditions, ``quorate status`` and the model of a command."""
    summaries = await served_summaries(client, "Workload", "")
    estimates = await served_estimates(client, "")
    events = (await client.list(EVENTS)).items
    status = await read_status(Connection(client, ""), finished=True)
    jobs = {(job.namespace, job.kind, job.name): job for job in status.jobs}
    own = await OwnModel.load(client, None)
    for key, (workload, explanation) in explained.items():
        summary = summary_of(explanation, workload.metadata)
        for line in _unequal(f"{key} in lists", list=_at_rest(summaries.get(key)), explain=_at_rest(summary)):
            yield line
        for line in _of_events(key, workload, events, explanation):
            yield line
        waiting = true_condition(workload.status.conditions, c.WAITING)
        codes = {reason.code for reason in explanation.reasons}
        if waiting is not None and not c.is_finished(workload) and waiting.reason not in codes:
            yield f"{key}: its condition says {waiting.reason}, explain {sorted(codes)}"
        own_state = (await own.workload(workload)).state
        for line in _unequal(f"{key} state", own_model=own_state, explain=explanation.state):
            yield line
        owner = next(iter(workload.metadata.owner_references), None)
        names = ("Workload", key.name) if owner is None else (owner.kind, owner.name)
        job = jobs[(key.namespace, *names)]
        if explanation.state == "Finished" != job.state:  # another workload took its place
            continue
        pods, waits = explanation.pods, explanation.state not in ("Running", "Finished")
        for line in _unequal(
            f"{key} in status",
            status=(job.state, job.code, job.why, job.enough, job.since, job.running_pods),
            explain=(
                explanation.state, explanation.code, explanation.message if waits else "",
                explanation.enough if waits else (),
                explanation.since, (pods.running or 0) if pods is not None else 0,
            ),
        ):  # fmt: skip
            yield line
        takes_turns = explanation.state in TAKES_TURNS
        for line in _unequal(f"{key} start", explain=explanation.estimate, status=job.estimate, list=(
            estimates.get(key)
        )):  # fmt: skip
            yield line
        if explanation.estimate is not None and not takes_turns:
            yield f"{key}: {explanation.state}, and has an estimated start"


def _at_rest(summary: ExplanationSummary | None) -> ExplanationSummary | None:
    """Return the summary without the text of a raised priority, which counts the seconds of waiting."""
    if summary is None or summary.priority is None:
        return summary
    return replace(summary, priority=replace(summary.priority, text=""))


def _of_events(
    key: Key, workload: Workload, events: Sequence[Event], explanation: Explanation
) -> Iterator[str]:
    """Yield a line if the last warning of a pending workload, or explain, is not what its condition says."""
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    if reserved is None or reserved.status == "True" or c.is_finished(workload):
        return
    uid = workload.metadata.uid
    own = [event for event in events if event.regarding is not None and event.regarding.uid == uid]
    last = max((event for event in own if event.type == "Warning"), key=attrgetter("last_at"), default=None)
    if last is not None:
        event, condition = (last.reason, last.note), (reserved.reason, reserved.message)
        yield from _unequal(f"{key} told", event=event, condition=condition)
    if explanation.state != "Deactivated" and not explanation.message.endswith(reserved.message):
        yield f"{key}: its condition says {reserved.message}, explain {explanation.message}"


async def _of_pod_groups(client: Client, states: Summaries) -> list[str]:
    """Return differences of lists, explanations and ``quorate status`` of pod groups of both APIs."""
    groups = [
        *(await client.list(POD_GROUPS)).items,
        *(await native_pod_groups(client, "") or ()),
    ]
    status = await read_status(Connection(client, ""), finished=True)
    jobs = {(job.namespace, job.name): job for job in status.jobs}
    lines: list[str] = []
    for group in groups:
        key, listed = group.metadata.key, states.of_pod_group(group)
        explained = await served_explanation(client, "podgroups", key)
        assert key in states.by_key, f"{key} is in no list"
        lines += _unequal(
            f"pod group {key}",
            list=(listed.state, listed.code, listed.pods),
            explain=(explained.state, explained.code, explained.pods),
        )
        owner = next(iter(group.metadata.owner_references), None)
        job = jobs.get((key.namespace, key.name if owner is None else owner.name))
        if job is not None:
            waits = listed.state not in ("Running", "Finished")
            lines += _unequal(
                f"pod group {key} in status",
                status=(job.state, job.code, job.why, job.enough),
                list=(listed.state, listed.code, listed.message if waits else "", listed.enough),
            )
    return lines


async def _of_simulation(client: Client, explained: Explained) -> list[str]:
    """Return differences of the reasons for which workloads wait when a simulation of the cluster ends."""
    objects = {resource: found async for resource, found in read_objects(client)}
    configuration = (await effective_configuration(client, None)).configuration
    times = run_times(objects[WORKLOADS], assumed_s=60.0)
    run = play(snapshot_world(objects, times, WallClock().now(), configuration))
    waiting = {unended.name: unended.reason for unended in run.waiting}
    lines = []
    for key, (_, explanation) in explained.items():
        reason = waiting.get(key.name, "nothing")
        if explanation.state in NO_START and not explanation.message.endswith(reason):
            lines.append(f"{key}: a simulation says {reason}, explain {explanation.message}")
    return lines


async def _of_witness(client: Client, queues: Sequence[ClusterQueue]) -> list[str]:
    """Return faults of the witness, and cluster queues of which it sees more used than their status says."""
    pods = (await client.list(WITNESSED_PODS)).items
    owners = OwnerLookup(client)
    await owners.look_up(pods)
    facts = Facts(
        resources=ResourceOptions(), pods=pods, workloads=(await client.list(WITNESSED_WORKLOADS)).items,
        cluster_queues=queues, cohorts=(await client.list(COHORTS)).items,
        nodes=(await client.list(NODES)).items, owners=owners.controllers,
    )  # fmt: skip
    report = Witness(0.0).observe(facts, WallClock().now())
    counted = {
        (queue.metadata.name, usage.name, resource.name): resource.total.nanos
        for queue in queues
        for usage in queue.status.flavors_usage
        for resource in usage.resources
    }
    return [
        *(f"witness: {difference.message}" for difference in report.differences),
        *(
            f"cluster queue {usage.holder.name}: pods use {usage.used} of {usage.of}, its status less"
            for usage in report.usage
            if usage.holder.kind == "ClusterQueue"
            and usage.used > counted.get((usage.holder.name, usage.of.flavor, usage.of.resource), 0)
        ),
    ]


async def _of_queues(client: Client, explained: Explained, queues: Any, local_queues: Any) -> Any:
    """Yield differences of positions, statuses and explanations of queues."""
    in_order: dict[Key, int] = {}
    for queue in queues:
        name = queue.metadata.name
        pending = await _pending(client, f"clusterqueues/{name}")
        in_order |= {key: position for position, key in enumerate(pending)}
        mine = [workload for workload, found in explained.values() if found.cluster_queue == name]
        with_quota = [each for each in mine if c.has_quota_reservation(each) and not c.is_finished(each)]
        found = await served_explanation(client, "clusterqueues", queue.metadata.key)
        for line in _unequal(
            f"cluster queue {name}: pending, with quota, admitted",
            status=_counts(queue),
            workloads=(len(pending), len(with_quota), sum(map(c.is_admitted, with_quota))),
        ):
            yield line
        if _shown(queue) not in found.message or (found.ahead, found.code) != (len(pending), _code(queue)):
            yield f"cluster queue {name}: explain {found.message}, {found.code}; status {_shown(queue)}"
    for key, (_, explanation) in explained.items():
        for line in _unequal(f"{key} position", visibility=in_order.get(key), explain=explanation.ahead):
            yield line
    for local_queue in local_queues:
        key = local_queue.metadata.key
        pending = await _pending(client, f"namespaces/{key.namespace}/localqueues/{key.name}")
        if pending != sorted(pending, key=in_order.__getitem__):
            yield f"{key}: its positions are not those of its cluster queue"
        found = await served_explanation(client, "localqueues", key)
        if _shown(local_queue) not in found.message:
            yield f"local queue {key}: explain {found.message}; status {_shown(local_queue)}"


async def _pending(client: Client, queue: str) -> list[Key]:
    answer = await client.request("GET", f"{_VISIBILITY}/{queue}/pendingworkloads", query={"limit": "1000"})
    metadata = [item["metadata"] for item in json.loads(answer)["items"]]
    return [Key(found["namespace"], found["name"]) for found in metadata]


def _counts(queue: ClusterQueue | LocalQueue) -> tuple[int, int, int]:
    status = queue.status
    return status.pending_workloads, status.reserving_workloads, status.admitted_workloads


def _shown(queue: ClusterQueue | LocalQueue) -> str:
    pending, reserving, _ = _counts(queue)
    return f"{pending} pending and {reserving} with quota"


def _code(queue: ClusterQueue) -> str:
    (active,) = queue.status.conditions
    return "" if active.status == "True" else active.reason


def _series(url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    families = defaultdict(list)
    with urllib.request.urlopen(url, timeout=60) as answer:
        for line in answer.read().decode().splitlines():
            if (match := _SERIES.fullmatch(line)) is not None:
                families[match[1]].append((dict(_LABEL.findall(match[2])), float(match[3])))
    return families


def _of_metrics(
    series: dict[str, list[tuple[dict[str, str], float]]], queues: Any, local_queues: Any
) -> Iterator[str]:
    def total(family: str, **labels: str) -> float:
        return sum(value for found, value in series[family] if labels.items() <= found.items())

    families = ("pending_workloads", "reserving_active_workloads", "admitted_active_workloads")
    for queue in queues:
        name = queue.metadata.name
        found = tuple(total(f"kueue_{family}", cluster_queue=name) for family in families)
        yield from _unequal(f"cluster queue {name}", metrics=found, status=_counts(queue))
    for queue in local_queues:
        key = queue.metadata.key
        labels = {"name": key.name, "namespace": key.namespace}
        found = tuple(total(f"kueue_local_queue_{family}", **labels) for family in families)
        yield from _unequal(f"local queue {key}", metrics=found, status=_counts(queue))


async def _of_dashboard(
    client: Client, explained: Explained, states: Summaries, queues: Any, local_queues: Any
) -> list[str]:
    lines: list[str] = []
    async with (
        Client(client.config, random.Random(1)) as own,
        run_model(own, WallClock(), default_configuration()) as model,
    ):
        async with asyncio.timeout(60):
            await model.ready.wait()
        await ExplanationFeed(model, own, WallClock(), lambda: True).refresh()
        lines += _of_page(model, explained)
        lines += _of_groups_in_page(model, states.by_key)
        now = WallClock().now()
        shown = {each.name: each for each in queue_views.cluster_queues(model.data, ADMINISTRATOR, now)}
        for queue in queues:
            found = shown[queue.metadata.name]
            counts = (found.pending, found.reserving, found.admitted)
            lines += _unequal(f"cluster queue {found.name}", dashboard=counts, status=_counts(queue))
        local = {
            Key(each.namespace, each.name): each
            for each in queue_views.local_queues(model.data, ADMINISTRATOR, now)
        }
        for queue in local_queues:
            found_local = local[queue.metadata.key]
            counts = (found_local.pending, found_local.reserving, found_local.admitted)
            lines += _unequal(f"local queue {queue.metadata.key}", dashboard=counts, status=_counts(queue))
    return lines


def _of_groups_in_page(model: DashboardModel, served: Mapping[Key, ExplanationSummary]) -> Iterator[str]:
    page = pod_group_views.pod_groups(model.data, ADMINISTRATOR, PodGroupQuery(limit=500))
    shown = {Key(row.namespace, row.name): (row.state, row.code, row.running) for row in page.items}
    listed = {
        key: (summary.state, summary.code, (summary.pods or PodCounts()).running or 0)
        for key, summary in served.items()
    }
    yield from _unequal("pod groups", page=shown, list=listed)


def _of_page(model: DashboardModel, explained: Explained) -> Iterator[str]:
    page = workload_views.workloads(model.data, ADMINISTRATOR, WorkloadQuery(limit=1000), NO_ESTIMATES)
    for row in page.items:
        workload, explanation = explained[Key(row.namespace, row.name)]
        waits_for_turn = explanation.state in TAKES_TURNS
        yield from _unequal(
            f"{workload.metadata.key} in the dashboard",
            page=(row.state, row.code, row.reason, row.since, row.position, row.cluster_queue),
            explain=(
                explanation.state, explanation.code, explanation.message if explanation.code else "",
                explanation.since or workload.metadata.creation_timestamp,
                explanation.ahead if waits_for_turn else None, explanation.cluster_queue,
            ),
        )  # fmt: skip
    states = Counter(explanation.state for _, explanation in explained.values())
    counts = overview.overview(model.data, ADMINISTRATOR, WallClock().now()).counts
    yield from _unequal("states", overview=counts.states, explain=dict(states))

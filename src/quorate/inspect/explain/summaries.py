"""The states of all workloads or pod groups of a list, with the reasons for them.

The controllers answer with the summaries of their explanations.  Where they do not, this process computes
the summaries from the stored objects, without the model of the queues.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from quorate.api.explanation import ExplanationSummary, state_text, summary_of
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job as VolcanoJob
from quorate.inspect.explain.served import NotServed, served_explanation, served_summaries
from quorate.inspect.listed_groups import readable_objects
from quorate.kube.client import Client
from quorate.kube.resources import POD_GROUPS, WORKLOADS

if TYPE_CHECKING:
    from quorate.queueing.state import State


@dataclass(frozen=True)
class Summaries:
    """Summaries by key; ``problem`` says why the controllers did not answer, and is empty if they did."""

    served: Mapping[Key, ExplanationSummary]
    problem: str = ""

    def of_workload(self, workload: Workload) -> ExplanationSummary:
        return self.served.get(workload.metadata.key) or self._of_stored_workload(workload)

    def of_pod_group(self, group: PodGroup) -> ExplanationSummary:
        from quorate.gang.explanation import explain_group

        return self.served.get(group.metadata.key) or summary_of(explain_group(group), group.metadata)

    def of_native_group(self, group: NativePodGroup) -> ExplanationSummary:
        from quorate.gang.cache.native_groups import as_volcano_group

        return self.of_pod_group(as_volcano_group(group))

    def _of_stored_workload(self, workload: Workload) -> ExplanationSummary:
        from quorate.queueing.explanation.workload import explain_workload

        return summary_of(explain_workload(self._no_objects, workload, None), workload.metadata)

    @cached_property
    def _no_objects(self) -> "State":
        return _state_without_objects()


def _state_without_objects() -> "State":
    from quorate.api.configuration import default_configuration
    from quorate.queueing.state import State

    return State(default_configuration())


@dataclass(frozen=True)
class VolcanoJobStates:
    """Summaries of Volcano Jobs: of the Workload of a job if it has one, else of its pod group."""

    by_job: Mapping[Uid, ExplanationSummary]

    def of_job(self, job: VolcanoJob) -> ExplanationSummary:
        """Return the summary of a job; its own status decides if it has ended, or has no pod group yet."""
        from quorate.gang.explanation import explain_job_without_group

        of_status, of_group = explain_job_without_group(job), self.by_job.get(job.metadata.uid)
        if of_group is not None and of_status.state != "Finished":
            return msgspec.structs.replace(of_group, metadata=job.metadata)
        return summary_of(of_status, job.metadata)


async def volcano_job_states(client: Client, namespace: str) -> tuple[VolcanoJobStates, str]:
    """Return the states of the Volcano Jobs in a namespace, or in all, and why some may lack their pods."""
    groups, workloads, of_groups, of_workloads = await asyncio.gather(
        readable_objects(client, POD_GROUPS, namespace),
        readable_objects(client, WORKLOADS, namespace),
        summaries(client, "PodGroup", namespace),
        summaries(client, "Workload", namespace),
    )
    by_job = {
        owner.uid: of_groups.of_pod_group(group)
        for group in groups or ()
        for owner in group.metadata.owner_references
    }
    by_job |= {
        owner.uid: of_workloads.of_workload(workload)
        for workload in workloads or ()
        for owner in workload.metadata.owner_references
    }
    return VolcanoJobStates(by_job), of_groups.problem or (of_workloads.problem if workloads else "")


async def unstarted(client: Client) -> list[str]:
    """Return a line for each workload and pod group that neither runs nor has finished, in any namespace."""
    lines = []
    for kind in ("Workload", "PodGroup"):
        try:
            served = await served_summaries(client, kind, "")
        except NotServed:
            continue
        lines += [
            f"{kind} {key}: {state_text(summary)}"
            for key, summary in served.items()
            if summary.state not in ("Running", "Finished")
        ]
    return lines


async def summaries(client: Client, kind: str, namespace: str) -> Summaries:
    """Return the summaries of a kind, ``Workload`` or ``PodGroup``, in a namespace; in all if it is empty."""
    try:
        return Summaries(await served_summaries(client, kind, namespace))
    except NotServed as problem:
        return Summaries(
            await _stored_summaries(client, kind, namespace),
            f"states are those of the stored objects: {problem}",
        )


async def summary_of_workload(client: Client, workload: Workload) -> ExplanationSummary:
    """Return the summary of a workload as the controllers serve it, or else by the stored Workload alone."""
    try:
        explanation = await served_explanation(client, WORKLOADS.plural, workload.metadata.key)
    except NotServed:
        return Summaries({}).of_workload(workload)
    return summary_of(explanation, workload.metadata)


async def _stored_summaries(client: Client, kind: str, namespace: str) -> dict[Key, ExplanationSummary]:
    """Return the summaries of the stored objects and their pods, as far as these may be read."""
    from quorate.inspect.cluster_reader import ClusterReader
    from quorate.observe.explanation_lists import pod_group_summaries, workload_summaries
    from quorate.queueing.explanation.scope import UNLIMITED_SCOPE

    reader = ClusterReader(client)
    if kind == "PodGroup":
        of_both = *await reader.pod_groups(namespace), *await reader.native_pod_groups(namespace)
        groups = sorted(of_both, key=lambda group: group.metadata.key)
        explained = pod_group_summaries(reader, groups)
    else:
        workloads = {
            workload.metadata.key: workload
            for workload in await readable_objects(client, WORKLOADS, namespace) or ()
        }
        state = _state_without_objects()
        explained = workload_summaries(state, sorted(workloads), workloads.get, reader, UNLIMITED_SCOPE)
    return {summary.metadata.key: summary async for summary in explained}

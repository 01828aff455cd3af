"""The states of all workloads or pod groups of a list, with the reasons for them.

The controllers answer with the summaries of their explanations.  Where they do not, this process loads the
models with which it explains one object, and computes the summaries of all.  Without the permission to read
the cluster the summaries are those of the stored objects.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from quorate.api.explanation import ExplanationSummary, state_text, summary_of
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job as VolcanoJob
from quorate.inspect.explain.served import NotServed, served_summaries
from quorate.inspect.listed_groups import readable_objects
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import POD_GROUPS, WORKLOADS

if TYPE_CHECKING:
    from quorate.queueing.state import State

_STORED: Final = "states are those of the stored objects"


@dataclass(frozen=True)
class Summaries:
    """Summaries by key.

    ``problem`` says why the controllers did not answer and how the summaries were computed; it is empty if
    they answered.
    """

    by_key: Mapping[Key, ExplanationSummary]
    problem: str = ""

    def of_workload(self, workload: Workload) -> ExplanationSummary:
        return self.by_key.get(workload.metadata.key) or self._of_stored_workload(workload)

    def of_pod_group(self, group: PodGroup) -> ExplanationSummary:
        from quorate.gang.explanation import explain_group

        return self.by_key.get(group.metadata.key) or summary_of(explain_group(group), group.metadata)

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
    return [
        f"{kind} {key}: {state_text(summary)}"
        for kind in (WORKLOADS.kind, POD_GROUPS.kind)
        for key, summary in (await summaries(client, kind, "")).by_key.items()
        if summary.state not in ("Running", "Finished")
    ]


async def summaries(client: Client, kind: str, namespace: str) -> Summaries:
    """Return the summaries of a kind, ``Workload`` or ``PodGroup``, in a namespace; in all if it is empty."""
    try:
        return Summaries(await served_summaries(client, kind, namespace))
    except NotServed as problem:
        compute = _of_groups if kind == POD_GROUPS.kind else _of_workloads
        return await compute(client, namespace, str(problem))


async def _of_workloads(client: Client, namespace: str, problem: str) -> Summaries:
    """Return the summaries of workloads by the model of the whole cluster, as far as it may be read."""
    from quorate.inspect.cluster_reader import ClusterReader
    from quorate.inspect.explain.own_model import OwnModel
    from quorate.observe.explanation_lists import workload_summaries
    from quorate.queueing.explanation.scope import UNLIMITED_SCOPE

    listed = await readable_objects(client, WORKLOADS, namespace) or ()
    workloads = {workload.metadata.key: workload for workload in listed}
    if not workloads:
        return Summaries({})
    try:
        model = await OwnModel.load(client, None)
    except (Forbidden, NotFound):
        state, text = _state_without_objects(), f"{_STORED}: {problem}"
    else:
        state, text = model.state, f"states are evaluated with {model.origin}: {problem}"
    explained = workload_summaries(
        state, sorted(workloads), workloads.get, ClusterReader(client), UNLIMITED_SCOPE
    )
    return Summaries({summary.metadata.key: summary async for summary in explained}, text)


async def _of_groups(client: Client, namespace: str, problem: str) -> Summaries:
    """Return the summaries of pod groups by sessions of the scheduler, as far as the cluster may be read."""
    from quorate.inspect.cluster_reader import ClusterReader
    from quorate.observe.explanation_lists import pod_group_summaries

    reader = ClusterReader(client)
    of_both = *await reader.pod_groups(namespace), *await reader.native_pod_groups(namespace)
    if not of_both:
        return Summaries({})
    facts, missing = await reader.facts_of_groups(of_both)
    explained = pod_group_summaries(reader, sorted(of_both, key=lambda group: group.metadata.key), facts)
    text = f"states are evaluated by sessions of the scheduler{missing}" if facts else _STORED
    return Summaries({summary.metadata.key: summary async for summary in explained}, f"{text}: {problem}")

"""The states of all workloads or pod groups of a list, with the reasons for them.

The controllers answer with the summaries of their explanations.  Where they do not, the summaries are those
of the stored objects, which do not tell what the pods wait for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from quorate.api.explanation import ExplanationSummary, state_text, summary_of
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.inspect.explain.served import NotServed, served_summaries
from quorate.inspect.workload_status import why_not_running
from quorate.kube.client import Client

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

    def _of_stored_workload(self, workload: Workload) -> ExplanationSummary:
        from quorate.queueing.explanation.workload import explain_workload

        summary = summary_of(explain_workload(self._no_objects, workload, None), workload.metadata)
        why = why_not_running(workload)
        return msgspec.structs.replace(summary, message=why) if why else summary

    @cached_property
    def _no_objects(self) -> "State":
        from quorate.api.configuration import default_configuration
        from quorate.queueing.state import State

        return State(default_configuration())


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
        return Summaries({}, f"states are those of the stored objects, without their pods: {problem}")

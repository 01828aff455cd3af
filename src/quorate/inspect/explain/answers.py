"""Explanations of workloads, jobs, pod groups and queues, by the controllers or by an own model.

The cores are imported when this process evaluates something itself: mostly the controllers answer.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from quorate.api.explanation import NO_WORKLOAD, Explanation, Reason
from quorate.api.meta import ObjectMeta
from quorate.api.names.kueue import PRIORITY_CLASS
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.served import NotServed, served_explanation, served_job_explanation
from quorate.inspect.explain.targets import OfJob, OfObject, OfVolcanoJob, OfWorkload, Target
from quorate.kube.errors import Forbidden
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, LOCAL_QUEUES, Resource

if TYPE_CHECKING:
    from quorate.inspect.explain.own_model import OwnModel

_ENOUGH: Final = {
    "WorkloadPriorityClassNotFound": f"create the class, or name another in the label {PRIORITY_CLASS}",
    "ErrWorkloadCompose": "create what the message names, or correct the job",
}  # by the reason of an event


@dataclass(slots=True)
class Answers:
    """Explains workloads, pods and queues for a command.

    The explanations are those of the running controllers if these serve any.  Otherwise this process loads a
    model of the cluster, once, and explains all targets with it.
    """

    connection: Connection
    config: Path | None
    _model: "OwnModel | None" = None
    _origins: dict[str, None] = field(default_factory=dict)

    @property
    def has_model(self) -> bool:
        return self._model is not None

    @property
    def origins(self) -> tuple[str, ...]:
        """Return where the explanations are from, in the order of the first use, as text for a user."""
        return tuple(self._origins)

    async def of(self, target: Target) -> Explanation:
        client = self.connection.client
        match target:
            case OfWorkload(workload, pod):
                key = workload.metadata.key

                async def own() -> Explanation:
                    return await self._own_workload(target)

                explanation = await self._served_or(lambda: served_explanation(client, "workloads", key), own)
                if pod is None:
                    return explanation
                from quorate.queueing.explanation.pods import explain_pod

                return explain_pod(pod, explanation)
            case OfObject(plural, key, _):
                return await self._served_or(
                    lambda: served_explanation(client, plural, key), lambda: self._own_object(target)
                )
            case OfJob(resource, job, is_suspended):
                explanation = await self._served_or(
                    lambda: served_job_explanation(client, resource, job, is_suspended),
                    lambda: self._own_job(target),
                )
                return await self._with_warning(explanation, job)
            case OfVolcanoJob(volcano_job):
                from quorate.gang.explanation import explain_job_without_group

                return explain_job_without_group(volcano_job)
        assert_never(target)

    async def _with_warning(self, explanation: Explanation, job: ObjectMeta) -> Explanation:
        """Add what the controllers say in an event about a job of which they made no Workload."""
        if [reason.code for reason in explanation.reasons] != [NO_WORKLOAD]:
            return explanation
        try:
            events = (await self.connection.client.list(EVENTS, job.namespace)).items
        except Forbidden:
            return explanation
        warnings = [
            event
            for event in events
            if event.type == "Warning" and event.regarding is not None and event.regarding.uid == job.uid
        ]
        if not warnings:
            return explanation
        last = max(warnings, key=attrgetter("last_at"))
        enough = _ENOUGH.get(last.reason, "")
        reason = Reason(code=last.reason, text=last.note, enough=enough)
        return msgspec.structs.replace(
            explanation,
            message=f"{explanation.message}: {last.note}",
            reasons=(reason, *explanation.reasons),
            enough=(enough,) if enough else explanation.enough,
        )

    async def _served_or(
        self, serve: Callable[[], Awaitable[Explanation]], own: Callable[[], Awaitable[Explanation]]
    ) -> Explanation:
        if self.config is not None:
            return await own()
        try:
            explanation = await serve()
        except NotServed as problem:
            try:
                explanation = await own()
            except Forbidden as error:
                what = f"{problem}; nor from the objects of the cluster: {error.refusal}"
                raise UsageError(f"not explained by the controllers: {what}") from None
            self._origins[f"not explained by the controllers: {problem}"] = None
            return explanation
        self._origins["explained by the controllers"] = None
        return explanation

    async def _loaded(self) -> "OwnModel":
        from quorate.inspect.explain.own_model import OwnModel

        if self._model is None:
            self._model = await OwnModel.load(self.connection.client, self.config)
            self._origins[f"evaluated with {self._model.origin}"] = None
        return self._model

    async def _own_workload(self, target: OfWorkload) -> Explanation:
        try:
            return await (await self._loaded()).workload(target.workload)
        except Forbidden as error:
            from quorate.inspect.explain.own_model import explain_stored_workload

            self._origins[f"from the status of the workload, because the cluster cannot be read: {error}"] = (
                None
            )
            return await explain_stored_workload(self.connection.client, target.workload)

    async def _own_object(self, target: OfObject) -> Explanation:
        if target.plural == "podgroups":
            from quorate.inspect.explain.own_model import explain_stored_group

            explanation = await explain_stored_group(self.connection.client, target.key)
            if explanation is None and target.pod is not None:
                from quorate.queueing.explanation.pods import explain_pod_without_group

                explanation = explain_pod_without_group(target.pod)
        else:
            is_local = target.plural == "localqueues"
            resource: Resource[Any] = LOCAL_QUEUES if is_local else CLUSTER_QUEUES
            await self.connection.client.get(resource, target.key)  # an absent one is said to be, with a hint
            model = await self._loaded()
            explanation = model.local_queue(target.key) if is_local else model.cluster_queue(target.key.name)
        if explanation is None:
            raise UsageError(f"{target.plural}: {target.key} does not exist, or may not be read")
        return explanation

    async def _own_job(self, target: OfJob) -> Explanation:
        return (await self._loaded()).job(target)

"""``quorate explain``: the state of a workload, job, pod, pod group or queue, and what would let it start."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, assert_never

import msgspec
import typer

from quorate.api.configuration import default_configuration
from quorate.api.events import Event
from quorate.api.explanation import Explanation, Reason
from quorate.api.kueue import PRIORITY_CLASS, QUEUE_NAME
from quorate.api.meta import ObjectMeta
from quorate.cli.cluster_reader import ClusterReader
from quorate.cli.configuration_options import Config
from quorate.cli.exit_codes import Exit
from quorate.cli.verbs import options as o
from quorate.cli.verbs.explain.own_model import OwnModel, started_of
from quorate.cli.verbs.explain.sections import explanation_sections
from quorate.cli.verbs.explain.served import NotServed, served_explanation, served_job_explanation
from quorate.cli.verbs.explain.targets import OfJob, OfObject, OfWorkload, Target, named_targets
from quorate.cli.verbs.job_names import Workloads
from quorate.cli.verbs.printing import is_structured, print_sections, print_value
from quorate.controllers.jobs.unserved import why_not_queued
from quorate.gang.explanation import explain_group
from quorate.inspect.errors import UsageError
from quorate.kube.errors import Forbidden
from quorate.kube.resources import EVENTS
from quorate.queueing.explanation.jobs import NO_WORKLOAD, UnqueuedJob, explain_unqueued_job
from quorate.queueing.explanation.pods import explain_pod, with_members
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.state import State

POLL_S: Final = 2.0  # between two questions to the controllers
RELOAD_S: Final = 10.0  # between two loads of the whole cluster
_ENOUGH: Final = {
    "WorkloadPriorityClassNotFound": f"create the class, or name another in the label {PRIORITY_CLASS}"
}  # by the reason of an event
_STARTED: Final = ("Running", "RunningInPart", "Finished")

Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        "-w",
        help="Print each change until it starts, or cannot by itself; of a queue until Ctrl-C.",
    ),
]


def explain(
    names: Workloads,
    config: Config = None,
    watch: Watch = False,
    namespace: o.Namespace = "",
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Explain the state of a workload, job, pod, pod group or queue, and what would let it start.

    The controllers answer, with their model and their Configuration. Where they do not serve explanations,
    or with [b]--config[/b], the command reads the whole cluster and evaluates it by their rules. Without the
    permission for that it shows what the status of the workload says. It prints which of them it did.

    [b]Example:[/b] quorate explain job/train
    """
    _explain(o.ClusterOptions(kubeconfig, context, namespace), names, config, watch, output)


def explain_workloads(
    names: Workloads,
    config: Config = None,
    watch: Watch = False,
    namespace: o.Namespace = "",
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Explain why a workload is pending, with numbers, and what would let it start.

    The same as [b]quorate explain[/b].

    [b]Example:[/b] quorate workload explain job/train
    """
    _explain(o.ClusterOptions(kubeconfig, context, namespace), names, config, watch, output)


def _explain(
    cluster: o.ClusterOptions, names: list[str], config: Path | None, watch: bool, output: o.Output
) -> None:
    if watch and len(names) != 1:
        raise UsageError("--watch follows one object (name one)")

    async def show(connection: o.Connection) -> Exit:
        answers = Answers(connection, config)
        found = [each for name in names for each in await named_targets(connection, name)]
        explanations = [await answers.of(each) for each in found]
        answers.print_origin()
        for explanation in explanations:
            _print(explanation, output)
        return await follow(connection, config, names[0], explanations, output) if watch else Exit.COMPLETED

    code = o.with_cluster(cluster, show)
    if code:
        raise typer.Exit(code)


async def follow(
    connection: o.Connection,
    config: Path | None,
    name: str,
    last: list[Explanation],
    output: o.Output,
) -> Exit:
    """Print each change of the explanations until all have started, or one cannot start by itself.

    Queues do not start: they are followed until this is cancelled.
    """
    pause_s = POLL_S
    while not all(each.state in _STARTED for each in last):
        if any(map(_is_stuck, last)):
            return Exit.NO_PROGRESS
        await asyncio.sleep(pause_s)
        answers = Answers(connection, config)
        current = [await answers.of(each) for each in await named_targets(connection, name)]
        for explanation in current:
            if not any(_says_the_same(explanation, before) for before in last):
                _print(explanation, output)
        pause_s, last = (RELOAD_S if answers.has_model else POLL_S), current
    return Exit.COMPLETED


def _last_time(event: Event) -> str:
    return event.event_time if event.series is None else event.series.last_observed_time


def _is_stuck(explanation: Explanation) -> bool:
    """Return True if nothing changes by itself."""
    is_new = any(reason.code == NO_WORKLOAD for reason in explanation.reasons)
    return explanation.state == "Deactivated" or (explanation.state == "NotQueued" and not is_new)


def _says_the_same(one: Explanation, other: Explanation) -> bool:
    return (one.object, one.state, one.message, one.ahead) == (
        other.object, other.state, other.message, other.ahead,
    )  # fmt: skip


def _print(explanation: Explanation, output: o.Output) -> None:
    if is_structured(output):
        print_value(explanation, output)
    else:
        print_sections(explanation_sections(explanation))


@dataclass(slots=True)
class Answers:
    """Explanations of one moment, by the controllers or by the model of this process, loaded once."""

    connection: o.Connection
    config: Path | None
    _model: OwnModel | None = None
    _origins: dict[str, None] = field(default_factory=dict)

    @property
    def has_model(self) -> bool:
        return self._model is not None

    def print_origin(self) -> None:
        for origin in self._origins:
            typer.echo(origin, err=True)

    async def of(self, target: Target) -> Explanation:
        client = self.connection.client
        match target:
            case OfWorkload(workload, pod):
                key = workload.metadata.key

                async def own() -> Explanation:
                    return await self._own_workload(target)

                found = await self._served_or(lambda: served_explanation(client, "workloads", key), own)
                return found if pod is None else explain_pod(pod, found)
            case OfObject(plural, key):
                return await self._served_or(
                    lambda: served_explanation(client, plural, key), lambda: self._own_object(target)
                )
            case OfJob(resource, job):
                found = await self._served_or(
                    lambda: served_job_explanation(client, resource, job), lambda: self._own_job(target)
                )
                return await self._with_warning(found, job)
        assert_never(target)

    async def _with_warning(self, found: Explanation, job: ObjectMeta) -> Explanation:
        """Add what the controllers say in an event about a job of which they made no Workload."""
        if [each.code for each in found.reasons] != [NO_WORKLOAD]:
            return found
        try:
            events = (await self.connection.client.list(EVENTS, job.namespace)).items
        except Forbidden:
            return found
        warnings = [
            each
            for each in events
            if each.type == "Warning" and each.regarding is not None and each.regarding.uid == job.uid
        ]
        if not warnings:
            return found
        last = max(warnings, key=_last_time)
        enough = _ENOUGH.get(last.reason, "")
        reason = Reason(code=last.reason, text=last.note, enough=enough)
        return msgspec.structs.replace(
            found,
            message=f"{found.message}: {last.note}",
            reasons=(reason, *found.reasons),
            enough=(enough,) if enough else found.enough,
        )

    async def _served_or(
        self, serve: Callable[[], Awaitable[Explanation]], own: Callable[[], Awaitable[Explanation]]
    ) -> Explanation:
        if self.config is not None:
            return await own()
        try:
            found = await serve()
        except NotServed as problem:
            try:
                found = await own()
            except Forbidden as error:
                what = f"{problem}; nor from the objects of the cluster: {error}"
                raise UsageError(f"not explained by the controllers: {what}") from None
            self._origins[f"not explained by the controllers: {problem}"] = None
            return found
        self._origins["explained by the controllers"] = None
        return found

    async def _loaded(self) -> OwnModel:
        if self._model is None:
            self._model = await OwnModel.load(self.connection.client, self.config)
            self._origins[f"evaluated with {self._model.origin}"] = None
        return self._model

    async def _own_workload(self, target: OfWorkload) -> Explanation:
        try:
            return await (await self._loaded()).workload(target.workload)
        except Forbidden as error:
            self._origins[f"from the status of the workload, because the cluster cannot be read: {error}"] = (
                None
            )
            started = await started_of(ClusterReader(self.connection.client), target.workload)
            return explain_workload(State(default_configuration()), target.workload, None, started)

    async def _own_object(self, target: OfObject) -> Explanation:
        if target.plural == "podgroups":
            reader = ClusterReader(self.connection.client)
            group = await reader.pod_group(target.key)
            pods = await reader.pods(target.key.namespace, "") if group is not None else None
            found = None if group is None else explain_group(group)
            if found is not None and pods is not None:
                found = with_members(found, pods)
        else:
            model = await self._loaded()
            is_local = target.plural == "localqueues"
            found = model.local_queue(target.key) if is_local else model.cluster_queue(target.key.name)
        if found is None:
            raise UsageError(f"{target.plural}: {target.key} does not exist, or may not be read")
        return found

    async def _own_job(self, target: OfJob) -> Explanation:
        model = await self._loaded()
        resource, job = target.resource, target.job
        why = why_not_queued(model.configuration.integrations, resource.group, resource.kind)
        queue = job.labels.get(QUEUE_NAME, "")
        return explain_unqueued_job(model.state, UnqueuedJob(resource.kind, job.key, queue, why))

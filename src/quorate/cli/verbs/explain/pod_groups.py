"""``quorate podgroup explain``: why pod groups are pending, by the rules of the scheduler."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.meta import Key, ObjectMeta, Uid, at_epoch
from quorate.api.scheduler_configuration import SchedulerConfiguration, load_scheduler_configuration
from quorate.api.volcano import INQUEUE, PENDING, PodGroup
from quorate.cli.configuration_options import SchedulerConf, SchedulerNames
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import (
    Fields,
    Section,
    TableSection,
    is_structured,
    print_sections,
    print_values,
)
from quorate.gang.actions.eviction_plans import EvictionPlan
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import PREFIX
from quorate.gang.cache.quota_admission import is_suspended
from quorate.gang.explanation import unschedulable
from quorate.gang.pending_reasons import PendingReason, can_never_fit
from quorate.gang.reports import WaitingGroup, waiting_groups
from quorate.inspect.cluster_reader import native_pod_groups
from quorate.inspect.configuration_files import read_scheduler_configuration
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.job_names import job_uids
from quorate.install.scheduler import CONFIGURATION, CONFIGURATION_FILE
from quorate.install.scheduler import NAMESPACE as SCHEDULER_NAMESPACE
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import CONFIG_MAPS, POD_GROUPS
from quorate.processes.stored_scheduler_configuration import SCHEDULER_KEY
from quorate.scheduler.feeds import load_model
from quorate.scheduler.scheduler import SCHEDULER_NAMES

# Of the manifests, and of the chart beside the controllers.
CONFIG_MAPS_TO_TRY: Final = tuple(
    Key(namespace, CONFIGURATION) for namespace in (SCHEDULER_NAMESPACE, DEFAULT_NAMESPACE)
)

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME|TYPE/NAME...",
        help="Names of pod groups or of their jobs: vcjob/train, job/train.",
        autocompletion=completion.pod_groups,
    ),
]


def explain(
    names: Names,
    scheduler_conf: SchedulerConf = None,
    scheduler_name: SchedulerNames = None,
    namespace: o.Namespace = "",
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Explain why a pod group is pending: each check, its position, and its next attempt.

    The command reads the whole cluster, evaluates it by the scheduler's rules, and writes nothing. It reads
    the configuration of an installed scheduler from the cluster, unless [b]--scheduler-conf[/b] is given, and
    prints which it used. If your scheduler has other names than the defaults, give [b]--scheduler-name[/b].
    A name may be that of a group of Volcano or of Kubernetes; of two with one name, both are explained.

    [b]Example:[/b] quorate podgroup explain vcjob/train
    """

    async def show(connection: Connection) -> None:
        settings, origin = await _settings(connection.client, scheduler_conf)
        clock = WallClock()
        now = clock.now()
        client, namespace = connection.client, connection.namespace
        groups = (
            *(await client.list(POD_GROUPS, namespace)).items,
            *(await native_pod_groups(client, namespace) or ()),
        )
        chosen = [group for name in names for group in await _named(connection, groups, name)]
        model = await load_model(
            connection.client,
            clock,
            scheduler_name or SCHEDULER_NAMES,
            disruption_budgets=settings.has_plugin("pdb"),
        )
        members = {key: len(gang.tasks) for key, gang in model.gangs.items()}
        outlooks = _outlooks(model, settings, now)
        typer.echo(f"evaluated with {origin}", err=True)
        explanations = []
        for group in chosen:
            key = group.metadata.key
            explanations.append(explain_group(group, members.get(key, 0), outlooks.get(key), settings))
        if is_structured(output):
            print_values(explanations, output)
            return
        for explanation in explanations:
            print_sections(explanation_sections(explanation))

    with_cluster(ClusterOptions(kubeconfig, context, namespace), show)


async def _settings(client: Client, path: Path | None) -> tuple[SchedulerConfiguration, str]:
    """Return the configuration of a file or of the scheduler, and its origin; else the defaults.

    The scheduler stores the one in force; otherwise that of an installation counts.
    """
    if path is not None:
        return read_scheduler_configuration(path).configuration, str(path)
    problems = []
    for key in (SCHEDULER_KEY, *CONFIG_MAPS_TO_TRY):
        try:
            text = (await client.get(CONFIG_MAPS, key)).data.get(CONFIGURATION_FILE, "")
            return load_scheduler_configuration(text).configuration, f"ConfigMap {key}"
        except NotFound:
            continue
        except Forbidden:
            problems.append(f"no permission to get ConfigMap {key}")
        except InvalidConfiguration as error:
            problems.append(f"ConfigMap {key}: {error.findings[0]}")
    reason = "; ".join(problems) or f"no ConfigMap {CONFIG_MAPS_TO_TRY[0]}"
    origin = f"the defaults ({reason}; --scheduler-conf FILE sets another)"
    return read_scheduler_configuration(None).configuration, origin


async def _named(connection: Connection, groups: Sequence[PodGroup], written: str) -> list[PodGroup]:
    """Return the pod group of that name, or the pod groups of the job ``TYPE[.GROUP]/NAME``.

    Raises ``UsageError`` if there is none.
    """
    if "/" in written and not written.startswith(PREFIX):
        uids = await job_uids(connection, written)  # of the job, or of the pod group given as TYPE/NAME
        chosen = [group for group in groups if not _uids(group.metadata).isdisjoint(uids)]
        problem = (
            f"{written} in {connection.scope} has no pod group "
            "(check the schedulerName of its pods, and that the controllers run)"
        )
    else:
        chosen = [group for group in groups if written in (group.metadata.name, _short_name(group))]
        problem = f"no pod group {written} in {connection.scope}"
    if not chosen:
        raise UsageError(problem)
    return chosen


def _short_name(group: PodGroup) -> str:
    """Return the name of a group of Kubernetes without its API group."""
    return group.metadata.name.removeprefix(PREFIX)


def _uids(metadata: ObjectMeta) -> set[Uid]:
    """Return the UIDs of the object and of its owners."""
    return {metadata.uid, *(owner.uid for owner in metadata.owner_references)}


def _outlooks(model: Model, settings: SchedulerConfiguration, now: float) -> dict[Key, WaitingGroup]:
    """Return the waiting groups; none if no ``enqueue`` action of the profile ``design`` evaluates them."""
    if settings.profile == "compat" or "enqueue" not in settings.actions:
        return {}
    return waiting_groups(model, settings, now)


class Check(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    says: str
    never: bool  # it requests more than an empty cluster has


class PodGroupExplanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The result of ``explain``, as text and as JSON."""

    pod_group: str
    queue: str
    phase: str
    position: int | None = None
    waiting: int | None = None
    attempts: int = 0
    not_before: str = ""
    state: str = ""
    checks: tuple[Check, ...] = ()


def explain_group(
    group: PodGroup, members: int, outlook: WaitingGroup | None, settings: SchedulerConfiguration
) -> PodGroupExplanation:
    """Return the explanation; ``members``: its number of pods, ``outlook``: None if it is not waiting."""
    explanation = PodGroupExplanation(
        pod_group=str(group.metadata.key),
        queue=group.spec.queue,
        phase=group.status.phase or PENDING,
        state=_state(group, members, outlook, settings),
    )
    if outlook is None:
        return explanation
    return msgspec.structs.replace(
        explanation,
        position=outlook.position,
        waiting=outlook.waiting,
        attempts=outlook.attempts,
        not_before="" if outlook.not_before is None else at_epoch(outlook.not_before).isoformat(),
        checks=tuple(
            _check(name, pending_reason, outlook.plan if name == "room" else None)
            for name, pending_reason in outlook.checks.items()
        ),
    )


def _check(name: str, pending_reason: PendingReason | None, plan: EvictionPlan | None) -> Check:
    if pending_reason is None:
        return Check(name, "enough" if plan is None else str(plan), never=False)
    return Check(name, str(pending_reason), never=can_never_fit(pending_reason))


def _state(
    group: PodGroup, members: int, outlook: WaitingGroup | None, settings: SchedulerConfiguration
) -> str:
    if outlook is None:
        if is_suspended(group.metadata.annotations) and group.status.phase in ("", PENDING):
            return f"its Workload is not admitted (quorate workload explain podgroup/{group.metadata.name})"
        waits = group.status.phase in ("", PENDING)
        if waits and "enqueue" in settings.actions and settings.profile != "compat":
            return f"queue {group.spec.queue} does not exist, or the pod group is being deleted"
        if group.status.phase == INQUEUE and members < group.spec.min_member:
            return f"its pods may be created: {members} of {group.spec.min_member} exist"
        reason = unschedulable(group)
        return "" if reason is None else f"{reason.code}: {reason.text}"
    if outlook.not_before is not None:
        return "requeued, not retried yet"
    if outlook.blocked:
        return "waits for a pod group ahead of it in its queue, which is first in, first out"
    return "is admitted next" if outlook.admitted else "waits"


def explanation_sections(explanation: PodGroupExplanation) -> tuple[Section, ...]:
    position = (
        "" if explanation.position is None else f"{explanation.position} of {explanation.waiting} waiting"
    )
    facts = Fields((
        ("Pod group", explanation.pod_group),
        ("Queue", explanation.queue),
        ("Phase", explanation.phase),
        ("Position", position),
        ("State", explanation.state),
        ("Requeued", _times(explanation.attempts) if explanation.attempts else ""),
        ("Not before", explanation.not_before),
    ))  # fmt: skip
    return (
        facts,
        TableSection(
            "Checks", ("CHECK", "RESULT"), tuple((check.name, check.says) for check in explanation.checks)
        ),
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"

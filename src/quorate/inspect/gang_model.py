"""Explains a pod group by a model of all gangs, made from the objects of the cluster as they are now."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Final

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.meta import Key, Struct
from quorate.api.scheduler_configuration import SchedulerConfiguration, in_force, load_scheduler_configuration
from quorate.api.volcano import PodGroup
from quorate.gang.cache.model import Model
from quorate.gang.explanation import GroupFacts
from quorate.gang.remedies import Steps, group_facts, reasons_now
from quorate.gang.session_run import SessionFailed
from quorate.inspect.configuration_files import read_scheduler_configuration
from quorate.install.scheduler import CONFIGURATION, CONFIGURATION_FILE
from quorate.install.scheduler import NAMESPACE as SCHEDULER_NAMESPACE
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.log import logger
from quorate.kube.resources import CONFIG_MAPS, PODS
from quorate.scheduler.feeds import load_model
from quorate.scheduler.scheduler import SCHEDULER_NAMES

# Of the manifests, and of the chart beside the controllers.
CONFIG_MAPS_TO_TRY: Final = tuple(
    Key(namespace, CONFIGURATION) for namespace in (SCHEDULER_NAMESPACE, DEFAULT_NAMESPACE)
)


MAX_PODS: Final = 20_000  # of a cluster that is read for one answer: some seconds and 100 MB
EVALUATED_WITHIN_S: Final = 20.0  # the pod groups of a list: a session each


class _ListMetadata(Struct):
    remaining_item_count: int = 0


class _FirstPage(Struct):
    metadata: _ListMetadata = _ListMetadata()


async def facts_of_group(client: Client, group: PodGroup) -> GroupFacts | None:
    """Return what a session of the scheduler would decide about ``group`` now.

    None if the cluster may not be read, does not serve Volcano's API or has more than ``MAX_PODS``, or if a
    session fails.  None for a group of Kubernetes without pods of the scheduler: it may be of another one.
    """
    loaded = await _load(client)
    if loaded is None or not _has_tasks(loaded[0], group):
        return None
    model, settings, now = loaded
    steps = group_facts(model, group, settings, now)
    facts = None
    try:
        while facts is None:  # a rehearsal of 5,000 nodes and 50,000 pods takes half a second
            facts = await asyncio.to_thread(_next_step, steps)
    except SessionFailed as failed:
        _log_failure(group, failed)
    return facts


async def facts_of_groups(
    client: Client, groups: Iterable[PodGroup], within_s: float = EVALUATED_WITHIN_S
) -> dict[Key, GroupFacts]:
    """Return what a session would decide now about each group, without remedies; by the rules above.

    After ``within_s`` no further group is evaluated, and the rest is left out.
    """
    loaded = await _load(client)
    facts: dict[Key, GroupFacts] = {}
    if loaded is None:
        return facts
    model, settings, now = loaded
    end = perf_counter() + within_s
    for group in groups:
        if perf_counter() > end:
            break
        key = group.metadata.key
        try:
            if _has_tasks(model, group):
                facts[key] = await asyncio.to_thread(reasons_now, model, key, settings, now)
        except SessionFailed as failed:
            _log_failure(group, failed)
    return facts


async def _load(client: Client) -> tuple[Model, SchedulerConfiguration, float] | None:
    """Return the model of all gangs, the configuration and the time; None if it cannot be loaded."""
    clock = WallClock()
    try:
        first = await client.request_as(_FirstPage, "GET", PODS.path(), query={"limit": "1"})
        if first.metadata.remaining_item_count >= MAX_PODS:
            return None
        settings, _ = await scheduler_settings(client, None)
        model = await load_model(
            client, clock, SCHEDULER_NAMES, disruption_budgets=settings.has_plugin("pdb")
        )
    except (Forbidden, NotFound):
        return None
    return model, settings, clock.now()


def _has_tasks(model: Model, group: PodGroup) -> bool:
    """Return True unless the group is of Kubernetes and has no pods of the scheduler."""
    gang = model.gangs.get(group.metadata.key)
    return gang is not None and (gang.native is None or bool(gang.tasks))


def _log_failure(group: PodGroup, failed: SessionFailed) -> None:
    key = str(group.metadata.key)
    logger(__name__).warning("not evaluated", pod_group=key, problem=str(failed.error))


def _next_step(steps: Steps) -> GroupFacts | None:
    """Make one rehearsal; return the facts after the last one, else None."""
    try:
        next(steps)
    except StopIteration as end:
        facts: GroupFacts = end.value
        return facts
    return None


async def scheduler_settings(client: Client, path: Path | None) -> tuple[SchedulerConfiguration, str]:
    """Return the configuration of a file or of the scheduler, and its origin; else the defaults.

    The scheduler stores the configuration in force; without it the configuration of an installation counts.
    """
    if path is not None:
        return read_scheduler_configuration(path).configuration, str(path)
    problems = []
    for key in (in_force.KEY, *CONFIG_MAPS_TO_TRY):
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

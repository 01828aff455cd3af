"""Jobs that name a queue although their kind is not queued: they run without quota, and an event says so.

Only objects with the label of a queue are watched, and of those only the metadata is kept, so a kind that is
off costs one idle watch.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from quorate.api.configuration.integrations import SPARK, Integrations
from quorate.api.meta import Key, ObjectMeta, Struct, matches_selector
from quorate.api.names.kueue import QUEUE_NAME
from quorate.controllers.context import ControllerContext
from quorate.controllers.integrations import INTEGRATIONS
from quorate.controllers.limits import UNSERVED_INTERVAL_S
from quorate.kube.discovery import wait_until_served
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import Resource, reference

NOT_QUEUED: Final = "NotQueued"  # reason of an event of our own


class LabelledObject(Struct):
    metadata: ObjectMeta


def unserved_kinds(integrations: Integrations) -> Iterator[tuple[str, Resource[Any]]]:
    """Yield the known kinds of job that are not queued, by the name of their integration."""
    elsewhere = _other_kinds(integrations)
    for name, row in INTEGRATIONS.items():
        by_kind = f"{row.resource.group}/{row.resource.kind.lower()}"
        if not {name, row.counted_by} & {*integrations.frameworks} and not {name, by_kind} & elsewhere:
            yield name, row.resource


def _other_kinds(integrations: Integrations) -> set[str]:
    """Return the declared external kinds, and the kinds that another controller queues."""
    return {kind.name for kind in integrations.declared} | {kind.name for kind in integrations.external}


def why_not_queued(integrations: Integrations, group: str, kind: str) -> str:
    """Return why objects of a kind are not queued, with the remedy; empty if they are."""
    resources = {name: row.resource for name, row in INTEGRATIONS.items()}
    names = [name for name, resource in resources.items() if (resource.group, resource.kind) == (group, kind)]
    unserved = dict(unserved_kinds(integrations))
    if names:
        return _reason(names[0]) if names[0] in unserved else ""
    if f"{group}/{kind.lower()}" in _other_kinds(integrations):
        return ""
    return (
        f"{kind} of {group or 'the core group'} is no kind of job that is queued (describe it in "
        "integrations.declaredFrameworks of the Configuration)"
    )


def _reason(name: str) -> str:
    gate = " and set featureGates.SparkApplicationIntegration: true" if name == SPARK else ""
    return f"the integration {name} is off (add it to integrations.frameworks of the Configuration{gate})"


async def run_unserved(context: ControllerContext) -> None:
    """Record an event about each job of a kind that is not queued and names a queue, until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        for name, resource in unserved_kinds(context.configuration.integrations):
            tasks.create_task(_run_kind(context, name, resource), name=f"unserved {resource.plural}")


async def _run_kind(context: ControllerContext, name: str, resource: Resource[Any]) -> None:
    await wait_until_served(
        resource, context.client, context.clock, on_absent=lambda: None, interval_s=UNSERVED_INTERVAL_S
    )
    labelled = Resource(
        resource.group, resource.version, resource.plural, resource.kind, True, LabelledObject
    )
    informer = Informer(context.client, labelled, label_selector=QUEUE_NAME)
    text = f"names a queue, but runs without quota: {_reason(name)}"

    def on_change(change: Change[LabelledObject]) -> None:
        if change.new is not None and _is_concerned(context, change.new.metadata):
            metadata = change.new.metadata
            about = reference(labelled, metadata.key, metadata.uid)
            context.events.event(about, "Warning", NOT_QUEUED, text, unique=True)

    informer.subscribe(on_change)
    await informer.run()


def _is_concerned(context: ControllerContext, metadata: ObjectMeta) -> bool:
    """Return True for a job in a managed namespace that no other object controls.

    The owner of a controlled object, such as the Job of a pod, is queued in its place or has its own event.
    """
    namespace = context.informers.namespaces.get(Key("", metadata.namespace))
    labels = {} if namespace is None else namespace.metadata.labels
    managed = matches_selector(context.configuration.managed_jobs_namespace_selector, labels)
    return managed and metadata.controller is None and metadata.deletion_timestamp is None

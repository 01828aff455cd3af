"""One workload in detail: pod sets, life, explanation, pods and events."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice

from quorate.api.explanation import Explanation
from quorate.api.kueue import Workload
from quorate.api.kueue.topology import TopologyAssignment
from quorate.dashboard.history.timeline import milestones_of
from quorate.dashboard.limits import MAX_DOMAINS
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.workload_index import Listed, owner_of
from quorate.dashboard.queries import Estimates, Viewer
from quorate.dashboard.schema import PodSetRow, Transition, WorkloadDetail
from quorate.dashboard.views.live_reads import (
    as_listed,
    command,
    events_of,
    explanation_of,
    first_created,
    pod_rows,
    pods_of,
    readable_explanation,
)
from quorate.dashboard.views.workload_views import row_of
from quorate.inspect.cluster_reader import ClusterReader
from quorate.kube.client import Client
from quorate.observe.explanation_lists import in_steps, started_of
from quorate.queueing.explain import pending_facts
from quorate.queueing.explanation.pods import is_pod_of, selector_of
from quorate.queueing.explanation.scope import scoped
from quorate.queueing.explanation.workload import explain_workload
from quorate.quota.amount import as_quantity


async def workload(
    data: ClusterData,
    viewer: Viewer,
    listed: Listed,
    reader: Client,
    recorded: Iterable[Transition],
    estimates: Estimates,
) -> WorkloadDetail:
    """Return one workload, which the viewer may read.  ``reader`` has the credentials of the user."""
    key, stored, owner = listed.key, listed.workload, owner_of(listed.workload)
    about = [("Workload", key.name), *([(owner.kind, owner.name)] if owner is not None else [])]
    pods, events, (explanation, problem) = await asyncio.gather(
        pods_of(reader, key.namespace, selector_of(stored)) if listed.group.reserved_in else _nothing(),
        events_of(reader, key.namespace, about),
        explanation_of(reader, "workloads", key),
    )
    own_pods = [pod for pod in pods if is_pod_of(pod, stored)]

    def readable(text: str) -> str:
        return data.readable_text(text, viewer.scope.namespaces)

    if explanation is None:
        explanation = readable_explanation(await _own_explanation(data, viewer, stored, reader), readable)
        explanation = as_listed(explanation, data.workloads.summary_of(stored), readable)

    return WorkloadDetail(
        row=row_of(data, viewer, listed, estimates),
        labels=stored.metadata.labels,
        pod_sets=tuple(pod_set_rows(data, stored)),
        milestones=milestones_of(stored, recorded, first_created(own_pods), readable),
        explanation=explanation,
        explanation_problem=problem,
        pods=pod_rows(own_pods),
        events=events,
        commands=tuple(_commands(stored)),
        may_stop=False,
    )


async def _nothing() -> tuple[()]:
    return ()


async def _own_explanation(
    data: ClusterData, viewer: Viewer, stored: Workload, reader: Client
) -> Explanation:
    """Return the explanation from the status of the workload and the order of its queue."""
    facts = await in_steps(pending_facts(data.state, stored.metadata.key))
    seen = None if facts is None else scoped(facts, viewer.scope)
    started = await started_of(ClusterReader(reader), stored)
    return explain_workload(data.state, stored, seen, started)


def pod_set_rows(data: ClusterData, stored: Workload) -> Iterator[PodSetRow]:
    """Yield the pod sets of a workload with what was assigned to them."""
    admission = stored.status.admission
    assigned = {
        assignment.name: assignment
        for assignment in (admission.pod_set_assignments if admission is not None else ())
    }
    shapes = data.ledger.shapes.shape_of(stored).pod_sets
    for pod_set, shape in zip(stored.spec.pod_sets, shapes, strict=True):
        assignment = assigned.get(pod_set.name)
        pods = None
        if assignment is not None:
            pods = pod_set.count if assignment.count is None else assignment.count
        yield PodSetRow(
            name=pod_set.name,
            pods=pod_set.count,
            min_pods=pod_set.min_count if isinstance(pod_set.min_count, int) else None,
            admitted_pods=pods,
            requests={
                resource: str(as_quantity(resource, amount))
                for resource, amount in sorted(shape.per_pod.items())
            },
            flavors=dict(sorted(assignment.flavors.items())) if assignment is not None else {},
            domains=() if assignment is None else _domains(assignment.topology_assignment),
        )


def _domains(assignment: TopologyAssignment | None) -> tuple[str, ...]:
    if assignment is None:
        return ()
    domains = (domain for part in assignment.slices for domain in part.domains())
    return tuple(f"{'/'.join(path)}: {pods}" for path, pods in islice(domains, MAX_DOMAINS))


def _commands(stored: Workload) -> Iterator[str]:
    """Yield commands that show more of a workload, its job and its pods."""
    namespace, name, owner = stored.metadata.namespace, stored.metadata.name, owner_of(stored)
    where = ("-n", namespace)
    yield command("quorate", "explain", f"workload/{name}", *where)
    yield command("kubectl", "get", f"workloads.kueue.x-k8s.io/{name}", *where, "-o", "yaml")
    yield command("kubectl", "get", "events", *where, "--field-selector", f"involvedObject.name={name}")
    if owner is not None:
        group, _, _ = owner.api_version.rpartition("/")
        kind = f"{owner.kind.lower()}.{group}" if group else owner.kind.lower()
        yield command("kubectl", "describe", f"{kind}/{owner.name}", *where)
    if selector := selector_of(stored):
        yield command("kubectl", "get", "pods", *where, "-l", selector, "-o", "wide")

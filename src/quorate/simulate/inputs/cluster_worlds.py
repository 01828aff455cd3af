"""The worlds of a scenario with worker clusters: of the manager, and of each worker.

The manager has quota for all jobs, so that every wait is in a worker.  Its flavors have no topology, since
the workers place the pods.  The queues of a worker are the queues of the scenario, with a share of each
quota.  The admission checks belong to the manager.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import Raw, json
from msgspec.structs import replace

from quorate.api.kueue import AdmissionChecksStrategy, Preemption, ResourceGroup, ResourceQuota
from quorate.api.quantity import Quantity
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    PLACEABLE_NODES,
    RESERVATIONS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)
from quorate.quota.amount import as_quantity, base_units
from quorate.simulate.inputs.changes import changed
from quorate.simulate.inputs.scenario import JobClass
from quorate.simulate.inputs.worker_clusters import WorkerCluster
from quorate.simulate.inputs.world import InvalidWorld, World

AMPLE: Final = 1_000_000  # times its quota: what the manager has of it


class ClusterWorlds(NamedTuple):
    manager: World
    workers: dict[str, World]  # by name, in the configured order


def cluster_worlds(world: World) -> ClusterWorlds:
    """Return the worlds of the clusters of ``world``.  Raises ``InvalidWorld`` with all findings."""
    findings = list(_findings(world))
    workers: dict[str, World] = {}
    for cluster in world.scenario.clusters:
        try:
            workers[cluster.name] = _worker(world, cluster)
        except InvalidWorld as error:
            findings += error.findings
    if findings:
        raise InvalidWorld(findings)
    return ClusterWorlds(_manager(world), workers)


def _findings(world: World) -> Iterator[str]:
    """Yield what cannot be dispatched, or does not belong to one cluster."""
    for class_ in world.scenario.classes:
        if class_.is_volcano:
            yield f"{class_.name} has api: volcano, which clusters do not get (write a gang with api: batch)"
    for resource in (PLACEABLE_NODES, RESERVATIONS, WORKLOADS):
        if any(world.of_kind(resource)):
            kind = resource.kind
            yield f"a {kind} beside clusters belongs to no cluster (move it to the manifests of one)"


def _worker(world: World, cluster: WorkerCluster) -> World:
    pools = cluster.nodes
    if pools is None:
        shares = ((pool, round(pool.count * cluster.share)) for pool in world.scenario.nodes)
        pools = tuple(replace(pool, count=count) for pool, count in shares if count)
    scenario = replace(world.scenario, nodes=pools, clusters=())
    worker = _with_quotas(replace(world, scenario=scenario), cluster.share)
    worker = _with_specs(worker, CLUSTER_QUEUES, admission_checks_strategy=AdmissionChecksStrategy())
    if not cluster.manifests:
        return worker
    path = world.directory / cluster.manifests
    own = changed(worker, path)
    if own.scenario.classes != scenario.classes:
        raise InvalidWorld([f"{path}: has a Scenario, of which there is one for all clusters (remove it)"])
    return own


def _manager(world: World) -> World:
    classes = tuple(map(_without_topology, world.scenario.classes))
    scenario = replace(world.scenario, nodes=(), classes=classes, clusters=())
    manager = _with_quotas(replace(world, scenario=scenario), AMPLE)
    manager = _with_specs(manager, CLUSTER_QUEUES, preemption=Preemption())
    return _with_specs(manager, RESOURCE_FLAVORS, topology_name="")


def _without_topology(class_: JobClass) -> JobClass:
    """Return a class of which the templates have no annotations, and so no topology requests."""
    shapes = []
    for shape in class_.pod_sets:
        template = json.decode(shape.template)
        template.get("metadata", {}).pop("annotations", None)
        shapes.append(replace(shape, template=Raw(json.encode(template)), topology_request=None))
    return replace(class_, pod_sets=tuple(shapes))


def _with_specs(world: World, resource: Resource[Any], **fields: object) -> World:
    """Return ``world`` with these fields in the spec of each object of a kind."""
    objects = (replace(obj, spec=replace(obj.spec, **fields)) for obj in world.of_kind(resource))
    return world.with_objects(resource, objects)


def _with_quotas(world: World, times: float) -> World:
    """Return ``world`` with ``times`` each quota of its cluster queues and cohorts."""
    for resource in (CLUSTER_QUEUES, COHORTS):
        scaled = []
        for obj in world.of_kind(resource):
            groups = tuple(_multiplied(group, times) for group in obj.spec.resource_groups)
            scaled.append(replace(obj, spec=replace(obj.spec, resource_groups=groups)))
        world = world.with_objects(resource, scaled)
    return world


def _multiplied(group: ResourceGroup, times: float) -> ResourceGroup:
    flavors = tuple(
        replace(flavor, resources=tuple(_multiplied_quota(quota, times) for quota in flavor.resources))
        for flavor in group.flavors
    )
    return replace(group, flavors=flavors)


def _multiplied_quota(quota: ResourceQuota, times: float) -> ResourceQuota:
    """Return ``times`` a quota, rounded to base units of its resource."""

    def multiplied(amount: Quantity) -> Quantity:
        return as_quantity(quota.name, round(base_units(quota.name, amount) * times))

    borrowing, lending = quota.borrowing_limit, quota.lending_limit
    return replace(
        quota,
        nominal_quota=multiplied(quota.nominal_quota),
        borrowing_limit=None if borrowing is None else multiplied(borrowing),
        lending_limit=None if lending is None else multiplied(lending),
    )


def reject_clusters(world: World, user: str) -> None:
    """Raise ``InvalidWorld`` if ``world`` has worker clusters, which ``user`` does not play."""
    if world.scenario.clusters:
        raise InvalidWorld([f"{user} plays one cluster (remove clusters, or use quorate simulate)"])

"""Start the controllers and the scheduler of a local cluster, over HTTP."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.informer import Change, Informer
from quorate.kube.manager.restart import run_restarting
from quorate.kube.resources import (
    LEASES,
    NATIVE_POD_GROUPS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    SERVICE_ACCOUNTS,
    Resource,
)
from quorate.local.controllers import resource_claims
from quorate.local.controllers.access import (
    CLUSTER_ROLES,
    SECRETS,
    ClusterRoleAggregator,
    RootAuthorityPublisher,
    ServiceAccountController,
    TokensController,
)
from quorate.local.controllers.apps import types as apps
from quorate.local.controllers.apps.daemon_set import DaemonSetController
from quorate.local.controllers.apps.deployment import DeploymentController
from quorate.local.controllers.apps.replica_set import ReplicaSetController
from quorate.local.controllers.apps.revisions import CONTROLLER_REVISIONS
from quorate.local.controllers.apps.stateful_set import StatefulSetController
from quorate.local.controllers.claims import index_orphans
from quorate.local.controllers.controller import ControllerContext
from quorate.local.controllers.cron_jobs import CRON_JOBS, CronJobController
from quorate.local.controllers.disruption import BUDGETS, DisruptionController
from quorate.local.controllers.garbage_collector import GarbageCollector
from quorate.local.controllers.job import types as job
from quorate.local.controllers.job.controller import JobController, TtlAfterFinishedController
from quorate.local.controllers.job.pod_groups import PodGroupProtectionController
from quorate.local.controllers.metadata_cache import CachedObject, MetadataCache
from quorate.local.controllers.namespace import NAMESPACES, NamespaceController
from quorate.local.controllers.node_lifecycle import NodeLifecycleController
from quorate.local.controllers.persistent_volumes import (
    CLAIMS,
    CLASSES,
    VOLUMES,
    PersistentVolumeController,
    create_default_class,
)
from quorate.local.controllers.pod_deletion import PodGarbageCollector, TaintEvictionController
from quorate.local.controllers.resource_quota import QuotaController
from quorate.local.controllers.scheduler import Scheduler
from quorate.local.controllers.services import EndpointsController
from quorate.local.nodes.fleet import LEASE_NAMESPACE


class Part(Protocol):
    """An informer or a controller."""

    async def run(self) -> None: ...


class OnDemand:
    """A controller that starts with the first object of its kinds, because most clusters have none."""

    def __init__(
        self,
        client: Client,
        metadata_cache: MetadataCache,
        kinds: Sequence[Resource[Any]],
        watched: Sequence[Resource[Any]],
        controller: Callable[..., Part],
    ) -> None:
        """``watched``: kinds of the informers with which ``controller`` is called, in order."""
        self._client = client
        self._resources = {(kind.group, kind.plural) for kind in kinds}
        self._watched = watched
        self._controller = controller
        self._wanted = asyncio.Event()
        metadata_cache.subscribe(self._on_change)

    def _on_change(self, change: Change[CachedObject]) -> None:
        if change.new is not None:
            resource = change.new.resource
            if (resource.group, resource.plural) in self._resources:
                self._wanted.set()

    async def run(self) -> None:
        await self._wanted.wait()
        informers = [Informer(self._client, kind) for kind in self._watched]
        async with asyncio.TaskGroup() as tasks:
            for part in (*informers, self._controller(*informers)):
                tasks.create_task(part.run())


async def run_controllers(
    client: Client,
    clock: Clock,
    rng: random.Random,
    volumes: Path | None = None,
    *,
    with_scheduler: bool = True,
    with_job_pod_groups: bool = False,
    authority: bytes = b"",
) -> None:
    """Run the built-in controllers until cancelled, optionally with the plain scheduler.

    ``rng`` generates names of events.  ``volumes``: the directory of volumes that are provisioned by default;
    None: no volume is.  ``with_job_pod_groups``: the gate WorkloadWithJob is on.  ``authority``: certificates
    of the server's authority, which every namespace gets; empty if it has none.  After an exception that
    nothing expected all start over.
    """
    context = ControllerContext(client, clock, rng)

    async def run() -> None:
        if volumes is not None:
            await create_default_class(client)
        async with asyncio.TaskGroup() as tasks:
            for part in _parts(context, volumes, with_scheduler, with_job_pod_groups, authority):
                tasks.create_task(part.run())

    await run_restarting("built-in controllers", run, clock)


def _parts(
    context: ControllerContext,
    volumes: Path | None,
    with_scheduler: bool,
    with_job_pod_groups: bool,
    authority: bytes,
) -> Iterator[Part]:
    """Yield the informers and the controllers; the parameters are those of ``run_controllers``."""
    client, clock = context.client, context.clock
    jobs, job_pods, pods = Informer(client, job.JOBS), Informer(client, job.PODS), Informer(client, PODS)
    nodes, leases = Informer(client, NODES), Informer(client, LEASES, LEASE_NAMESPACE)
    namespaces, accounts = Informer(client, NAMESPACES), Informer(client, SERVICE_ACCOUNTS)
    roles = Informer(client, CLUSTER_ROLES)
    deployments, replica_sets = Informer(client, apps.DEPLOYMENTS), Informer(client, apps.REPLICA_SETS)
    index_orphans(pods)
    metadata_cache = MetadataCache(client, clock)
    yield from (
        JobController(context, jobs, job_pods, with_pod_groups=with_job_pod_groups),
        DeploymentController(context, deployments, replica_sets, pods),
        ReplicaSetController(context, apps.REPLICA_SETS, replica_sets, pods),
        TtlAfterFinishedController(context, jobs),
        GarbageCollector(context, metadata_cache),
        PodGarbageCollector(context, pods, nodes),
        TaintEvictionController(context, pods, nodes),
        NodeLifecycleController(context, pods, nodes, leases),
        NamespaceController(context, namespaces, metadata_cache),
        ServiceAccountController(context, namespaces, accounts),
        QuotaController(context, pods, metadata_cache),
        ClusterRoleAggregator(context, roles),
        EndpointsController(context),
    )
    if with_scheduler:
        yield Scheduler(client, clock, context.rng, pods, nodes)
    if authority:
        yield RootAuthorityPublisher(context, namespaces, metadata_cache, authority.decode())
    on_demand = (
        (
            (VOLUMES, CLAIMS),
            (VOLUMES, CLAIMS, CLASSES),
            partial(PersistentVolumeController, context, volumes),
        ),
        (
            (RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS),
            (RESOURCE_CLAIMS, resource_claims.PODS),
            partial(resource_claims.ResourceClaimController, client, clock),
        ),
        ((SECRETS,), (SECRETS,), partial(TokensController, context, authority, accounts)),
        ((NATIVE_POD_GROUPS,), (NATIVE_POD_GROUPS,), partial(PodGroupProtectionController, context, pods)),
        (
            (apps.REPLICATION_CONTROLLERS,),
            (apps.REPLICATION_CONTROLLERS,),
            lambda owners: ReplicaSetController(context, apps.REPLICATION_CONTROLLERS, owners, pods),
        ),
        ((BUDGETS,), (BUDGETS,), partial(DisruptionController, context, pods, metadata_cache)),
        ((CRON_JOBS,), (CRON_JOBS,), partial(CronJobController, context, jobs)),
        (
            (apps.DAEMON_SETS,),
            (apps.DAEMON_SETS, CONTROLLER_REVISIONS),
            partial(DaemonSetController, context, pods, nodes),
        ),
        (
            (apps.STATEFUL_SETS,),
            (apps.STATEFUL_SETS, CONTROLLER_REVISIONS, CLAIMS),
            partial(StatefulSetController, context, pods),
        ),
    )
    yield from (OnDemand(client, metadata_cache, *row) for row in on_demand)
    yield from (jobs, job_pods, pods, nodes, leases, deployments, replica_sets, namespaces, accounts, roles)
    yield metadata_cache

"""The MultiKueueCluster controller: one connection for each cluster, shown in its condition Active."""

from typing import Final

from msgspec.structs import replace

from quorate.api.kueue.multikueue import MultiKueueCluster
from quorate.api.meta import ConditionStatus, Key, at_epoch, with_condition
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import FEW_WORKERS
from quorate.controllers.multikueue.connection.connection import Connection, Failure
from quorate.controllers.multikueue.connection.credential_sources import CredentialSources
from quorate.controllers.multikueue.connection.credentials import Unusable
from quorate.controllers.multikueue.workers import Workers
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import MULTIKUEUE_CLUSTERS, reference_to
from quorate.kube.writes import send, status_patch
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.transition import Event

_DEPRECATED_PATH: Final = Event(
    "Warning",
    "DeprecatedPathUsage",
    "Using locationType=Path without MultiKueueKubeConfigPathValidation feature gate is deprecated and will "
    "be removed in a future release. Enable the MultiKueueKubeConfigPathValidation feature gate and place "
    "kubeconfig files under /etc/multikueue/kubeconfigs/.",
)


class ClusterController:
    """Keeps ``workers`` and the condition Active of each MultiKueueCluster up to date."""

    def __init__(
        self, context: ControllerContext, clusters: Informer[MultiKueueCluster], workers: Workers
    ) -> None:
        self._context, self._clusters, self._workers = context, clusters, workers
        self._connections: dict[str, Connection] = {}
        self.reconciler = context.reconciler("multikueue_cluster", self.reconcile, clusters, FEW_WORKERS)
        self._sources = CredentialSources(
            context.client, context.clock, context.configuration, self._credentials_changed
        )
        clusters.subscribe(self._cluster_changed)

    async def run(self) -> None:
        """Run until cancelled; then end all connections."""
        try:
            await self.reconciler.run()
        finally:
            await self._sources.stop()
            for connection in self._connections.values():
                await connection.disconnect()

    def _cluster_changed(self, change: Change[MultiKueueCluster]) -> None:
        self.reconciler.enqueue(change.key)

    def _credentials_changed(self, cluster: str) -> None:
        self.reconciler.enqueue(Key("", cluster))

    async def reconcile(self, key: Key) -> float | None:
        cluster = self._clusters.get(key)
        if cluster is None or cluster.metadata.deletion_timestamp is not None:
            await self._remove(key.name)
            return None
        self._warn(cluster)
        connection = self._connection(key.name)
        loaded = self._sources.load(key.name, cluster.spec.cluster_source)
        if loaded is None:
            return None
        if isinstance(loaded, Unusable):
            await connection.disconnect()
            await self._write(cluster, "False", loaded.reason, f"load client config failed: {loaded.problem}")
            return None
        await connection.use(loaded)
        if connection.is_connected:
            await self._write(cluster, "True", "Active", "Connected")
        elif (failure := connection.failure) is not None:
            await self._write(cluster, "False", "ClientConnectionFailed", message_of(failure))
            return failure.next_attempt
        return None

    def _connection(self, name: str) -> Connection:
        connection = self._connections.get(name)
        if connection is None:
            connection = self._connections[name] = Connection(
                name, self._workers, self._context, lambda: self.reconciler.enqueue(Key("", name))
            )
        return connection

    async def _remove(self, name: str) -> None:
        self._sources.forget(name)
        connection = self._connections.pop(name, None)
        if connection is not None:
            await connection.disconnect()
        self._workers.removed(name)

    def _warn(self, cluster: MultiKueueCluster) -> None:
        location = cluster.spec.cluster_source.kube_config
        is_path = location is not None and location.location_type == "Path"
        if is_path and not self._context.configuration.multikueue_gates.validate_kubeconfig_path:
            reference = reference_to(MULTIKUEUE_CLUSTERS, cluster.metadata)
            self._context.events.report(reference, (_DEPRECATED_PATH,), unique=True)

    async def _write(
        self, cluster: MultiKueueCluster, status: ConditionStatus, reason: str, message: str
    ) -> None:
        generation, now = cluster.metadata.generation, self._context.clock.now()
        new = c.new_condition("Active", status, reason, message, now, generation)
        wanted = replace(cluster.status, conditions=with_condition(cluster.status.conditions, new))
        await send(self._context.client, status_patch(MULTIKUEUE_CLUSTERS, cluster, wanted))


def message_of(failure: Failure) -> str:
    """Return the message of condition Active, with the number of failed attempts and the next one."""
    next_attempt = at_epoch(failure.next_attempt).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"{failure.problem}; connection attempts: {failure.attempts}, next connection attempt: {next_attempt}"
    )

"""Check a cluster before or after an installation: every check, on what can be read."""

from collections import Counter

from quorate.api.configuration import Configuration
from quorate.api.core import Namespace
from quorate.api.meta import Key
from quorate.controllers.native_groups import NativeGangSupport
from quorate.inspect.cluster_model import evaluate_all, load_state
from quorate.install.controller_rules import CONTROLLER_RULES, declared_kind_rules
from quorate.install.preflight import installation_objects as kinds
from quorate.install.preflight.cluster_checks import (
    access_findings,
    conversion_findings,
    definition_findings,
    enabled_gates,
    manager_findings,
    native_group_findings,
    old_client_findings,
    unserved_findings,
    version_findings,
    webhook_findings,
    written_kinds,
)
from quorate.install.preflight.findings import PreflightFinding, denied_requests, info, warning
from quorate.install.preflight.queue_checks import QueueSetup, queue_findings
from quorate.install.preflight.topology_checks import topology_findings
from quorate.install.server_version import server_version
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import LOCAL_QUEUES, NAMESPACES, NODES, TOPOLOGIES, Resource, T

WANTED = (
    "workloads", "clusterqueues", "localqueues", "resourceflavors", "cohorts", "admissionchecks",
    "workloadpriorityclasses", "topologies", "provisioningrequestconfigs", "multikueueconfigs",
    "multikueueclusters",
)  # fmt: skip


class Preflight:
    """One run of all checks.  Objects that cannot be read become a finding; the rest is checked."""

    def __init__(self, client: Client, configuration: Configuration, account: str) -> None:
        self._client = client
        self._configuration = configuration
        self._account = account
        self._unreadable: list[PreflightFinding] = []

    async def run(self) -> tuple[PreflightFinding, ...]:
        findings = [*version_findings(await server_version(self._client))]
        readable = await self._try(kinds.DEFINITIONS)
        definitions = readable or ()
        endpoints: Counter[Key] = Counter()
        for endpoint_slice in await self._list(kinds.ENDPOINT_SLICES):
            endpoints[endpoint_slice.service] += endpoint_slice.ready
        if readable is not None:  # else whether they are installed is not known
            findings += definition_findings(definitions, WANTED)
            findings += unserved_findings(definitions)
        findings += conversion_findings(definitions, endpoints)
        written = [(kind, await self._list(kind)) for kind in written_kinds(definitions)]
        findings += old_client_findings(written)
        webhooks = [*await self._list(kinds.MUTATING), *await self._list(kinds.VALIDATING)]
        findings += webhook_findings(webhooks, endpoints)
        findings += manager_findings(
            await self._list(kinds.DEPLOYMENTS),
            await self._list(kinds.LEASES),
            self._configuration.leader_election.name,
            WallClock().now(),
        )
        findings += await self._native_gangs()
        findings += await self._permissions()
        findings += await self._queues()
        return (*findings, *self._unreadable)

    async def _native_gangs(self) -> tuple[PreflightFinding, ...]:
        try:
            availability = await NativeGangSupport(self._client, WallClock()).availability()
        except Forbidden as error:
            return (warning("native gangs", str(error)),) if self._configuration.native_gangs else ()
        try:
            metrics = await self._client.request("GET", "/metrics")
            gates = enabled_gates(metrics.decode(errors="replace"))
        except (Forbidden, NotFound):  # of an account that need not read them
            gates = None
        return tuple(native_group_findings(availability, gates, wanted=self._configuration.native_gangs))

    async def _list(self, resource: Resource[T]) -> tuple[T, ...]:
        """Return all objects of a kind; none, with a finding, if they cannot be read."""
        objects = await self._try(resource)
        return () if objects is None else objects

    async def _try(self, resource: Resource[T]) -> tuple[T, ...] | None:
        try:
            return (await self._client.list(resource)).items
        except (Forbidden, NotFound) as failure:
            severity = info if isinstance(failure, NotFound) else warning
            self._unreadable.append(severity(resource.plural, f"they cannot be read: {failure.message}"))
            return None

    async def _permissions(self) -> list[PreflightFinding]:
        about = f"permissions of {self._account}" if self._account else "your permissions"
        namespace = self._configuration.namespace
        rules = (*CONTROLLER_RULES, *declared_kind_rules(self._configuration.integrations))
        try:
            missing = await denied_requests(self._client, rules, namespace, self._account)
        except Forbidden as failure:
            return [warning(about, f"they cannot be checked: {failure.message}")]
        return list(access_findings(about, missing))

    async def _queues(self) -> list[PreflightFinding]:
        now = WallClock().now()
        try:
            state = await load_state(self._client, self._configuration, now)
            namespaces: tuple[Namespace, ...] = (await self._client.list(NAMESPACES)).items
            local_queues = (await self._client.list(LOCAL_QUEUES)).items
        except NotFound:  # an error about the definition says the rest
            return [info("queues", "they are not checked, because a definition is not installed")]
        except Forbidden as failure:
            return [warning("queues", f"they cannot be read: {failure.message}")]
        nodes = await self._try(NODES)
        setup = QueueSetup(state, evaluate_all(state, now), namespaces, nodes, local_queues)
        findings = list(queue_findings(setup))
        if state.ledger.topology.is_on:
            findings += topology_findings(state.flavors, await self._try(TOPOLOGIES), nodes)
        return findings

"""The condition Active of MultiKueue checks, which follows the clusters that their configuration names."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.api.kueue import GROUP, AdmissionCheck, CheckParameters
from quorate.api.kueue.multikueue import MultiKueueCluster, MultiKueueConfig
from quorate.api.meta import Condition, Key, find_condition, is_true, with_condition
from quorate.api.names.multikueue import CONTROLLER
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import ByName
from quorate.controllers.limits import FEW_WORKERS
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import ADMISSION_CHECKS, MULTIKUEUE_CONFIGS
from quorate.kube.writes import send, status_patch
from quorate.queueing import conditions as c

_BY_CONFIG: Final = "multikueue checks by configuration"  # index of checks by the name of their configuration
_BY_CLUSTER: Final = "configurations by cluster"  # index of configurations by the names of their clusters


class CheckController:
    def __init__(
        self,
        context: ControllerContext,
        configs: Informer[MultiKueueConfig],
        clusters: Informer[MultiKueueCluster],
    ) -> None:
        self._context, self._configs, self._clusters = context, configs, clusters
        self._checks = context.informers.checks
        self.reconciler = context.reconciler(
            "multikueue_admissioncheck", self.reconcile, self._checks, FEW_WORKERS
        )
        self._checks.add_index(_BY_CONFIG, config_of)
        configs.add_index(_BY_CLUSTER, lambda config: config.spec.clusters)
        self._checks.subscribe(lambda change: self.reconciler.enqueue(change.key))
        configs.subscribe(lambda change: self._config_changed(change.key.name))
        clusters.subscribe(self._cluster_changed)

    def _config_changed(self, name: str) -> None:
        for check in self._checks.by_index(_BY_CONFIG, name):
            self.reconciler.enqueue(check.metadata.key)

    def _cluster_changed(self, change: Change[MultiKueueCluster]) -> None:
        for config in self._configs.by_index(_BY_CLUSTER, change.key.name):
            self._config_changed(config.metadata.name)

    def statuses(self) -> Iterator[tuple[str, str, str]]:
        """Yield each cluster queue with each of its worker clusters and the status of their Active."""
        for queue in self._context.informers.cluster_queues:
            for rule in queue.spec.admission_checks_strategy.admission_checks:
                check = self._checks.get(Key("", rule.name))
                for name in () if check is None else config_of(check):
                    config = self._configs.get(Key("", name))
                    for cluster in () if config is None else config.spec.clusters:
                        yield queue.metadata.name, cluster, self._status_of(cluster)

    def _status_of(self, name: str) -> str:
        cluster = self._clusters.get(Key("", name))
        active = None if cluster is None else find_condition(cluster.status.conditions, "Active")
        return "Unknown" if active is None else active.status

    async def reconcile(self, key: Key) -> None:
        check = self._checks.get(key)
        if check is None or check.spec.controller_name != CONTROLLER:
            return
        now = self._context.clock.now()
        new = active_condition(check, ByName(self._configs), ByName(self._clusters), now)
        status = replace(check.status, conditions=with_condition(check.status.conditions, new))
        await send(self._context.client, status_patch(ADMISSION_CHECKS, check, status))


def active_condition(
    check: AdmissionCheck,
    configs: Mapping[str, MultiKueueConfig],
    clusters: Mapping[str, MultiKueueCluster],
    now: float,
) -> Condition:
    """Return the condition of a MultiKueue check; reasons and messages are Kueue's."""
    generation = check.metadata.generation
    problem = _reference_problem(check.spec.parameters)
    config = None
    if not problem:
        assert check.spec.parameters is not None
        config = configs.get(check.spec.parameters.name)
        if config is None:
            problem = f'{MULTIKUEUE_CONFIGS.kind}.{GROUP} "{check.spec.parameters.name}" not found'
    if config is None:
        message = f"Cannot load the AdmissionChecks parameters: {problem}"
        return c.new_condition("Active", "False", "BadConfig", message, now, generation)
    missing = [name for name in config.spec.clusters if name not in clusters]
    inactive = [
        name
        for name in config.spec.clusters
        if name in clusters and not is_true(clusters[name].status.conditions, "Active")
    ]
    if not missing and not inactive:
        return c.new_condition("Active", "True", "Active", "The admission check is active", now, generation)
    parts = (("Missing", missing), ("Inactive", inactive))
    message = ", ".join(f"{what} clusters: {_list(names)}" for what, names in parts if names)
    if len(missing) + len(inactive) < len(config.spec.clusters):
        return c.new_condition("Active", "True", "SomeActiveClusters", message, now, generation)
    return c.new_condition("Active", "False", "NoUsableClusters", message, now, generation)


def _list(names: Sequence[str]) -> str:
    """Return names as Go formats a list."""
    return f"[{' '.join(names)}]"


def _reference_problem(parameters: CheckParameters | None) -> str:
    """Return why the reference to the configuration is invalid; empty if it is valid."""
    kind = MULTIKUEUE_CONFIGS.kind
    if parameters is None:
        return "missing parameters reference"
    if not parameters.name:
        return "empty name: bad parameters reference"
    if parameters.api_group != GROUP:
        return f'wrong group "{parameters.api_group}", expecting "{GROUP}": bad parameters reference'
    if parameters.kind != kind:
        return f'wrong kind "{parameters.kind}", expecting "{kind}": bad parameters reference'
    return ""


def config_of(check: AdmissionCheck) -> tuple[str, ...]:
    """Return the name of the configuration of a MultiKueue check; empty without one, or if not ours."""
    parameters = check.spec.parameters
    if check.spec.controller_name != CONTROLLER or parameters is None or _reference_problem(parameters):
        return ()
    return (parameters.name,)

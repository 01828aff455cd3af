"""The provisioning controllers: execute the plans for provisioning checks.

They start once such a check exists and the cluster serves ProvisioningRequests.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from quorate.api.kueue import AdmissionCheck, ResourceFlavor, Workload
from quorate.api.kueue.provisioning import (
    CONTROLLER,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestConfig,
)
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext
from quorate.controllers.executor import ObjectEvent, Plan, PlanExecutor
from quorate.controllers.informers import ByName, checks_of_workload, controller_uid, synced
from quorate.controllers.limits import FEW_WORKERS, PROVISIONING_RETRY_S
from quorate.controllers.pods.constants import MANAGED
from quorate.controllers.provisioning.check_state import CREATION_ERROR, config_name, decide_active
from quorate.controllers.provisioning.provisioning_plan import (
    NewRequest,
    ProvisioningInput,
    ProvisioningPlan,
    decide,
    with_problem,
)
from quorate.kube.controller.expectations import versions
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.discovery import wait_until_served
from quorate.kube.errors import AlreadyExists, ApiError, ServerError
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import (
    POD_TEMPLATES,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
    WORKLOADS,
    reference_to,
)
from quorate.kube.writes import send, status_patch
from quorate.queueing.lifecycle.transition import Event

_BY_CHECK: Final = "workloads by check"  # index of workloads by the names of their checks
_BY_CONFIG: Final = "checks by configuration"  # index of checks by the name of their configuration
_BY_WORKLOAD: Final = "requests by workload"  # index of requests by the uid of their workload


async def run_provisioning(context: ControllerContext) -> None:
    """Wait until a provisioning check exists and the kinds are served, then run the controllers."""
    await _until_check_exists(context.informers.checks)
    for resource in (PROVISIONING_REQUESTS, PROVISIONING_REQUEST_CONFIGS):
        await wait_until_served(resource, context.client, context.clock)
    configs = Informer(context.client, PROVISIONING_REQUEST_CONFIGS)
    requests = Informer(context.client, PROVISIONING_REQUESTS)
    templates = Informer(context.client, POD_TEMPLATES, label_selector=f"{MANAGED}=true")
    async with asyncio.TaskGroup() as tasks:
        for informer in (configs, requests, templates):
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
        await synced(context.informers.checks, configs, requests, templates)
        check_controller = AdmissionCheckController(context, configs)
        controller = ProvisioningController(context, configs, requests, templates)
        for reconciler in (check_controller.reconciler, controller.reconciler):
            tasks.create_task(reconciler.run(), name=reconciler.name)


async def _until_check_exists(checks: Informer[AdmissionCheck]) -> None:
    exists = asyncio.Event()

    def on_change(change: Change[AdmissionCheck]) -> None:
        if change.new is not None and change.new.spec.controller_name == CONTROLLER:
            exists.set()

    checks.subscribe(on_change)
    await exists.wait()


class AdmissionCheckController:
    """Keeps the Active condition of each provisioning check up to date."""

    def __init__(self, context: ControllerContext, configs: Informer[ProvisioningRequestConfig]) -> None:
        self._context = context
        self._configs = configs
        self._checks = context.informers.checks
        self.reconciler = Reconciler(
            "provisioning.checks",
            self.reconcile,
            context.clock,
            FEW_WORKERS,
            report=self._checks.reconcile_failed,
        )
        self._checks.add_index(_BY_CONFIG, _config_of)
        self._checks.subscribe(lambda change: self.reconciler.enqueue(change.key))
        configs.subscribe(self._config_changed)

    def _config_changed(self, change: Change[ProvisioningRequestConfig]) -> None:
        for check in self._checks.by_index(_BY_CONFIG, change.key.name):
            self.reconciler.enqueue(check.metadata.key)

    async def reconcile(self, key: Key) -> None:
        check = self._checks.get(key)
        if check is not None:
            name = config_name(check)
            config = None if name is None else self._configs.get(Key("", name))
            await send(self._context.client, decide_active(check, config, self._context.clock.now()))


class ProvisioningController:
    """Keeps the ProvisioningRequests of each workload in sync with its check states."""

    def __init__(
        self,
        context: ControllerContext,
        configs: Informer[ProvisioningRequestConfig],
        requests: Informer[ProvisioningRequest],
        templates: Informer[PodTemplate],
    ) -> None:
        self._context = context
        self._configs = configs
        self._requests = requests
        self._templates = templates
        self._log = logger(__name__)
        self.reconciler = context.reconciler(
            "provisioning", self.reconcile, context.informers.workloads, FEW_WORKERS, PROVISIONING_REQUESTS
        )
        self._executor = PlanExecutor(context, WORKLOADS, self.reconciler.enqueue)
        informers = context.informers
        informers.workloads.add_index(_BY_CHECK, checks_of_workload)
        requests.add_index(_BY_WORKLOAD, controller_uid)
        informers.workloads.subscribe(self._workload_changed)
        informers.checks.subscribe(self._check_changed)
        informers.flavors.subscribe(self._flavor_changed)
        configs.subscribe(self._config_changed)
        requests.subscribe(self._owned_changed)
        templates.subscribe(self._owned_changed)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.new is None:
            self._executor.forget(change.key)  # its requests are garbage-collected
        elif change.new.status.admission_checks or self._requests.by_index(
            _BY_WORKLOAD, change.new.metadata.uid
        ):
            self.reconciler.enqueue(change.key)

    def _check_changed(self, change: Change[AdmissionCheck]) -> None:
        self._enqueue_by_check(change.key.name)

    def _config_changed(self, change: Change[ProvisioningRequestConfig]) -> None:
        for check in self._context.informers.checks.by_index(_BY_CONFIG, change.key.name):
            self._enqueue_by_check(check.metadata.name)

    def _flavor_changed(self, change: Change[ResourceFlavor]) -> None:
        if change.old is None:  # a new request may wait for it
            for check in self._context.informers.checks:
                self._enqueue_by_check(check.metadata.name)

    def _enqueue_by_check(self, check: str) -> None:
        for workload in self._context.informers.workloads.by_index(_BY_CHECK, check):
            self.reconciler.enqueue(workload.metadata.key)

    def _owned_changed(self, change: Change[ProvisioningRequest] | Change[PodTemplate]) -> None:
        for obj in change.versions:
            owner = obj.metadata.controller
            if owner is not None and owner.kind == WORKLOADS.kind:
                self.reconciler.enqueue(Key(change.key.namespace, owner.name))

    async def reconcile(self, key: Key) -> float | None:
        workload = self._context.informers.workloads.get(key)
        if workload is None:
            return None
        now = self._context.clock.now()
        requests = self._requests.by_index(_BY_WORKLOAD, workload.metadata.uid)
        seen = versions(WORKLOADS, (workload,)) | versions(PROVISIONING_REQUESTS, requests)
        until = self._executor.pending_until(key, seen)
        if until is not None:
            return until
        plan = decide(
            ProvisioningInput(
                workload,
                dict(self._configs_of(workload)),
                requests,
                self._templates.get,
                ByName(self._context.informers.flavors),
                self._context.configuration.gates.cleanup_provisioning_requests_on_eviction,
                now,
            )
        )
        return await self._execute(workload, plan, now)

    def _configs_of(self, workload: Workload) -> Iterator[tuple[str, ProvisioningRequestConfig | None]]:
        for state in workload.status.admission_checks:
            check = self._context.informers.checks.get(Key("", state.name))
            if check is not None and check.spec.controller_name == CONTROLLER:
                name = config_name(check)
                yield state.name, None if name is None else self._configs.get(Key("", name))

    async def _execute(self, workload: Workload, plan: ProvisioningPlan, now: float) -> float | None:
        key = workload.metadata.key

        def on_written(stored: list[Workload]) -> None:
            nonlocal workload
            workload = stored[-1]

        status = status_patch(WORKLOADS, workload, plan.status)
        events = _object_events(workload, *plan.events)
        await self._executor.execute(key, Plan(writes=status, events=events), on_written if status else None)
        await self._executor.execute(key, Plan(writes=(*plan.deletions, *plan.template_owners)))
        for new in plan.new:
            await self._create(workload, new)
        return now + PROVISIONING_RETRY_S if any(new.waits_for for new in plan.new) else None

    async def _create(self, workload: Workload, new: NewRequest) -> None:
        if new.problem:
            await self._report_problem(workload, new.check, new.problem)
            return
        if not new.writes:
            return
        created = Event("Normal", "ProvisioningRequestCreated", f'Created ProvisioningRequest: "{new.name}"')
        plan = Plan(writes=new.writes, events=_object_events(workload, created))
        try:
            await self._executor.execute(workload.metadata.key, plan)
        except AlreadyExists:
            # Mostly an earlier write created it, and the next reconciliation finds it.
            await self._report_foreign_templates(workload, new)
            raise
        except ServerError:
            raise  # it is not about the request
        except ApiError as refusal:
            problem = f'{CREATION_ERROR}ProvisioningRequest "{new.name}": {refusal.message}'
            await self._report_problem(workload, new.check, problem)
            raise
        self._log.info("ProvisioningRequest created", key=workload.metadata.key, request=new.name)

    async def _report_foreign_templates(self, workload: Workload, new: NewRequest) -> None:
        """Name a PodTemplate without our label that has the name of one to create."""
        for write in new.writes:
            if write.resource is not POD_TEMPLATES:
                continue
            name = write.body["metadata"].name
            stored = await self._context.client.find(POD_TEMPLATES, Key(workload.metadata.namespace, name))
            if stored is None:
                continue
            if stored.metadata.labels.get(MANAGED) != "true":
                problem = f'{CREATION_ERROR}PodTemplate "{name}": another one has its name (delete that)'
                await self._report_problem(workload, new.check, problem)

    async def _report_problem(self, workload: Workload, check: str, problem: str) -> None:
        """Write the problem into the check's state on the workload, unless it is there already."""
        writes = status_patch(WORKLOADS, workload, with_problem(workload, check, problem))
        if writes:
            events = _object_events(workload, Event("Warning", "FailedCreate", problem))
            await self._executor.execute(workload.metadata.key, Plan(writes=writes, events=events))


def _object_events(workload: Workload, *events: Event) -> tuple[ObjectEvent, ...]:
    return tuple(ObjectEvent(reference_to(WORKLOADS, workload.metadata), event) for event in events)


def _config_of(check: AdmissionCheck) -> tuple[str, ...]:
    name = config_name(check)
    return () if name is None else (name,)

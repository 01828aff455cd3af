"""Carrying out what is decided for the admission checks that ask an autoscaler for capacity.

Nothing of this runs until there is such a check and the cluster serves ProvisioningRequests.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from quorate.api.kueue import AdmissionCheck, ResourceFlavor, Workload
from quorate.api.kueue.provisioning import PodTemplate, ProvisioningRequest, ProvisioningRequestConfig
from quorate.api.meta import Key, Uid
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import ByName, synced
from quorate.controllers.jobs.integrations import until_served
from quorate.controllers.pods.constants import MANAGED
from quorate.controllers.provisioning.check_activity import config_name, decide_active
from quorate.controllers.provisioning.provisioning_plan import (
    NewRequest,
    ProvisioningInput,
    ProvisioningPlan,
    decide,
    with_problem,
)
from quorate.controllers.provisioning.request_names import CONTROLLER
from quorate.kube.errors import AlreadyExists, ApiError, ServerError
from quorate.kube.expectations import Expectations, versions
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import (
    POD_TEMPLATES,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
    WORKLOADS,
    reference_to,
)
from quorate.kube.writes import send, status_patch

WORKERS: Final = 4
LOOK_AGAIN_S: Final = 1.0  # while something of before is on its way out
_WAITING_FOR: Final = "waiting for check"  # index of workloads by the names of their checks
_CONFIGURED_BY: Final = "configured by"  # index of checks by the name of their configuration
_OF: Final = "requests of"  # index of requests by the uid of their workload


async def run_provisioning(context: ControllerContext) -> None:
    """Wait until it is of use, then make and follow requests for capacity until cancelled."""
    await _until_wanted(context.informers.checks)
    for resource in (PROVISIONING_REQUESTS, PROVISIONING_REQUEST_CONFIGS):
        await until_served(resource, context.client, context.clock)
    configs = Informer(context.client, PROVISIONING_REQUEST_CONFIGS)
    requests = Informer(context.client, PROVISIONING_REQUESTS)
    templates = Informer(context.client, POD_TEMPLATES, label_selector=f"{MANAGED}=true")
    async with asyncio.TaskGroup() as tasks:
        for informer in (configs, requests, templates):
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
        await synced(configs, requests, templates)
        activity = AdmissionCheckController(context, configs)
        controller = ProvisioningController(context, configs, requests, templates)
        for reconciler in (activity.reconciler, controller.reconciler):
            tasks.create_task(reconciler.run(), name=reconciler.name)


async def _until_wanted(checks: Informer[AdmissionCheck]) -> None:
    wanted = asyncio.Event()

    def look(change: Change[AdmissionCheck]) -> None:
        if change.new is not None and change.new.spec.controller_name == CONTROLLER:
            wanted.set()

    checks.subscribe(look)
    await wanted.wait()


class AdmissionCheckController:
    """Says of each check of ours whether it can be made."""

    def __init__(self, context: ControllerContext, configs: Informer[ProvisioningRequestConfig]) -> None:
        self._context = context
        self._configs = configs
        self._checks = context.informers.checks
        self.reconciler = Reconciler("provisioning.checks", self.reconcile, context.clock, WORKERS)
        self._checks.add_index(_CONFIGURED_BY, _config_of)
        self._checks.subscribe(lambda change: self.reconciler.enqueue(change.key))
        configs.subscribe(self._config_changed)

    def _config_changed(self, change: Change[ProvisioningRequestConfig]) -> None:
        for check in self._checks.by_index(_CONFIGURED_BY, change.key.name):
            self.reconciler.enqueue(check.metadata.key)

    async def reconcile(self, key: Key) -> None:
        check = self._checks.get(key)
        if check is not None:
            name = config_name(check)
            config = None if name is None else self._configs.get(Key("", name))
            await send(self._context.client, decide_active(check, config, self._context.clock.now()))


class ProvisioningController:
    """Keeps the requests of each workload, and its checks of ours, in step with each other."""

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
        self._expectations = Expectations(context.clock)
        self._log = logger(__name__)
        workers = context.workers_for(PROVISIONING_REQUESTS, WORKERS)
        self.reconciler = Reconciler("provisioning", self.reconcile, context.clock, workers)
        informers = context.informers
        informers.workloads.add_index(_WAITING_FOR, _checks_of)
        requests.add_index(_OF, _workload_uid)
        informers.workloads.subscribe(self._workload_changed)
        informers.checks.subscribe(self._check_changed)
        informers.flavors.subscribe(self._flavor_changed)
        configs.subscribe(self._config_changed)
        requests.subscribe(self._owned_changed)
        templates.subscribe(self._owned_changed)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.new is None:
            self._expectations.forget(change.key)  # what it owned is garbage
        elif change.new.status.admission_checks or self._requests.by_index(_OF, change.new.metadata.uid):
            self.reconciler.enqueue(change.key)

    def _check_changed(self, change: Change[AdmissionCheck]) -> None:
        self._enqueue_waiting_for(change.key.name)

    def _config_changed(self, change: Change[ProvisioningRequestConfig]) -> None:
        for check in self._context.informers.checks.by_index(_CONFIGURED_BY, change.key.name):
            self._enqueue_waiting_for(check.metadata.name)

    def _flavor_changed(self, change: Change[ResourceFlavor]) -> None:
        if change.old is None:  # a request may wait for it
            for check in self._context.informers.checks:
                self._enqueue_waiting_for(check.metadata.name)

    def _enqueue_waiting_for(self, check: str) -> None:
        for workload in self._context.informers.workloads.by_index(_WAITING_FOR, check):
            self.reconciler.enqueue(workload.metadata.key)

    def _owned_changed(self, change: Change[ProvisioningRequest] | Change[PodTemplate]) -> None:
        for each in (change.old, change.new):
            owner = None if each is None else each.metadata.controller
            if owner is not None and owner.kind == WORKLOADS.kind:
                self.reconciler.enqueue(Key(change.key.namespace, owner.name))

    async def reconcile(self, key: Key) -> float | None:
        workload = self._context.informers.workloads.get(key)
        if workload is None:
            return None
        now = self._context.clock.now()
        requests = self._requests.by_index(_OF, workload.metadata.uid)
        seen = versions(WORKLOADS, (workload,)) | versions(PROVISIONING_REQUESTS, requests)
        until = self._expectations.pending_until(key, seen)
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
        return await self._carry_out(workload, plan, now)

    def _configs_of(self, workload: Workload) -> Iterator[tuple[str, ProvisioningRequestConfig | None]]:
        for state in workload.status.admission_checks:
            check = self._context.informers.checks.get(Key("", state.name))
            if check is not None and check.spec.controller_name == CONTROLLER:
                name = config_name(check)
                yield state.name, None if name is None else self._configs.get(Key("", name))

    async def _carry_out(self, workload: Workload, plan: ProvisioningPlan, now: float) -> float | None:
        client, key = self._context.client, workload.metadata.key
        patches = status_patch(WORKLOADS, workload, plan.status)
        for answer in await send(client, patches):
            workload = answer
        self._tell_all(workload, plan)
        await send(client, (*plan.surplus, *plan.handovers))
        for new in plan.new:
            await self._make(workload, new)
        made = [write for new in plan.new for write in new.writes]
        self._expectations.expect(key, (*patches, *plan.surplus, *made))
        return now + LOOK_AGAIN_S if any(new.waits_for for new in plan.new) else None

    def _tell_all(self, workload: Workload, plan: ProvisioningPlan) -> None:
        for event in plan.events:
            self._context.events.event(
                reference_to(WORKLOADS, workload), event.type, event.reason, event.message
            )
            self._log.info("check", key=workload.metadata.key, became=event.reason, note=event.message)

    async def _make(self, workload: Workload, new: NewRequest) -> None:
        about = reference_to(WORKLOADS, workload)
        if new.problem:
            await self._tell_problem(workload, new.check, new.problem)
            return
        if not new.writes:
            return
        try:
            await send(self._context.client, new.writes)
        except AlreadyExists:
            raise  # made by ourselves, and its news on the way: the next look finds it
        except ServerError:
            raise  # nobody's fault but the server's
        except ApiError as refused:
            problem = f'Error creating ProvisioningRequest "{new.name}": {refused.message}'
            await self._tell_problem(workload, new.check, problem)
            raise
        text = f'Created ProvisioningRequest: "{new.name}"'
        self._context.events.event(about, "Normal", "ProvisioningRequestCreated", text)
        self._log.info("capacity asked for", key=workload.metadata.key, request=new.name)

    async def _tell_problem(self, workload: Workload, check: str, problem: str) -> None:
        """On the workload, where its users look; once, while it is the same problem."""
        patches = status_patch(WORKLOADS, workload, with_problem(workload, check, problem))
        if patches:
            about = reference_to(WORKLOADS, workload)
            self._context.events.event(about, "Warning", "FailedCreate", problem)
            await send(self._context.client, patches)


def _config_of(check: AdmissionCheck) -> tuple[str, ...]:
    name = config_name(check)
    return () if name is None else (name,)


def _checks_of(workload: Workload) -> tuple[str, ...]:
    return tuple(check.name for check in workload.status.admission_checks)


def _workload_uid(request: ProvisioningRequest) -> tuple[Uid, ...]:
    owner = request.metadata.controller
    return () if owner is None else (owner.uid,)
